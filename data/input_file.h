// A file read by offset: its size is known from the start, and what goes wrong names its path.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>

namespace adret {

// Several threads may read at a time.
class InputFile {
 public:
  // `function` begins the messages. Throws DataError when there is no file to read at the path.
  InputFile(const char* function, const std::filesystem::path& path);
  ~InputFile();
  InputFile(const InputFile&) = delete;
  InputFile& operator=(const InputFile&) = delete;

  uint64_t size() const { return size_; }
  // Fills `to` from `offset` on. Throws DataError when that cannot be read, or the file ends there.
  void read(uint64_t offset, std::span<std::byte> to) const;
  // What the file begins with, as describe_content says it.
  std::string content() const;
  // Throws a DataError with the path.
  [[noreturn]] void fail(const std::string& problem) const;

 private:
  const char* function_;
  std::string path_;
  int descriptor_ = -1;
  uint64_t size_ = 0;
};

}  // namespace adret
