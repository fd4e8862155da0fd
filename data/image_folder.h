// Data sets of image files: a folder for each class, or a list of files with their labels.
#pragma once

#include <adret/core/size2.h>
#include <adret/data/dataset.h>

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

namespace adret {

// A file that is no image, damaged or not to be read; a folder of a class without images.
enum class BadFiles { error, skip };

struct ImageFolderOptions {
  // 1 gray, 3 RGB, 4 RGBA, whatever the files have; 0: the files' own, which must be alike.
  int channels = 3;
  // First every image is resized (data/resize.h) to a size, or so that its shorter side has a
  // length; then its centre is cut out. Unset: images must be of one size. An image to be
  // enlarged by its shorter side is a bad file if the other one is over 64 times as long.
  Size2 resize = {};
  int64_t resize_shorter_side = 0;
  Size2 center_crop = {};
  // error: listing throws for what it sees, as empty classes and files with unknown endings, and a
  // damaged file when it is read. skip: every file is decoded once when the set is made (on all
  // cores; as long as an epoch without training), and those that fail are left out and listed in
  // skipped(), as is a class that lost all of them, so that batches are the same in every epoch and
  // for any number of workers. A file that turns bad later is an error either way.
  BadFiles bad_files = BadFiles::error;
  // Names of the classes by label; unset: those of the subfolders, sorted, or the numbers in a
  // list. Give the training set's to the test set, which may lack a class.
  std::vector<std::string> classes = {};
  bool allow_one_class = false;  // else images of two classes at least, those left out not counted
};

struct ImageList;

class ImageFolder : public Dataset {
 public:
  struct Item {
    std::filesystem::path path;
    int64_t label = 0;
  };
  struct Skipped {
    std::filesystem::path path;
    std::string reason;
  };

  // The images of each subfolder, and of folders in it, are a class: files ending in .jpg, .jpeg,
  // .png, .bmp, .pgm or .ppm in any case, in the order of their paths' bytes. Names that begin with
  // a dot are ignored, and so are files beside the subfolders. Throws DataError with the path: for
  // a folder that cannot be read, for fewer than two classes unless allowed, for subfolders that
  // `classes` lacks, and for bad files.
  explicit ImageFolder(const std::filesystem::path& folder, const ImageFolderOptions& options = {});
  // A text file of lines "path label": a path from the list's folder on, which may have spaces, and
  // a number from 0. Blank lines are ignored. Throws DataError with path and line for a line
  // without a label, a label outside of `classes`, and a file that is not there (a bad file);
  // without `classes` also for a number below the largest that no line has.
  static ImageFolder from_list(const std::filesystem::path& list,
                               const ImageFolderOptions& options = {});
  // Throws Error for a label outside of `classes`, DataError for images of one class unless
  // allowed.
  static ImageFolder from_items(std::vector<Item> items, std::vector<std::string> classes,
                                const ImageFolderOptions& options = {});

  int64_t size() const override { return int64_t(items_.size()); }
  // Image (H, W, C) u8 and label, a scalar i32. Throws DataError with the path.
  Sample get(int64_t index) const override;
  // Images (N, H, W, C) u8, decoded side by side and straight into the batch, on all cores where no
  // loader's threads do so. Throws DataError for images of different sizes or channels, naming two.
  // All items in one batch make a TensorDataset of a set that fits into memory.
  Batch get_batch(const BatchRequest& request) const override;
  int64_t num_classes() const override { return int64_t(classes_.size()); }

  const std::vector<std::string>& classes() const { return classes_; }
  const std::filesystem::path& path(int64_t index) const { return item(index).path; }
  int64_t label(int64_t index) const { return item(index).label; }
  // With bad_files = skip: what was left out, and why.
  const std::vector<Skipped>& skipped() const { return skipped_; }

 private:
  ImageFolder(const std::filesystem::path& source, ImageList list,
              const ImageFolderOptions& options);
  const Item& item(int64_t index) const;
  void check_classes(const std::filesystem::path& source);
  void leave_out_bad_files(const std::filesystem::path& source);

  ImageFolderOptions options_;
  std::vector<Item> items_;
  std::vector<Skipped> skipped_;
  std::vector<std::string> classes_;
};

}  // namespace adret
