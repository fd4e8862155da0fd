// CIFAR-10 and CIFAR-100 (Krizhevsky, "Learning Multiple Layers of Features from Tiny Images",
// 2009) from the files of their binary version (https://www.cs.toronto.edu/~kriz/cifar.html).
#pragma once

#include <adret/data/dataset.h>
#include <adret/data/places.h>

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

namespace adret {

struct Cifar {
  struct Part {
    Tensor images;  // (N, 32, 32, 3) u8; the files hold a plane for each colour
    Tensor labels;  // (N) i32 in 0..num_classes-1
    int64_t num_classes = 0;
    TensorDataset dataset() const { return TensorDataset(images, labels, num_classes); }
  };
  Part train, test;
  std::vector<std::string> classes;   // their names, by label
  std::string name;                   // "CIFAR-10", "CIFAR-100", or "unknown" when it is neither
  std::vector<std::string> warnings;  // for the user to see: what differs from the known set
};

struct Cifar10Options {
  bool verify = true;  // compare sizes and labels with the known set's
};
struct Cifar100Options {
  bool verify = true;
  bool coarse = false;  // the 20 superclasses as labels, instead of the 100 classes
};

// The first folder that holds data_batch_1.bin to data_batch_5.bin and test_batch.bin: a place
// itself, or its subfolder cifar-10-batches-bin, cifar-10 or cifar10.
std::optional<std::filesystem::path> find_cifar10(const std::vector<std::filesystem::path>& places);
// The same for train.bin and test.bin, in cifar-100-binary, cifar-100 or cifar100.
std::optional<std::filesystem::path> find_cifar100(
    const std::vector<std::filesystem::path>& places);

// Finds and reads the set, the five batches in their order. Throws DataError that lists the places
// looked at and what each lacks, and for a file that cannot be read, is empty or no whole number of
// records, or has a label that the set has not, with path, record and offset. Files with another
// number of images than the known set's, and labels whose checksum is another, give a warning
// unless `verify` is off. Pixels are not verified: nothing in the files would tell a flipped one.
Cifar load_cifar10(const std::filesystem::path& given = {}, const Cifar10Options& options = {});
// The same for CIFAR-100, whose labels are verified by the number of images of each class.
Cifar load_cifar100(const std::filesystem::path& given = {}, const Cifar100Options& options = {});

}  // namespace adret
