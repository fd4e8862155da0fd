// Finding, reading and checking the four files of MNIST and its relatives.
#include <adret/core/error.h>
#include <adret/data/find_folder.h>
#include <adret/data/idx.h>
#include <adret/data/mnist.h>
#include <fmt/core.h>

#include <array>

namespace adret {
namespace {

namespace fs = std::filesystem;

// The original spelling, and the one with a dot for its first hyphen after the kind.
struct FileName {
  const char* with_hyphen;
  const char* with_dot;
};
constexpr std::array<FileName, 4> file_names = {{
    {"train-images-idx3-ubyte", "train-images.idx3-ubyte"},
    {"train-labels-idx1-ubyte", "train-labels.idx1-ubyte"},
    {"t10k-images-idx3-ubyte", "t10k-images.idx3-ubyte"},
    {"t10k-labels-idx1-ubyte", "t10k-labels.idx1-ubyte"},
}};
enum FileIndex : size_t { train_images, train_labels, test_images, test_labels };

// CRC-32 of the decompressed files, in the order of file_names.
struct KnownSet {
  const char* name;
  std::array<uint32_t, 4> checksums;
};
constexpr std::array<KnownSet, 2> known_sets = {{
    {"MNIST", {0xe9f4d8b3, 0xe0cb4ad2, 0x91373bdf, 0x4ab9eff9}},
    {"Fashion-MNIST", {0xb4f29f28, 0x741a4657, 0x678fe0b1, 0x80142c1f}},
}};
constexpr std::array<uint64_t, 4> known_bytes = {47040016, 60008, 7840016, 10008};

struct Located {
  std::array<fs::path, 4> files;
  std::string missing;  // names of the files that are not there

  bool complete() const { return missing.empty(); }
};

Located locate(const fs::path& folder) {
  Located located;
  std::error_code ignored;
  for (size_t i = 0; i < file_names.size(); ++i) {
    for (const char* spelling : {file_names[i].with_hyphen, file_names[i].with_dot}) {
      for (const char* ending : {"", ".gz"}) {
        const fs::path file = folder / (std::string(spelling) + ending);
        if (located.files[i].empty() && fs::exists(file, ignored)) located.files[i] = file;
      }
    }
    if (located.files[i].empty()) {
      located.missing += (located.complete() ? "" : ", ") + std::string(file_names[i].with_hyphen);
    }
  }
  return located;
}

constexpr const char* subfolders[] = {"mnist", "fashion-mnist"};
constexpr WantedFolder mnist_folder = {
    .function = "load_mnist",
    .what = "the four files of MNIST, gzipped or not",
    .subfolders = subfolders,
    .missing = [](const fs::path& folder) { return locate(folder).missing; }};

Mnist::Part read_part(const IdxFile& images, const IdxFile& labels, const fs::path& images_path,
                      const fs::path& labels_path) {
  const Shape& shape = images.values.shape();
  if (shape[1] != 28 || shape[2] != 28) {
    throw DataError(fmt::format("[load_mnist] {}: expected images of 28 x 28, found {} x {}",
                                images_path.string(), shape[1], shape[2]));
  }
  if (shape[0] != labels.values.numel()) {
    throw DataError(
        fmt::format("[load_mnist] {} holds {} images, {} holds {} labels; they belong to "
                    "different sets",
                    images_path.string(), shape[0], labels_path.string(), labels.values.numel()));
  }
  const auto values = labels.values.span<int32_t>();
  for (size_t i = 0; i < values.size(); ++i) {
    if (values[i] > 9) {
      throw DataError(
          fmt::format("[load_mnist] {}: label {} of sample {} (offset {}) is outside 0..9",
                      labels_path.string(), values[i], i, i + 8));
    }
  }
  return {images.values, labels.values};
}

// Names the known set the files are from, and warns of files that resemble one but differ.
void verify(const std::array<IdxFile, 4>& files, const std::array<fs::path, 4>& paths,
            Mnist& mnist) {
  std::array<const char*, 4> origin{};
  for (size_t i = 0; i < files.size(); ++i) {
    for (const KnownSet& set : known_sets) {
      if (files[i].checksum == set.checksums[i] && files[i].bytes == known_bytes[i]) {
        origin[i] = set.name;
      }
    }
    if (!origin[i] && files[i].bytes == known_bytes[i]) {
      mnist.warnings.push_back(fmt::format(
          "{} has the size of MNIST's file, but its checksum {:08x} is neither MNIST's {:08x} nor "
          "Fashion-MNIST's {:08x}: the file may be damaged",
          paths[i].string(), files[i].checksum, known_sets[0].checksums[i],
          known_sets[1].checksums[i]));
    }
  }
  bool mixed = false;
  for (size_t i = 1; i < files.size(); ++i) {
    if (origin[i] == origin[0]) continue;
    mixed = true;
    if (origin[i] && origin[0]) {
      mnist.warnings.push_back(
          fmt::format("{} is from {}, {} from {}: the files belong to different sets",
                      paths[0].string(), origin[0], paths[i].string(), origin[i]));
    }
  }
  if (origin[0] && !mixed) mnist.name = origin[0];
}

}  // namespace

std::optional<fs::path> find_mnist(const std::vector<fs::path>& places) {
  return mnist_folder.find(places);
}

Mnist load_mnist(const fs::path& given, const MnistOptions& options) {
  const std::array<fs::path, 4> paths = locate(mnist_folder.find_or_throw(given)).files;
  const std::array<IdxFile, 4> files = {
      read_idx_images(paths[train_images]), read_idx_labels(paths[train_labels]),
      read_idx_images(paths[test_images]), read_idx_labels(paths[test_labels])};
  Mnist mnist{.train = read_part(files[train_images], files[train_labels], paths[train_images],
                                 paths[train_labels]),
              .test = read_part(files[test_images], files[test_labels], paths[test_images],
                                paths[test_labels]),
              .name = "unknown"};
  if (options.verify) verify(files, paths, mnist);
  return mnist;
}

}  // namespace adret
