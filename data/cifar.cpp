// Finding, reading and checking the binary files of CIFAR-10 and CIFAR-100.
#include <adret/core/error.h>
#include <adret/core/thread_pool.h>
#include <adret/data/cifar.h>
#include <adret/data/find_folder.h>
#include <adret/data/input_file.h>
#include <fmt/core.h>
#include <zlib.h>

#include <algorithm>
#include <deque>
#include <memory>
#include <numeric>
#include <span>

namespace adret {
namespace {

namespace fs = std::filesystem;

constexpr int64_t side = 32, plane = side * side, pixels = 3 * plane;

// One byte of a record that is a label.
struct LabelByte {
  const char* name;
  int classes;
};

// The files of one part of the known set.
struct PartFiles {
  const char* name;
  std::span<const char* const> files;
  int64_t images;                          // in each
  std::optional<uint32_t> label_checksum;  // CRC-32 of the label bytes in order
};

// A record is its label bytes, then a plane of red, of green and of blue, row by row.
struct Layout {
  const char* function;
  const char* set;
  std::span<const LabelByte> labels;
  PartFiles train, test;

  int64_t label_bytes() const { return int64_t(labels.size()); }
  int64_t record() const { return label_bytes() + pixels; }
};

constexpr LabelByte labels_10[] = {{"label", 10}};
constexpr const char* train_10[] = {"data_batch_1.bin", "data_batch_2.bin", "data_batch_3.bin",
                                    "data_batch_4.bin", "data_batch_5.bin"};
constexpr const char* test_10[] = {"test_batch.bin"};
constexpr Layout layout_10 = {.function = "load_cifar10",
                              .set = "CIFAR-10",
                              .labels = labels_10,
                              .train = {"training", train_10, 10000, 0x4ee6ac62},
                              .test = {"test", test_10, 10000, 0xbada58c9}};

constexpr LabelByte labels_100[] = {{"coarse label", 20}, {"fine label", 100}};
constexpr const char* train_100[] = {"train.bin"};
constexpr const char* test_100[] = {"test.bin"};
constexpr Layout layout_100 = {.function = "load_cifar100",
                               .set = "CIFAR-100",
                               .labels = labels_100,
                               .train = {"training", train_100, 50000, {}},
                               .test = {"test", test_100, 10000, {}}};

constexpr const char* names_10[] = {"airplane", "automobile", "bird",  "cat",  "deer",
                                    "dog",      "frog",       "horse", "ship", "truck"};
constexpr const char* names_20[] = {"aquatic_mammals",
                                    "fish",
                                    "flowers",
                                    "food_containers",
                                    "fruit_and_vegetables",
                                    "household_electrical_devices",
                                    "household_furniture",
                                    "insects",
                                    "large_carnivores",
                                    "large_man-made_outdoor_things",
                                    "large_natural_outdoor_scenes",
                                    "large_omnivores_and_herbivores",
                                    "medium_mammals",
                                    "non-insect_invertebrates",
                                    "people",
                                    "reptiles",
                                    "small_mammals",
                                    "trees",
                                    "vehicles_1",
                                    "vehicles_2"};
// clang-format off
constexpr const char* names_100[] = {
    "apple", "aquarium_fish", "baby", "bear", "beaver", "bed", "bee", "beetle", "bicycle", "bottle",
    "bowl", "boy", "bridge", "bus", "butterfly", "camel", "can", "castle", "caterpillar", "cattle",
    "chair", "chimpanzee", "clock", "cloud", "cockroach", "couch", "crab", "crocodile", "cup",
    "dinosaur", "dolphin", "elephant", "flatfish", "forest", "fox", "girl", "hamster", "house",
    "kangaroo", "keyboard", "lamp", "lawn_mower", "leopard", "lion", "lizard", "lobster", "man",
    "maple_tree", "motorcycle", "mountain", "mouse", "mushroom", "oak_tree", "orange", "orchid",
    "otter", "palm_tree", "pear", "pickup_truck", "pine_tree", "plain", "plate", "poppy",
    "porcupine", "possum", "rabbit", "raccoon", "ray", "road", "rocket", "rose", "sea", "seal",
    "shark", "shrew", "skunk", "skyscraper", "snail", "snake", "spider", "squirrel", "streetcar",
    "sunflower", "sweet_pepper", "table", "tank", "telephone", "television", "tiger", "tractor",
    "train", "trout", "tulip", "turtle", "wardrobe", "whale", "willow_tree", "wolf", "woman",
    "worm"};
// clang-format on
static_assert(std::size(names_20) == 20 && std::size(names_100) == 100);

// The files that a folder lacks, and, if it holds another form of the set, what to do with that.
std::string missing(const fs::path& folder, const Layout& layout, const char* archive,
                    const char* python) {
  std::error_code ignored;
  std::string names;
  for (const PartFiles& part : {layout.train, layout.test}) {
    for (const char* name : part.files) {
      if (!fs::exists(folder / name, ignored))
        names += (names.empty() ? "" : ", ") + std::string(name);
    }
  }
  if (names.empty()) return names;
  if (fs::exists(folder / archive, ignored)) {
    names += fmt::format("; it holds {0}: unpack that with tar -xf {0}", archive);
  } else if (fs::exists(folder / python, ignored)) {
    names +=
        fmt::format("; it holds {}, the set as Python pickles: take the binary version", python);
  }
  return names;
}

constexpr const char* subfolders_10[] = {"cifar-10-batches-bin", "cifar-10", "cifar10"};
constexpr WantedFolder folder_10 = {.function = "load_cifar10",
                                    .what = "the six files of CIFAR-10's binary version",
                                    .subfolders = subfolders_10,
                                    .missing = [](const fs::path& folder) {
                                      return missing(folder, layout_10, "cifar-10-binary.tar.gz",
                                                     "cifar-10-batches-py");
                                    }};
constexpr const char* subfolders_100[] = {"cifar-100-binary", "cifar-100", "cifar100"};
constexpr WantedFolder folder_100 = {.function = "load_cifar100",
                                     .what = "the two files of CIFAR-100's binary version",
                                     .subfolders = subfolders_100,
                                     .missing = [](const fs::path& folder) {
                                       return missing(folder, layout_100, "cifar-100-binary.tar.gz",
                                                      "cifar-100-python");
                                     }};

// Ten times as fast with the byte shuffles of AVX2, which the compiler finds by itself. The thread
// sanitizer crashes where the loader chooses between clones.
#if defined(__x86_64__) && __has_attribute(target_clones) && !defined(__SANITIZE_THREAD__)
[[gnu::target_clones("avx2", "default")]]
#endif
void interleave(const uint8_t* __restrict planes, uint8_t* __restrict to) {
  for (int64_t i = 0; i < plane; ++i) {
    to[3 * i] = planes[i];
    to[3 * i + 1] = planes[plane + i];
    to[3 * i + 2] = planes[2 * plane + i];
  }
}

// The files of a part, as one sequence of records.
class Records {
 public:
  Records(const fs::path& folder, const Layout& layout, const PartFiles& part)
      : folder_(folder), layout_(layout), part_(part) {
    for (const char* name : part.files) {
      const InputFile& file = files_.emplace_back(layout.function, folder / name);
      if (file.size() == 0 || file.size() % uint64_t(layout.record()) != 0) fail_size(file);
      counts_.push_back(int64_t(file.size()) / layout.record());
    }
    const int64_t count = std::accumulate(counts_.begin(), counts_.end(), int64_t(0));
    images_ = Tensor::empty({count, side, side, 3}, {.dtype = DType::u8});
    labels_.resize(size_t(count * layout.label_bytes()));
    int64_t first = 0;
    for (size_t i = 0; i < files_.size(); first += counts_[i++]) {
      read(files_[i], counts_[i], first);
      check_labels(files_[i], counts_[i], first);
    }
  }

  // With label byte `which` of each record.
  Cifar::Part part(size_t which) const {
    const std::vector<int32_t> values = labels(which);
    return {.images = images_,
            .labels = Tensor::from(values, {int64_t(values.size())}),
            .num_classes = layout_.labels[which].classes};
  }

  // Warns of files with another number of images than the known set's.
  void verify_counts(std::vector<std::string>& warnings) const {
    for (size_t i = 0; i < counts_.size(); ++i) {
      if (counts_[i] == part_.images) continue;
      warnings.push_back(
          fmt::format("{} holds {} images where {} has {}: it is cut off, or of another set",
                      (folder_ / part_.files[i]).string(), counts_[i], layout_.set, part_.images));
    }
  }

  // Warns of labels that are not the known set's, as far as its checksum or the size of its classes
  // tells.
  void verify_labels(std::vector<std::string>& warnings) const {
    const std::string difference =
        part_.label_checksum ? another_checksum(*part_.label_checksum) : another_class_size();
    if (difference.empty()) return;
    warnings.push_back(
        fmt::format("{}: {}: the files are damaged, in another order or of another set",
                    folder_.string(), difference));
  }

 private:
  [[noreturn]] void fail_size(const InputFile& file) const {
    const auto record = uint64_t(layout_.record());
    file.fail(fmt::format(
        "expected records of {} bytes ({} of labels and 3 x 32 x 32 of pixels), found {} bytes: {} "
        "records and {} bytes from offset {} on; it is {}, cut off or no file of this set",
        record, layout_.label_bytes(), file.size(), file.size() / record, file.size() % record,
        file.size() - file.size() % record, file.content()));
  }

  // Converts while the bytes read are still in the cache.
  void read(const InputFile& file, int64_t count, int64_t first) {
    constexpr int64_t grain = 32;  // records: about 96 KiB
    uint8_t* const images = images_.span<uint8_t>().data();
    const int64_t record = layout_.record(), label_bytes = layout_.label_bytes();
    parallel_for(count, grain, [&](int64_t begin, int64_t end) {
      const auto bytes = size_t((end - begin) * record);
      const auto raw = std::make_unique_for_overwrite<uint8_t[]>(bytes);
      file.read(uint64_t(begin * record), std::as_writable_bytes(std::span(raw.get(), bytes)));
      const uint8_t* from = raw.get();
      for (int64_t i = first + begin; i < first + end; ++i, from += record) {
        std::copy_n(from, label_bytes, labels_.data() + i * label_bytes);
        interleave(from + label_bytes, images + i * pixels);
      }
    });
  }

  void check_labels(const InputFile& file, int64_t count, int64_t first) const {
    const int64_t label_bytes = layout_.label_bytes();
    for (int64_t i = 0; i < count * label_bytes; ++i) {
      const LabelByte& kind = layout_.labels[size_t(i % label_bytes)];
      const int value = labels_[size_t(first * label_bytes + i)];
      if (value < kind.classes) continue;
      const int64_t record = i / label_bytes;
      file.fail(fmt::format("{} {} of record {} (offset {}) is outside 0..{}", kind.name, value,
                            record, record * layout_.record() + i % label_bytes, kind.classes - 1));
    }
  }

  std::vector<int32_t> labels(size_t which) const {
    std::vector<int32_t> values;
    for (size_t i = which; i < labels_.size(); i += layout_.labels.size()) {
      values.push_back(labels_[i]);
    }
    return values;
  }

  std::string another_checksum(uint32_t known) const {
    const auto found = uint32_t(crc32(0, labels_.data(), unsigned(labels_.size())));
    if (found == known) return {};
    return fmt::format("the {} labels have the checksum {:08x}, {}'s {:08x}", part_.name, found,
                       layout_.set, known);
  }

  // All classes of the set, fine or coarse, have as many images.
  std::string another_class_size() const {
    for (size_t which = 0; which < layout_.labels.size(); ++which) {
      std::vector<size_t> images(size_t(layout_.labels[which].classes));
      for (const int32_t label : labels(which)) ++images[size_t(label)];
      const size_t known = labels_.size() / layout_.labels.size() / images.size();
      for (size_t label = 0; label < images.size(); ++label) {
        if (images[label] == known) continue;
        return fmt::format("{} {} has {} {} images, in {} {}", layout_.labels[which].name, label,
                           images[label], part_.name, layout_.set, known);
      }
    }
    return {};
  }

  const fs::path& folder_;
  const Layout& layout_;
  const PartFiles& part_;
  std::deque<InputFile> files_;
  std::vector<int64_t> counts_;  // of records, by file
  Tensor images_;
  std::vector<uint8_t> labels_;
};

// With label byte `which`, whose classes have these names.
Cifar load(const fs::path& folder, const Layout& layout, size_t which,
           std::span<const char* const> classes, bool verify) {
  const Records train(folder, layout, layout.train), test(folder, layout, layout.test);
  Cifar cifar{.train = train.part(which),
              .test = test.part(which),
              .classes = {classes.begin(), classes.end()},
              .name = "unknown"};
  if (!verify) return cifar;
  for (const Records* part : {&train, &test}) part->verify_counts(cifar.warnings);
  if (cifar.warnings.empty()) {
    for (const Records* part : {&train, &test}) part->verify_labels(cifar.warnings);
  }
  if (cifar.warnings.empty()) cifar.name = layout.set;
  return cifar;
}

}  // namespace

std::optional<fs::path> find_cifar10(const std::vector<fs::path>& places) {
  return folder_10.find(places);
}

std::optional<fs::path> find_cifar100(const std::vector<fs::path>& places) {
  return folder_100.find(places);
}

Cifar load_cifar10(const fs::path& given, const Cifar10Options& options) {
  return load(folder_10.find_or_throw(given), layout_10, 0, names_10, options.verify);
}

Cifar load_cifar100(const fs::path& given, const Cifar100Options& options) {
  const fs::path folder = folder_100.find_or_throw(given);
  return options.coarse ? load(folder, layout_100, 0, names_20, options.verify)
                        : load(folder, layout_100, 1, names_100, options.verify);
}

}  // namespace adret
