// Transforms of batches of images: from bytes to the numbers a network likes.
#pragma once

#include <adret/core/kernels/image.h>
#include <adret/core/kernels/jitter_colors.h>
#include <adret/core/size2.h>
#include <adret/data/dataset.h>

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

namespace adret {

using kernels::Border;
using kernels::Flip;

// Turns u8 images (N, H, W, C), C of 1 to 4, into floats: (x / 255 - mean[c]) / std[c]. Serves as a
// loader's transform, or on a tensor.
class Normalize {
 public:
  // One mean and standard deviation for all channels, of values in 0..1; MNIST's are 0.1307,
  // 0.3081. Computed in f32 and rounded to `dtype`, which is a floating one.
  Normalize(double mean, double std, DType dtype = DType::f32)
      : Normalize(std::vector{mean}, std::vector{std}, dtype) {}
  // One of each for each channel. Throws Error for different numbers or more than 4, a std that is
  // not above 0, and another dtype.
  Normalize(std::vector<double> mean, std::vector<double> std, DType dtype = DType::f32);
  // With the statistics of each channel of these u8 images. Channels that never vary get std 1.
  static Normalize fit(const Tensor& images, DType dtype = DType::f32);

  // Throws ShapeError for another dtype or rank, or channels that do not match.
  Tensor operator()(const Tensor& images) const;
  void operator()(Batch& batch) const { batch.inputs = (*this)(batch.inputs); }

  const std::vector<double>& mean() const { return mean_; }
  const std::vector<double>& std() const { return std_; }
  DType dtype() const { return dtype_; }

 private:
  std::vector<double> mean_, std_;
  DType dtype_;
};

struct Range {
  double low = 0, high = 0;
};

struct CropOptions {
  Size2 size = {};  // unset: the images' own
  int64_t padding = 0;
  Border border = Border::zero;
  bool random = true;  // else the centre
};

// Random erasing (Zhong et al. 2020): a box of a share of the image's area, `aspect` its height to
// its width, both uniform in their ranges.
struct ErasingOptions {
  double probability = 0;
  Range area = {0.02, 0.33};
  Range aspect = {0.3, 3.3};
};

struct AugmentOptions {
  CropOptions crop = {};
  Flip flip = Flip::none;         // left to right
  double flip_probability = 0.5;  // of Flip::random
  int64_t cutout = 0;             // side of a square whose centre is uniform in the image
  ErasingOptions erasing = {};
  std::optional<Normalize> normalize = {};
  // Unset: normalize's, or u8. A floating one without normalize gives x / 255.
  std::optional<DType> dtype = {};
  // What is cut out becomes the mean, 0 after normalisation; in u8 images these levels.
  std::vector<uint8_t> fill = {};
  int64_t channels = 0;               // of the result, further ones are 0; 0: the images'
  std::optional<uint64_t> seed = {};  // unset: random::seed() when the transform is made
};

// The samples that a batch is made of, on the images' device by one upload: what random transforms
// depend on.
struct SampleIds {
  SampleIds(std::span<const int64_t> ids, int64_t epoch, Device device);
  Tensor ids;    // (N) i64, indices in the data set
  Tensor epoch;  // scalar i64
};

// Random crop, flip, cutout, erasing, normalisation and cast in this order by one kernel. What is
// drawn for a sample depends on seed, epoch and the sample's index in its set alone: any batch,
// loader and device gives the same bits. A loader's transform, or ImageDataset's.
//
//   const Augment augment({.crop = {.size = 32, .padding = 4, .border = Border::reflect},
//                          .flip = Flip::random, .normalize = Normalize::fit(images)});
class Augment {
 public:
  // Throws Error for options out of range.
  explicit Augment(AugmentOptions options);

  // Images (N, H, W, C) u8 with C of 1 to 4, one a sample. Throws ShapeError for others, for a crop
  // that does not fit, and for reflected padding as wide as the images; DeviceError for samples on
  // another device.
  Tensor operator()(const Tensor& images, const SampleIds& samples) const;
  void operator()(Batch& batch) const;
  // The same of images[ids[i]], which are not checked.
  Tensor gather(const Tensor& images, const SampleIds& samples) const;
  // What it makes of images of this shape (N, H, W, C). Throws ShapeError as above.
  Shape output_shape(const Shape& images) const;

  const AugmentOptions& options() const { return options_; }
  DType dtype() const { return *options_.dtype; }

 private:
  Tensor apply(const Tensor& images, const Tensor& indices, const SampleIds& samples) const;

  AugmentOptions options_;
  kernels::AugmentParams params_;
};

// Factors are uniform in their ranges; 1 changes nothing. Of a hue the share of a turn, in
// -0.5..0.5.
struct ColorJitterOptions {
  Range brightness = {1, 1};
  Range contrast = {1, 1};
  Range saturation = {1, 1};
  Range hue = {0, 0};
  std::optional<uint64_t> seed = {};  // unset: random::seed() when the transform is made
};

// Brightness, contrast, saturation and hue of u8 images (N, H, W, 3), in an order that is drawn
// too, as Pillow's ImageEnhance has them and torchvision's adjust_hue. Draws as Augment does. As a
// loader's transform before another one:
//
//   .transform = [=](Batch& batch) { jitter(batch); augment(batch); }
class ColorJitter {
 public:
  // Throws Error for factors outside 0..32 and hues outside -0.5..0.5.
  explicit ColorJitter(ColorJitterOptions options);

  // One image a sample. Throws ShapeError for others, DeviceError for samples on another device.
  Tensor operator()(const Tensor& images, const SampleIds& samples) const;
  void operator()(Batch& batch) const;

 private:
  uint64_t seed_;
  kernels::JitterParams params_;
};

}  // namespace adret
