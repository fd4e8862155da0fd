// The environment variable ADRET_DATA, set for the length of a test.
#pragma once

#include <cstdlib>
#include <filesystem>
#include <optional>
#include <string>

namespace adret::test {

// Sets ADRET_DATA while it lives.
class DataVariable {
 public:
  explicit DataVariable(const std::filesystem::path& value) {
    if (const char* before = std::getenv("ADRET_DATA")) before_ = before;
    setenv("ADRET_DATA", value.c_str(), 1);
  }
  ~DataVariable() {
    if (before_)
      setenv("ADRET_DATA", before_->c_str(), 1);
    else
      unsetenv("ADRET_DATA");
  }
  DataVariable(const DataVariable&) = delete;
  DataVariable& operator=(const DataVariable&) = delete;

 private:
  std::optional<std::string> before_;
};

}  // namespace adret::test
