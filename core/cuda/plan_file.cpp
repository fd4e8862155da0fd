// Reading, merging and replacing of the files of choices.
#include <adret/core/cuda/device.h>
#include <adret/core/cuda/plan_file.h>
#include <fcntl.h>
#include <fmt/core.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <map>
#include <memory>
#include <string_view>
#include <thread>
#include <tuple>

namespace adret::cuda {
namespace {

constexpr int schema = 2;

using namespace std::chrono_literals;

class File {
 public:
  File(const std::filesystem::path& path, int flags)
      : number_(open(path.c_str(), flags | O_CLOEXEC, 0644)) {}
  ~File() { close(); }
  File(const File&) = delete;
  File& operator=(const File&) = delete;
  explicit operator bool() const { return number_ >= 0; }

  std::string read_all() const {
    std::string text;
    struct stat status {};
    if (fstat(number_, &status) == 0) text.reserve(size_t(std::max<off_t>(status.st_size, 0)));
    char part[1 << 16];
    for (ssize_t count; (count = ::read(number_, part, sizeof(part))) > 0;) {
      text.append(part, size_t(count));
    }
    return text;
  }
  bool write_all(std::string_view text) const {
    while (!text.empty()) {
      const ssize_t count = ::write(number_, text.data(), text.size());
      if (count <= 0) return false;
      text.remove_prefix(size_t(count));
    }
    return true;
  }
  // A process that stopped while it held the lock must not stop this one: a second, then without.
  bool lock() const {
    for (int tries = 0; tries < 200; ++tries) {
      if (flock(number_, LOCK_EX | LOCK_NB) == 0) return true;
      if (errno != EWOULDBLOCK) return false;
      std::this_thread::sleep_for(5ms);
    }
    return false;
  }
  bool close() {
    const bool closed = number_ < 0 || ::close(number_) == 0;
    number_ = -1;
    return closed;
  }

 private:
  int number_;
};

uint64_t hash(std::string_view text) {
  uint64_t hash = 1469598103934665603u;  // FNV-1a
  for (const char c : text) hash = (hash ^ uint8_t(c)) * 1099511628211u;
  return hash;
}

std::filesystem::path folder() {
  if (const char* named = std::getenv("ADRET_CACHE")) {
    return std::string_view(named) == "off" ? "" : named;
  }
  for (const auto& [variable, below] :
       {std::pair("XDG_CACHE_HOME", "adret"), std::pair("HOME", ".cache/adret")}) {
    const char* value = std::getenv(variable);
    if (value && *value == '/') return std::filesystem::path(value) / below;
  }
  return {};
}

bool fits_a_line(std::string_view text) {
  return text.find_first_of("\t\r\n") == std::string_view::npos;
}

}  // namespace

PlanFile& PlanFile::of(const Context& context, const std::string& family, size_t library_version) {
  using Key = std::tuple<int, std::string, size_t>;
  // Leaked, so that it outlasts whatever uses it; what is pending is written at exit.
  static std::mutex mutex;
  static auto& files = *new std::map<Key, std::unique_ptr<PlanFile>>;
  static const bool at_exit = std::atexit([] {
                                for (const auto& [key, file] : files) file->flush();
                              }) == 0;
  static_cast<void>(at_exit);

  const std::lock_guard lock(mutex);
  std::unique_ptr<PlanFile>& file = files[Key(context.index, family, library_version)];
  if (!file) {
    int driver = 0, runtime = 0;
    cudaDriverGetVersion(&driver);
    cudaRuntimeGetVersion(&runtime);
    const cudaDeviceProp& gpu = context.properties;
    file = std::make_unique<PlanFile>(
        folder(), family,
        fmt::format("{}, compute capability {}.{}, {} multiprocessors, driver {} ({}), runtime {}, "
                    "library {}",
                    gpu.name, gpu.major, gpu.minor, gpu.multiProcessorCount, driver,
                    driver_release(), runtime, library_version));
  }
  return *file;
}

PlanFile::PlanFile(std::filesystem::path folder, std::string family, std::string description)
    : header_(fmt::format("adret plans {}, {}, {}", schema, family, description)) {
  if (!folder.empty()) path_ = folder / fmt::format("{}-{:016x}.txt", family, hash(header_));
}

void PlanFile::read_into(Choices& choices) const {
  const File file(path_, O_RDONLY);
  if (!file) return;
  const std::string text = file.read_all();
  std::string_view rest = text;
  bool is_header = true;
  // A last line without its end was cut off.
  for (size_t end; (end = rest.find('\n')) != std::string_view::npos; rest.remove_prefix(end + 1)) {
    const std::string_view line = rest.substr(0, end);
    if (is_header) {
      if (line != header_) return;
      is_header = false;
      continue;
    }
    const size_t tab = line.find('\t');
    if (tab == 0 || tab == std::string_view::npos || !fits_a_line(line.substr(tab + 1))) continue;
    choices.insert_or_assign(std::string(line.substr(0, tab)), std::string(line.substr(tab + 1)));
  }
}

void PlanFile::read_once() {
  if (read_) return;
  read_ = true;
  if (!path_.empty()) read_into(choices_);
}

std::optional<std::string> PlanFile::find(const std::string& key) {
  const std::lock_guard lock(mutex_);
  read_once();
  const auto found = choices_.find(key);
  if (found == choices_.end()) return std::nullopt;
  return found->second;
}

void PlanFile::store(const std::string& key, const std::string& choice) {
  if (key.empty() || !fits_a_line(key) || !fits_a_line(choice)) return;
  const std::lock_guard lock(mutex_);
  read_once();
  choices_.insert_or_assign(key, choice);
  if (path_.empty()) return;
  pending_.insert_or_assign(key, choice);
  if (std::chrono::steady_clock::now() - written_ > 100ms) write_pending();
}

void PlanFile::flush() {
  const std::lock_guard lock(mutex_);
  if (!pending_.empty()) write_pending();
}

void PlanFile::write_pending() {
  try {
    std::filesystem::create_directories(path_.parent_path());
    const File guard(path_.string() + ".lock", O_RDWR | O_CREAT);
    if (!guard) {
      pending_.clear();  // the folder cannot be written: it is not asked again for these
      return;
    }
    guard.lock();  // without it another's choices may get lost, but no file is ever half written
    Choices merged;
    read_into(merged);
    for (const auto& [key, choice] : pending_) {
      if (merged.size() < most_choices || merged.contains(key))
        merged.insert_or_assign(key, choice);
    }
    write(merged);
  } catch (const std::exception&) {
    // No folder, no memory: the next process searches again.
  }
  pending_.clear();
  written_ = std::chrono::steady_clock::now();
}

void PlanFile::write(const Choices& choices) const {
  std::string text = header_ + '\n';
  for (const auto& [key, choice] : choices) {
    text.append(key).append(1, '\t').append(choice).append(1, '\n');
  }
  const std::string temporary = fmt::format("{}.{}", path_.string(), getpid());
  File file(temporary, O_WRONLY | O_CREAT | O_TRUNC);
  if (!file) return;
  const bool written = file.write_all(text) && file.close();
  if (!written || std::rename(temporary.c_str(), path_.c_str()) != 0) unlink(temporary.c_str());
}

}  // namespace adret::cuda
