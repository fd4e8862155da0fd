// Temporary file, fsync, rename.
#include <adret/core/error.h>
#include <adret/train/atomic_file.h>
#include <fcntl.h>
#include <fmt/core.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstring>
#include <utility>

namespace adret {
namespace {

namespace fs = std::filesystem;

std::atomic<unsigned> files_begun = 0;

}  // namespace

AtomicFile::AtomicFile(const fs::path& path) : path_(path) {
  std::error_code ignored;
  if (fs::exists(path, ignored) && !fs::is_regular_file(path, ignored)) {
    throw CheckpointError(
        fmt::format("[save] {} is not a file; give the name of one", path.string()));
  }
  do {
    temporary_ = path;
    temporary_ += fmt::format(".{}-{}.tmp", getpid(), files_begun++);
    file_ = open(temporary_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
  } while (file_ < 0 && errno == EEXIST);
  if (file_ < 0) fail("create");
}

AtomicFile::~AtomicFile() {
  if (file_ >= 0) close(file_);
  if (!temporary_.empty()) unlink(temporary_.c_str());
}

void AtomicFile::fail(const char* action) const {
  throw CheckpointError(fmt::format("[save] cannot {} {}: {}; what was at {} is unchanged", action,
                                    temporary_.string(), std::strerror(errno), path_.string()));
}

void AtomicFile::write(std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const ssize_t written = ::write(file_, bytes.data(), bytes.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) fail("write");
    bytes = bytes.subspan(size_t(written));
  }
}

void AtomicFile::commit() {
  // The data must be on the disk before the name is: after a crash the name may be all there is.
  if (fsync(file_) != 0) fail("sync");
  if (close(std::exchange(file_, -1)) != 0) fail("close");
  if (rename(temporary_.c_str(), path_.c_str()) != 0) fail("rename");
  temporary_.clear();
  const fs::path folder = path_.has_parent_path() ? path_.parent_path() : fs::path(".");
  const int directory = open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (directory < 0) return;  // the new file is in place; only its name could be lost in a crash
  fsync(directory);
  close(directory);
}

}  // namespace adret
