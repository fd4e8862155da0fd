// Opening and reading through the system's calls, without a buffer in between.
#include <adret/core/error.h>
#include <adret/data/file_kind.h>
#include <adret/data/input_file.h>
#include <fcntl.h>
#include <fmt/core.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>

namespace adret {

InputFile::InputFile(const char* function, const std::filesystem::path& path)
    : function_(function), path_(path.string()) {
  // Without waiting for a writer, should it be a named pipe.
  descriptor_ = open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (descriptor_ < 0) {
    fail(errno == ENOENT ? "there is no such file"
                         : fmt::format("it cannot be opened: {}", std::strerror(errno)));
  }
  struct stat status {};
  if (fstat(descriptor_, &status) != 0 || !S_ISREG(status.st_mode)) {
    close(descriptor_);
    fail("this is not a file");
  }
  size_ = uint64_t(status.st_size);
}

InputFile::~InputFile() { close(descriptor_); }

void InputFile::read(uint64_t offset, std::span<std::byte> to) const {
  while (!to.empty()) {
    const ssize_t got = pread(descriptor_, to.data(), to.size(), off_t(offset));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) {
      fail(fmt::format("it cannot be read at offset {}: {}", offset, std::strerror(errno)));
    }
    if (got == 0) {
      fail(fmt::format("it had {} bytes when opened and ends at {} now", size_, offset));
    }
    offset += uint64_t(got);
    to = to.subspan(size_t(got));
  }
}

std::string InputFile::content() const {
  std::array<std::byte, 32> first;
  const std::span known(first.data(), size_t(std::min<uint64_t>(size_, first.size())));
  read(0, known);
  return describe_content(known);
}

void InputFile::fail(const std::string& problem) const {
  throw DataError(fmt::format("[{}] {}: {}", function_, path_, problem));
}

}  // namespace adret
