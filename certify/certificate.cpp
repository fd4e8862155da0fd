// The table of a certificate.
#include <adret/certify/certificate.h>
#include <adret/core/error.h>
#include <fmt/core.h>

#include <algorithm>
#include <ostream>

namespace adret {

const char* name(Verdict verdict) {
  switch (verdict) {
    case Verdict::passed: return "passed";
    case Verdict::failed: return "FAILED";
    case Verdict::refused: return "refused";
    case Verdict::skipped: return "skipped";
  }
  return "";
}

bool Certificate::passed() const {
  return std::ranges::none_of(
      rows, [](const CertificateRow& row) { return row.verdict == Verdict::failed; });
}

const CertificateRow& Certificate::row(const std::string& check) const {
  const auto found = std::ranges::find(rows, check, &CertificateRow::check);
  if (found != rows.end()) return *found;
  std::string known;
  for (const CertificateRow& row : rows) known += (known.empty() ? "" : ", ") + row.check;
  throw Error(fmt::format("[certificate] {} has no row \"{}\"; it has {}", subject, check, known));
}

std::string to_string(const Certificate& certificate) {
  int64_t counts[4] = {};
  size_t width = 5;
  for (const CertificateRow& row : certificate.rows) {
    ++counts[size_t(row.verdict)];
    width = std::max(width, row.check.size());
  }
  std::string text = fmt::format("{}: {} passed, {} failed, {} refused, {} skipped\n",
                                 certificate.subject, counts[0], counts[1], counts[2], counts[3]);
  text += fmt::format("  {:<{}} | result  | reason\n", "check", width);
  for (const CertificateRow& row : certificate.rows) {
    text += fmt::format("  {:<{}} | {:<7} |{}\n", row.check, width, name(row.verdict),
                        row.reason.empty() ? "" : " " + row.reason);
  }
  return text;
}

std::ostream& operator<<(std::ostream& out, const Certificate& certificate) {
  return out << to_string(certificate);
}

}  // namespace adret
