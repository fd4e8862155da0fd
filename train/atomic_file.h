// A file that replaces another one only when it is complete.
#pragma once

#include <cstddef>
#include <filesystem>
#include <span>

namespace adret {

// Writes to a temporary file in the same folder; commit() syncs it to the disk and renames it over
// `path`. Without commit(), or when anything fails, the file that was there stays. Throws
// CheckpointError with the path and the system's reason.
class AtomicFile {
 public:
  explicit AtomicFile(const std::filesystem::path& path);
  ~AtomicFile();
  AtomicFile(const AtomicFile&) = delete;
  AtomicFile& operator=(const AtomicFile&) = delete;

  void write(std::span<const std::byte> bytes);
  void commit();

 private:
  [[noreturn]] void fail(const char* action) const;

  std::filesystem::path path_, temporary_;
  int file_ = -1;
};

}  // namespace adret
