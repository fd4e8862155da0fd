// Decoding the images of a folder or list into batches.
#include <adret/core/error.h>
#include <adret/core/tensor_view.h>
#include <adret/core/thread_pool.h>
#include <adret/data/image_codec.h>
#include <adret/data/image_folder.h>
#include <adret/data/image_list.h>
#include <adret/data/input_file.h>
#include <adret/data/resize.h>
#include <fmt/core.h>

#include <algorithm>
#include <exception>
#include <memory>
#include <utility>

namespace adret {
namespace {

namespace fs = std::filesystem;

// Calls decode(i) for 0..n-1 on all threads, then fail(i, error) for the first i that failed: the
// same error for any number of threads.
template <class Decode, class Fail>
void decode_all(int64_t n, Decode decode, Fail fail) {
  std::vector<std::exception_ptr> errors(static_cast<size_t>(n));
  parallel_for(n, 1, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      try {
        decode(i);
      } catch (...) {
        errors[size_t(i)] = std::current_exception();
      }
    }
  });
  for (int64_t i = 0; i < n; ++i) {
    if (errors[size_t(i)]) fail(i, errors[size_t(i)]);
  }
}

void decode_file(const fs::path& path, int channels, PixelPlace place) {
  const InputFile file("ImageFolder", path);
  const auto bytes = std::make_unique_for_overwrite<std::byte[]>(file.size());
  const std::span content(bytes.get(), size_t(file.size()));
  file.read(0, content);
  decode_any({"ImageFolder", content, path.string()}, channels, place);
}

// What an error says behind "[ImageFolder] path: ".
std::string without_prefix(const DataError& error, const fs::path& path) {
  const std::string text = error.what(), prefix = fmt::format("[ImageFolder] {}: ", path.string());
  return text.starts_with(prefix) ? text.substr(prefix.size()) : text;
}

Shape shape_of(const ImageSize& size) { return {size.height, size.width, size.channels}; }

Tensor decode_file(const fs::path& path, int channels) {
  Tensor image;
  decode_file(path, channels, [&](const ImageSize& size) {
    image = Tensor::empty(shape_of(size), {.dtype = DType::u8});
    return image.span<uint8_t>().data();
  });
  return image;
}

// Where enlarging a line of pixels would take hundreds of megabytes to cut a few from.
constexpr int64_t narrowest = 64;  // longer side to shorter side

void check_ratio(const Tensor& image, int64_t length) {
  const auto [shorter, longer] = std::minmax({image.size(0), image.size(1)});
  if (length <= shorter || longer <= narrowest * shorter) return;
  throw ShapeError(fmt::format(
      "[resize_shorter_side] an image of {} x {} is too narrow to enlarge: its longer side may be "
      "{} times the shorter one at most; leave it out, or set resize",
      image.size(0), image.size(1), narrowest));
}

// Decodes, and makes the size that the options want.
void load_file(const fs::path& path, const ImageFolderOptions& options, PixelPlace place) {
  const bool crops = options.center_crop != Size2();
  if (options.resize == Size2() && options.resize_shorter_side == 0 && !crops) {
    return decode_file(path, options.channels, place);
  }
  Tensor image = decode_file(path, options.channels);
  try {
    if (options.resize != Size2()) image = resize(image, options.resize);
    if (options.resize_shorter_side) {
      check_ratio(image, options.resize_shorter_side);
      image = resize_shorter_side(image, options.resize_shorter_side);
    }
    if (crops) image = center_crop(image, options.center_crop);
  } catch (const OutOfMemory&) {
    throw;
  } catch (const Error& error) {
    throw DataError(fmt::format("[ImageFolder] {}: {}", path.string(), error.what()));
  }
  const auto pixels = image.span<uint8_t>();
  std::copy(pixels.begin(), pixels.end(),
            place({image.size(0), image.size(1), int(image.size(2))}));
}

}  // namespace

ImageFolder::ImageFolder(const fs::path& folder, const ImageFolderOptions& options)
    : ImageFolder(folder, list_folder(folder, options), options) {}

ImageFolder ImageFolder::from_list(const fs::path& list, const ImageFolderOptions& options) {
  return ImageFolder(list, read_list(list, options), options);
}

ImageFolder ImageFolder::from_items(std::vector<Item> items, std::vector<std::string> classes,
                                    const ImageFolderOptions& options) {
  for (size_t i = 0; i < items.size(); ++i) {
    if (items[i].label < 0 || items[i].label >= int64_t(classes.size())) {
      throw Error(fmt::format(
          "[ImageFolder] item {} ({}) has label {}; with {} classes labels are "
          "0..{}",
          i, items[i].path.string(), items[i].label, classes.size(), int64_t(classes.size()) - 1));
    }
  }
  return ImageFolder("the items given", {std::move(items), {}, std::move(classes)}, options);
}

ImageFolder::ImageFolder(const fs::path& source, ImageList list, const ImageFolderOptions& options)
    : options_(options),
      items_(std::move(list.items)),
      skipped_(std::move(list.skipped)),
      classes_(std::move(list.classes)) {
  if (options_.channels < 0 || options_.channels > 4 || options_.channels == 2) {
    throw Error(fmt::format("[ImageFolder] channels may be 0 (the files' own), 1, 3 or 4, got {}",
                            options_.channels));
  }
  if (options_.resize != Size2() && options_.resize_shorter_side != 0) {
    throw Error("[ImageFolder] set resize or resize_shorter_side, not both");
  }
  if (options_.bad_files == BadFiles::skip) leave_out_bad_files(source);
  check_classes(source);
}

void ImageFolder::check_classes(const fs::path& source) {
  const auto fail = [&](const std::string& problem) {
    const std::string left_out =
        skipped_.empty()
            ? ""
            : fmt::format(" ({} bad files were left out, the first {}: {})", skipped_.size(),
                          skipped_[0].path.string(), skipped_[0].reason);
    throw DataError(fmt::format("[ImageFolder] {}: {}{}", source.string(), problem, left_out));
  };
  if (items_.empty()) fail("expected images, found none");
  const auto in_another_class = [&](const Item& item) { return item.label != items_[0].label; };
  if (!options_.allow_one_class && std::ranges::none_of(items_, in_another_class)) {
    fail(
        fmt::format("found images of one class (\"{}\"), wanted at least two; set "
                    "allow_one_class if that is meant",
                    classes_[size_t(items_[0].label)]));
  }
}

void ImageFolder::leave_out_bad_files(const fs::path& source) {
  std::vector<bool> bad(items_.size());
  decode_all(
      size(),
      [&](int64_t i) {
        std::unique_ptr<uint8_t[]> pixels;
        load_file(items_[size_t(i)].path, options_, [&](const ImageSize& size) {
          pixels = std::make_unique_for_overwrite<uint8_t[]>(size_t(size.pixels() * size.channels));
          return pixels.get();
        });
      },
      [&](int64_t i, const std::exception_ptr& error) {
        try {
          std::rethrow_exception(error);
        } catch (const DataError& reason) {
          skipped_.push_back(
              {items_[size_t(i)].path, without_prefix(reason, items_[size_t(i)].path)});
          bad[size_t(i)] = true;
        }
      });
  std::vector<int> images(classes_.size()), left(classes_.size());
  size_t kept = 0;
  for (size_t i = 0; i < items_.size(); ++i) {
    const auto label = size_t(items_[i].label);
    ++images[label];
    if (bad[i]) continue;
    ++left[label];
    std::swap(items_[kept++], items_[i]);
  }
  items_.resize(kept);
  for (size_t label = 0; label < classes_.size() && kept > 0; ++label) {
    if (left[label] > 0 || images[label] == 0) continue;
    skipped_.push_back({source, fmt::format("the class \"{}\" lost its {} images, all bad",
                                            classes_[label], images[label])});
  }
}

const ImageFolder::Item& ImageFolder::item(int64_t index) const {
  if (index < 0 || index >= size()) {
    throw Error(fmt::format("[ImageFolder] index {} is outside 0..{}", index, size() - 1));
  }
  return items_[size_t(index)];
}

Sample ImageFolder::get(int64_t index) const {
  const Item& wanted = item(index);
  Tensor image;
  load_file(wanted.path, options_, [&](const ImageSize& size) {
    image = Tensor::empty(shape_of(size), {.dtype = DType::u8});
    return image.span<uint8_t>().data();
  });
  return {.input = image, .target = Tensor::from({int32_t(wanted.label)}, {})};
}

Batch ImageFolder::get_batch(const BatchRequest& request) const {
  const std::span<const int64_t> indices = request.indices;
  if (indices.empty()) throw Error("[ImageFolder] a batch wants at least one index, got none");
  Tensor images;
  Shape first;
  uint8_t* pixels = nullptr;
  const auto decode = [&](int64_t i) {
    const fs::path& file = path(indices[size_t(i)]);
    load_file(file, options_, [&](const ImageSize& size) {
      const Shape shape = shape_of(size);
      if (!images.defined()) {
        first = shape;
        images = Tensor::empty(shape.inserted(0, int64_t(indices.size())), {.dtype = DType::u8});
        pixels = images.span<uint8_t>().data();
      }
      if (shape != first) {
        throw DataError(fmt::format(
            "[ImageFolder] {}: expected an image {} like {}, found {}; the "
            "images of a batch must be alike, for instance by the options for resizing",
            file.string(), to_string(first), path(indices[0]).string(), to_string(shape)));
      }
      return pixels + i * first.numel();
    });
  };
  const auto fail = [&](int64_t i, const std::exception_ptr& error) {
    try {
      std::rethrow_exception(error);
    } catch (const DataError& problem) {
      std::throw_with_nested(
          DataError(fmt::format("[Dataset] item {}: {}", indices[size_t(i)], problem.what())));
    }
  };
  // The first one tells the size of all.
  decode_all(1, decode, fail);
  decode_all(
      int64_t(indices.size()) - 1, [&](int64_t i) { decode(i + 1); },
      [&](int64_t i, const std::exception_ptr& error) { fail(i + 1, error); });
  std::vector<int32_t> labels;
  for (const int64_t index : indices) labels.push_back(int32_t(label(index)));
  return {.inputs = images,
          .targets = Tensor::from(labels, {int64_t(labels.size())}),
          .indices = {indices.begin(), indices.end()},
          .epoch = request.epoch,
          .number = request.number};
}

}  // namespace adret
