// MNIST (LeCun, Cortes, Burges 1998), Fashion-MNIST (Xiao, Rasul, Vollgraf 2017), and any set in
// the same four files.
#pragma once

#include <adret/data/dataset.h>
#include <adret/data/places.h>

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

namespace adret {

struct MnistOptions {
  bool verify = true;  // compare the files with the known sets
};

struct Mnist {
  struct Part {
    Tensor images;  // (N, 28, 28, 1) u8
    Tensor labels;  // (N) i32 in 0..9
    // The part as a data set of 10 classes.
    TensorDataset dataset() const { return TensorDataset(images, labels, 10); }
  };
  Part train, test;
  std::string name;                   // "MNIST", "Fashion-MNIST", or "unknown" when no known set
  std::vector<std::string> warnings;  // for the user to see: what differs from the known sets
};

// The first folder that holds the four files: a place itself, or its subfolder mnist or
// fashion-mnist. A file may end in .gz, and be spelt train-images-idx3-ubyte or
// train-images.idx3-ubyte.
std::optional<std::filesystem::path> find_mnist(const std::vector<std::filesystem::path>& places);

// Finds and reads the set. Throws DataError that lists the places looked at and what each lacks,
// for a damaged file (see read_idx), for counts of images and labels that differ, images that are
// not 28 by 28, and labels above 9. Files of the known sets' size but with another checksum give a
// warning unless `verify` is off.
Mnist load_mnist(const std::filesystem::path& given = {}, const MnistOptions& options = {});

}  // namespace adret
