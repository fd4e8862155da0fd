// Colours of images (N, H, W, 3), changed at random.
#pragma once

#include <adret/core/kernels/custom.h>
#include <adret/core/random.h>

#include <array>
#include <cstdint>
#include <string>

namespace adret::kernels {

// Least and largest factor times 2^16, at most 2^22; hue in 2^16ths of a turn, -2^15..2^15.
struct JitterParams {
  std::array<int32_t, 2> brightness{1 << 16, 1 << 16}, contrast{1 << 16, 1 << 16},
      saturation{1 << 16, 1 << 16}, hue{};
  bool operator==(const JitterParams&) const = default;
};

// Brightness, contrast, saturation and hue of u8 images (N, H, W, 3) in an order that is drawn too,
// per sample (Note [Augmentation]). Each step is rounded to levels: blends with black, with the
// mean gray level and with the pixel's own, rounded down, and a turn of the hue, to the nearest.
// ids (N) i64 and epoch (scalar i64) may be undefined when nothing is drawn.
struct JitterColors {
  static constexpr const char* name = "jitter_colors";
  static constexpr CustomOperand inputs[] = {{.name = "x"},
                                             {.name = "ids", .optional = true},
                                             {.name = "epoch", .optional = true}},
                                 outputs[] = {{.name = "y"}};
  RandomKey key;
  JitterParams jitter;
  bool operator==(const JitterColors&) const = default;

  std::string params() const;
  void run_cpu(const CustomCall& call) const;
};

}  // namespace adret::kernels
