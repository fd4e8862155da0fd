// The places of data sets, and the folders in them.
#include <adret/core/error.h>
#include <adret/data/find_folder.h>
#include <adret/data/places.h>
#include <fmt/core.h>

#include <cstdlib>

namespace adret {

namespace fs = std::filesystem;

std::vector<fs::path> data_places(const fs::path& given) {
  if (!given.empty()) return {given};
  std::vector<fs::path> places;
  if (const char* folder = std::getenv("ADRET_DATA"); folder && *folder)
    places.emplace_back(folder);
  places.emplace_back("datasets");
  return places;
}

// The place itself and its subfolders, as far as they are folders.
std::vector<fs::path> WantedFolder::candidates(const fs::path& place) const {
  std::vector<fs::path> folders;
  std::error_code ignored;
  if (fs::is_directory(place, ignored)) folders.push_back(place);
  for (const char* name : subfolders) {
    if (fs::is_directory(place / name, ignored)) folders.push_back(place / name);
  }
  return folders;
}

std::optional<fs::path> WantedFolder::find(const std::vector<fs::path>& places) const {
  for (const fs::path& place : places) {
    for (const fs::path& folder : candidates(place)) {
      if (missing(folder).empty()) return folder;
    }
  }
  return std::nullopt;
}

fs::path WantedFolder::find_or_throw(const fs::path& given) const {
  const std::vector<fs::path> places = data_places(given);
  if (const auto folder = find(places)) return *folder;
  std::string looked;
  for (const fs::path& place : places) {
    const std::vector<fs::path> folders = candidates(place);
    if (folders.empty()) looked += fmt::format("\n  {}: no such folder", place.string());
    for (const fs::path& folder : folders) {
      looked += fmt::format("\n  {}: lacks {}", folder.string(), missing(folder));
    }
  }
  throw DataError(fmt::format(
      "[{}] found no folder with {}; looked at{}\nPass their folder, or set the environment "
      "variable ADRET_DATA to it",
      function, what, looked));
}

}  // namespace adret
