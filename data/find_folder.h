// Finding the folder that holds a data set's files.
#pragma once

#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace adret {

// What a data set's folder is called and holds.
struct WantedFolder {
  const char* function;  // that looks for it, for messages
  const char* what;      // "the four files of MNIST, gzipped or not"
  std::span<const char* const> subfolders;
  // Names of the files that a folder lacks, and what may help; empty if it has them all.
  std::string (*missing)(const std::filesystem::path& folder);

  // The first place, or subfolder of it, that lacks nothing.
  std::optional<std::filesystem::path> find(const std::vector<std::filesystem::path>& places) const;
  // The same in data_places(given). Throws DataError that lists what was looked at.
  std::filesystem::path find_or_throw(const std::filesystem::path& given) const;

 private:
  std::vector<std::filesystem::path> candidates(const std::filesystem::path& place) const;
};

}  // namespace adret
