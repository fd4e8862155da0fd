// Choices of algorithms kept on disk, so that a later process need not search again.
#pragma once

#include <adret/core/cuda/context.h>

#include <chrono>
#include <filesystem>
#include <mutex>
#include <optional>
#include <string>
#include <unordered_map>

namespace adret::cuda {

// A file of lines "key TAB choice" behind a header that says for what device and which versions
// they hold; the file's name has a hash of it. It is a cache: what cannot be read or written, or
// was written for something else, counts as absent, and nothing here throws. Thread-safe; processes
// may share a folder.
class PlanFile {
 public:
  // In $ADRET_CACHE, else $XDG_CACHE_HOME/adret, else ~/.cache/adret; ADRET_CACHE empty or "off"
  // keeps nothing. One a device and family ("conv", "matmul"), never destroyed.
  static PlanFile& of(const Context& context, const std::string& family, size_t library_version);

  // An empty folder keeps nothing on disk. `description`: one line of what the choices depend on.
  PlanFile(std::filesystem::path folder, std::string family, std::string description);
  ~PlanFile() { flush(); }
  PlanFile(const PlanFile&) = delete;
  PlanFile& operator=(const PlanFile&) = delete;

  // The first call reads the file.
  std::optional<std::string> find(const std::string& key);
  // Replaces the key's choice. Neither may have tabs or line ends. Written at once, or, within a
  // tenth of a second after the last write, with a later one or at the end of the process.
  void store(const std::string& key, const std::string& choice);
  // Writes what is not written yet, together with what other processes have written meanwhile.
  void flush();

  const std::filesystem::path& path() const { return path_; }

 private:
  using Choices = std::unordered_map<std::string, std::string>;
  static constexpr size_t most_choices = 20'000;

  void read_once();
  void read_into(Choices& choices) const;
  void write(const Choices& choices) const;
  void write_pending();

  std::mutex mutex_;
  std::string header_;
  std::filesystem::path path_;
  Choices choices_, pending_;
  bool read_ = false;
  std::chrono::steady_clock::time_point written_{};
};

}  // namespace adret::cuda
