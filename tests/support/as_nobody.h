// Tests of permissions, which do not bind root.
#pragma once

#include <gtest/gtest.h>
#include <unistd.h>

namespace adret::test {

// While it lives, a process of root's is one of somebody without rights.
class AsNobody {
 public:
  AsNobody() : user_(geteuid()) {
    if (user_ == 0) {
      EXPECT_EQ(seteuid(65534), 0);
    }
  }
  ~AsNobody() { EXPECT_EQ(seteuid(user_), 0); }
  AsNobody(const AsNobody&) = delete;
  AsNobody& operator=(const AsNobody&) = delete;

 private:
  uid_t user_;
};

}  // namespace adret::test
