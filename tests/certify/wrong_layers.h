// What the tests of certify() share: a certificate that fails in one check alone.
#pragma once

#include <adret/certify/certify.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "tests/support/mirror.h"

namespace adret::test {

// Small numbers of calls, so that a test is quick; on the CPU alone.
inline CertifyOptions quick(CertifyOptions options = {}) {
  options.calls = 60;
  options.gradient_elements = 12;
  options.device = "cpu";
  return options;
}

// The named row failed with that text, and no other did.
inline void expect_failure(const Certificate& certificate, const std::string& check,
                           const std::string& text) {
  const CertificateRow& row = certificate.row(check);
  EXPECT_EQ(row.verdict, Verdict::failed) << certificate;
  EXPECT_PRED_FORMAT2(testing::IsSubstring, text, row.reason);
  for (const CertificateRow& other : certificate.rows) {
    const bool is_wrong = other.check != check && other.verdict == Verdict::failed;
    EXPECT_FALSE(is_wrong) << certificate;
  }
  EXPECT_FALSE(certificate.passed());
}

}  // namespace adret::test
