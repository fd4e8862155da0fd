// Which image files a data set has: from a tree of folders, or from a list.
#pragma once

#include <adret/data/image_folder.h>

#include <filesystem>
#include <string>
#include <vector>

namespace adret {

struct ImageList {
  std::vector<ImageFolder::Item> items;
  std::vector<ImageFolder::Skipped> skipped;
  std::vector<std::string> classes;
};

// Both throw DataError as ImageFolder says; with bad_files = skip they collect in `skipped`.
ImageList list_folder(const std::filesystem::path& folder, const ImageFolderOptions& options);
ImageList read_list(const std::filesystem::path& list, const ImageFolderOptions& options);

}  // namespace adret
