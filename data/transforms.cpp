// Checks of images and options, and the calls of their kernels.
#include <adret/core/error.h>
#include <adret/core/kernels/kernel.h>
#include <adret/core/random.h>
#include <adret/data/image_limits.h>
#include <adret/data/transforms.h>
#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <string>
#include <utility>

namespace adret {
namespace {

constexpr int64_t most_channels = 4;
constexpr int64_t longest = int64_t(1) << 20;  // side of an image, in pixels

void check_images(const char* function, const Shape& shape, DType dtype) {
  if (shape.rank() == 4 && dtype == DType::u8 && shape[3] >= 1 && shape[3] <= most_channels &&
      shape[1] <= longest && shape[2] <= longest) {
    return;
  }
  throw ShapeError(fmt::format("[{}] wants images (N, H, W, C) u8 of 1 to 4 channels, got {} {}",
                               function, to_string(shape), name(dtype)));
}

void check_device(const char* function, const Tensor& images, const SampleIds& samples) {
  for (const Tensor* words : {&samples.ids, &samples.epoch}) {
    if (words->device() == images.device()) continue;
    throw DeviceError(
        fmt::format("[{}] images {} and sample ids {} are on two devices; make the "
                    "SampleIds with the images' device",
                    function, to_string(TensorView(images)), to_string(TensorView(*words))));
  }
}

void check_statistics(const char* function, const Normalize& normalize, const Shape& images) {
  const size_t count = normalize.mean().size();
  if (count == 1 || int64_t(count) == images[3]) return;
  throw ShapeError(fmt::format("[{}] has statistics of {} channels, got images {}", function, count,
                               to_string(images)));
}

void set_levels(kernels::AugmentParams& params, const Normalize& normalize) {
  for (size_t c = 0; c < size_t(most_channels); ++c) {
    const size_t from = std::min(c, normalize.mean().size() - 1);
    params.scale[c] = float(1 / (255 * normalize.std()[from]));
    params.shift[c] = float(-normalize.mean()[from] / normalize.std()[from]);
  }
}

}  // namespace

// -- normalisation -------------------------------------------------------------------------------

Normalize::Normalize(std::vector<double> mean, std::vector<double> std, DType dtype)
    : mean_(std::move(mean)), std_(std::move(std)), dtype_(dtype) {
  if (mean_.empty() || mean_.size() != std_.size() || mean_.size() > size_t(most_channels)) {
    throw Error(
        fmt::format("[normalize] wants a mean and a std for each of 1 to 4 channels, got "
                    "{} and {}",
                    mean_.size(), std_.size()));
  }
  for (const double value : std_) {
    if (!(value > 0)) throw Error(fmt::format("[normalize] wants std above 0, got {}", value));
  }
  if (!is_floating(dtype)) {
    throw Error(fmt::format("[normalize] gives a floating dtype, not {}", name(dtype)));
  }
}

Normalize Normalize::fit(const Tensor& images, DType dtype) {
  check_images("normalize", images.shape(), images.dtype());
  const auto pixels = images.span<uint8_t>();
  const auto channels = size_t(images.size(3));
  if (pixels.empty()) {
    throw ShapeError("[normalize] no pixels to take the mean of: " + to_string(TensorView(images)));
  }
  std::vector<std::array<int64_t, 256>> counts(channels);
  for (size_t i = 0; i < pixels.size(); i += channels) {
    for (size_t c = 0; c < channels; ++c) ++counts[c][pixels[i + c]];
  }
  std::vector<double> means, stds;
  for (const auto& count : counts) {
    double n = 0, sum = 0, squares = 0;
    for (size_t value = 0; value < 256; ++value) {
      n += double(count[value]);
      sum += double(count[value]) * double(value);
      squares += double(count[value]) * double(value * value);
    }
    const double variance = squares / n - (sum / n) * (sum / n);
    means.push_back(sum / n / 255);
    stds.push_back(variance > 0 ? std::sqrt(variance) / 255 : 1);
  }
  return Normalize(std::move(means), std::move(stds), dtype);
}

Tensor Normalize::operator()(const Tensor& images) const {
  check_images("normalize", images.shape(), images.dtype());
  check_statistics("normalize", *this, images.shape());
  check_elements("normalize", {images.size(1), images.size(2)}, images.size(3));
  kernels::AugmentParams params;
  set_levels(params, *this);
  const Tensor y = Tensor::empty(images.shape(), {.dtype = dtype_, .device = images.device()});
  run(kernels::AugmentImages{.x = images, .y = y, .augment = params});
  return y;
}

// -- augmentation --------------------------------------------------------------------------------

namespace {

void refuse(bool wrong, const char* what, const std::string& value, const char* wanted) {
  if (wrong) throw Error(fmt::format("[augment] {} is {}, wanted {}", what, value, wanted));
}

void check_probability(const char* what, double p) {
  refuse(!(p >= 0 && p <= 1), what, fmt::format("{}", p), "0..1");
}

void check_options(const AugmentOptions& o) {
  const auto check_pixels = [](const char* what, int64_t pixels) {
    refuse(pixels < 0 || pixels > longest, what, std::to_string(pixels), "0..1048576 pixels");
  };
  check_pixels("crop.size.h", o.crop.size.h);
  check_pixels("crop.size.w", o.crop.size.w);
  refuse((o.crop.size.h == 0) != (o.crop.size.w == 0), "crop.size", to_string(o.crop.size),
         "both sides, or none");
  check_pixels("crop.padding", o.crop.padding);
  check_pixels("cutout", o.cutout);
  check_probability("flip_probability", o.flip_probability);
  check_probability("erasing.probability", o.erasing.probability);
  const auto [low, high] = o.erasing.area;
  refuse(!(low >= 0 && low <= high && high <= 1), "erasing.area", fmt::format("{}..{}", low, high),
         "a range within 0..1");
  const auto [narrow, tall] = o.erasing.aspect;
  refuse(!(narrow >= 0.01 && narrow <= tall && tall <= 100), "erasing.aspect",
         fmt::format("{}..{}", narrow, tall), "a range within 0.01..100");
  refuse(o.channels < 0 || o.channels > longest, "channels", std::to_string(o.channels),
         "0 for the images', or more");
  refuse(o.fill.size() > size_t(most_channels), "the number of fill levels",
         std::to_string(o.fill.size()), "one, or one a channel");
  if (o.normalize && !is_floating(*o.dtype)) {
    throw Error(fmt::format("[augment] normalised images are floating, not {}; leave normalize out",
                            name(*o.dtype)));
  }
  if (!is_floating(*o.dtype) && *o.dtype != DType::u8) {
    throw Error(fmt::format("[augment] gives u8 or a floating dtype, not {}", name(*o.dtype)));
  }
}

uint64_t chance(double probability) { return uint64_t(std::lround(probability * 0x1p32)); }
std::array<uint32_t, 2> in_units(Range range) {
  return {uint32_t(std::lround(range.low * 0x1p16)), uint32_t(std::lround(range.high * 0x1p16))};
}

kernels::AugmentParams params_of(const AugmentOptions& o) {
  kernels::AugmentParams params{
      .random_crop = o.crop.random && (o.crop.padding > 0 || o.crop.size.h > 0),
      .padding = int32_t(o.crop.padding),
      .border = o.crop.border,
      .flip = o.flip,
      .flip_chance = chance(o.flip_probability),
      .cutout = int32_t(o.cutout),
      .erase_chance = chance(o.erasing.probability),
      .erase_area = in_units(o.erasing.area),
      .erase_aspect = in_units(o.erasing.aspect)};
  for (size_t c = 0; c < params.fill.size() && !o.fill.empty(); ++c) {
    params.fill[c] = o.fill[std::min(c, o.fill.size() - 1)];
  }
  set_levels(params, o.normalize.value_or(Normalize(0, 1)));
  return params;
}

}  // namespace

SampleIds::SampleIds(std::span<const int64_t> samples, int64_t epoch_number, Device device) {
  const auto count = int64_t(samples.size());
  std::vector<int64_t> words = {epoch_number};
  words.insert(words.end(), samples.begin(), samples.end());
  const Tensor both = Tensor::from(words, {count + 1}, device);
  epoch = both.alias({});
  ids = both.alias({count}, sizeof(int64_t));
}

Augment::Augment(AugmentOptions options) : options_(std::move(options)) {
  AugmentOptions& o = options_;
  if (!o.dtype) o.dtype = o.normalize ? o.normalize->dtype() : DType::u8;
  if (!o.seed) o.seed = random::seed();
  check_options(o);
  params_ = params_of(o);
}

Shape Augment::output_shape(const Shape& images) const {
  check_images("augment", images, DType::u8);
  if (options_.normalize) check_statistics("augment", *options_.normalize, images);
  const int64_t padding = options_.crop.padding, h = images[1], w = images[2];
  if (options_.crop.border == Border::reflect && padding > 0 && padding >= std::min(h, w)) {
    throw ShapeError(
        fmt::format("[augment] reflected padding of {} pixels wants images of {} at least, got {}; "
                    "use less, or Border::zero",
                    padding, padding + 1, to_string(images)));
  }
  const Size2 size = options_.crop.size.h > 0 ? options_.crop.size : Size2(h, w);
  if (size.h > h + 2 * padding || size.w > w + 2 * padding) {
    throw ShapeError(fmt::format("[augment] a crop of {} does not fit in images {} with padding {}",
                                 to_string(size), to_string(images), padding));
  }
  const int64_t channels = options_.channels > 0 ? options_.channels : images[3];
  if (channels < images[3]) {
    throw ShapeError(fmt::format("[augment] {} channels were asked for, the images {} have more",
                                 channels, to_string(images)));
  }
  check_elements("augment", size, channels);
  constexpr int64_t most_erased = int64_t(1) << 24;
  if (options_.erasing.probability > 0 && size.area() > most_erased) {
    throw ShapeError(fmt::format("[augment] erasing wants images of {} pixels at most, got {}",
                                 most_erased, to_string(size)));
  }
  return {images[0], size.h, size.w, channels};
}

Tensor Augment::apply(const Tensor& images, const Tensor& indices, const SampleIds& samples) const {
  check_images("augment", images.shape(), images.dtype());
  check_device("augment", images, samples);
  const Shape shape = output_shape(images.shape()).with(0, samples.ids.numel());
  const Tensor y = Tensor::empty(shape, {.dtype = dtype(), .device = images.device()});
  kernels::AugmentImages call{.x = images,
                              .ids = samples.ids,
                              .epoch = samples.epoch,
                              .y = y,
                              .key = {.seed = *options_.seed, .stream = RandomStream::augment},
                              .augment = params_};
  if (indices.defined()) call.indices = indices;
  run(call);
  return y;
}

Tensor Augment::operator()(const Tensor& images, const SampleIds& samples) const {
  if (images.rank() == 0 || images.size(0) != samples.ids.numel()) {
    throw ShapeError(fmt::format("[augment] got images {} and {} sample ids; wanted one an image",
                                 to_string(images.shape()), samples.ids.numel()));
  }
  return apply(images, {}, samples);
}

void Augment::operator()(Batch& batch) const {
  batch.inputs =
      (*this)(batch.inputs, SampleIds(batch.indices, batch.epoch, batch.inputs.device()));
}

Tensor Augment::gather(const Tensor& images, const SampleIds& samples) const {
  return apply(images, samples.ids, samples);
}

// -- colours -------------------------------------------------------------------------------------

ColorJitter::ColorJitter(ColorJitterOptions options)
    : seed_(options.seed.value_or(random::seed())) {
  const auto fixed = [](const char* what, Range range, double least, double most) {
    if (!(range.low >= least && range.low <= range.high && range.high <= most)) {
      throw Error(fmt::format("[color_jitter] {} is {}..{}, wanted a range within {}..{}", what,
                              range.low, range.high, least, most));
    }
    return std::array{int32_t(std::lround(range.low * 0x1p16)),
                      int32_t(std::lround(range.high * 0x1p16))};
  };
  params_ = {.brightness = fixed("brightness", options.brightness, 0, 32),
             .contrast = fixed("contrast", options.contrast, 0, 32),
             .saturation = fixed("saturation", options.saturation, 0, 32),
             .hue = fixed("hue", options.hue, -0.5, 0.5)};
}

Tensor ColorJitter::operator()(const Tensor& images, const SampleIds& samples) const {
  if (images.rank() != 4 || images.dtype() != DType::u8 || images.size(3) != 3 ||
      images.size(0) != samples.ids.numel()) {
    throw ShapeError(fmt::format("[color_jitter] wants images ({}, H, W, 3) u8, got {}",
                                 samples.ids.numel(), to_string(TensorView(images))));
  }
  check_device("color_jitter", images, samples);
  const Tensor y = Tensor::empty(images.shape(), {.dtype = DType::u8, .device = images.device()});
  run_custom(kernels::JitterColors{.key = {.seed = seed_, .stream = RandomStream::augment},
                                   .jitter = params_},
             {images, samples.ids, samples.epoch}, {y});
  return y;
}

void ColorJitter::operator()(Batch& batch) const {
  batch.inputs =
      (*this)(batch.inputs, SampleIds(batch.indices, batch.epoch, batch.inputs.device()));
}

}  // namespace adret
