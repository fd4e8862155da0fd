// What certify() found: a row for each check, with the reason.
#pragma once

#include <iosfwd>
#include <string>
#include <vector>

namespace adret {

enum class Verdict {
  passed,
  failed,
  refused,  // the layer says itself that it does not do this: no failure
  skipped   // not asked for, or nothing to check it on
};
const char* name(Verdict verdict);

struct CertificateRow {
  std::string check;  // "gradients", or with what it was made on: "repeatable: cuda:0"
  Verdict verdict = Verdict::passed;
  std::string reason;
};

struct Certificate {
  std::string subject;  // "Linear (4, 8)"
  std::vector<CertificateRow> rows;

  // No row failed.
  bool passed() const;
  // The first row of that name; throws Error when there is none.
  const CertificateRow& row(const std::string& check) const;
};

// A table: check | result | reason.
std::string to_string(const Certificate& certificate);
std::ostream& operator<<(std::ostream& out, const Certificate& certificate);

}  // namespace adret
