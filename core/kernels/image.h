// Batches of images (N, H, W, C): augmentation and normalisation in one pass, resizing.
#pragma once

#include <adret/core/kernels/operand.h>
#include <adret/core/random.h>

#include <array>
#include <cstdint>
#include <string>

namespace adret::kernels {

// What lies around an image: black, or the image mirrored about its outermost pixels, which are not
// repeated.
enum class Border : uint8_t { zero, reflect };
// `alternating` flips a sample in every second epoch, which of them is drawn once a sample (Jordan
// 2024, "94% on CIFAR-10 in 3.29 seconds on a single GPU").
enum class Flip : uint8_t { none, random, alternating };
const char* to_string(Border border);
const char* to_string(Flip flip);

// Note [Augmentation]
// The random words of a sample are Philox blocks of the counter (id, id >> 32, 16 * call + block,
// epoch), its id being its index in the data set: they depend on seed, epoch and id alone, not on
// the batch. Everything drawn is worked out in integers by core/kernels/image_plan.h on every
// device, and a level becomes a number by one fused multiply-add: devices agree bit for bit.
struct AugmentParams {
  bool random_crop = false;  // else the centre
  int32_t padding = 0;       // pixels on each side; below the image's size if reflected
  Border border = Border::zero;
  Flip flip = Flip::none;
  uint64_t flip_chance = uint64_t(1) << 31;  // of Flip::random, of 2^32
  int32_t cutout = 0;                      // side of the square (DeVries and Taylor 2017); 0: none
  uint64_t erase_chance = 0;               // of 2^32 (Zhong et al. 2020, algorithm 1)
  std::array<uint32_t, 2> erase_area{};    // least and largest share of the crop, of 2^16
  std::array<uint32_t, 2> erase_aspect{};  // least and largest height / width, times 2^16
  std::array<uint8_t, 4> fill{};           // of what is cut out in u8 images
  std::array<float, 4> scale{1, 1, 1, 1}, shift{};

  constexpr bool draws() const {
    return random_crop || flip != Flip::none || cutout > 0 || erase_chance > 0;
  }
  bool operator==(const AugmentParams&) const = default;
};
std::string to_string(const AugmentParams& params);

// Crop, flip, cutout, erasing of image indices[i] of x (M, H, W, C) u8, or of image i if indices
// (N) i64 is undefined; y (N, OH, OW, D): level * scale[c] + shift[c] rounded to a float, 0 where
// cut out; or the level itself and `fill` if y is u8. C is 1 to 4; channels from C on are 0. `ids`
// (N) i64 and `epoch` (scalar i64) may be undefined when nothing is drawn. OH and OW are at most H
// and W with the padding, and below 2^31 elements a y image.
struct AugmentImages {
  static constexpr const char* name = "augment_images";
  TensorView x, indices, ids, epoch, y;
  RandomKey key;
  AugmentParams augment;

  auto inputs() const {
    return operands(Operand{"x", x}, Operand{"indices", indices}, Operand{"ids", ids},
                    Operand{"epoch", epoch});
  }
  auto outputs() const { return operands(Operand{"y", y}); }
  double flops() const { return is_floating(y.dtype) ? 2.0 * double(y.numel()) : 0; }
  std::string params() const;
};

// Weighted sums of u8 images along dimension `dim` (1 or 2), in integers: y at place i is
// clip((2^21 + sum_k weight[i][k] * x[first_i + k]) >> 22, 0, 255). weights (places, 2 + K) i32 has
// in row i first_i, the number of weights, and the weights times 2^22, of magnitudes that add up to
// 1.9 at most.
struct ResampleImages {
  static constexpr const char* name = "resample_images";
  TensorView x, weights, y;
  int dim = 1;

  auto inputs() const { return operands(Operand{"x", x}, Operand{"weights", weights}); }
  auto outputs() const { return operands(Operand{"y", y}); }
  double flops() const { return 0; }
  std::string params() const;
};

}  // namespace adret::kernels
