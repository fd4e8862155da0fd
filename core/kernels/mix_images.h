// Batches of images (N, H, W, C), each mixed with another one.
#pragma once

#include <adret/core/kernels/custom.h>

#include <cstdint>

namespace adret::kernels {

// What is mixed, words on the device: `kept` and `target_kept` are shares of the sample itself
// times 2^24, of its pixels outside of the box and of its target; within the box the partner's are
// taken.
struct MixWords {
  int64_t kept, top, left, bottom, right, target_kept;
};
inline constexpr int64_t mix_words = sizeof(MixWords) / sizeof(int64_t);

// Mixup (Zhang et al. 2018) and cutmix (Yun et al. 2019) of x (N, H, W, C) floating with
// x[partners[i]]: y = partner + kept * (x - partner), exactly x where all of it is kept. targets
// (N, classes), f32 or f64, get the shares at labels[i] and at labels[partners[i]]; labels (N) i32
// or i64, partners (N) i64, words (6) i64. A label that is no class makes its targets NaN.
struct MixImages {
  static constexpr const char* name = "mix_images";
  static constexpr CustomOperand inputs[] = {
      {.name = "x"}, {.name = "labels"}, {.name = "partners"}, {.name = "words"}};
  static constexpr CustomOperand outputs[] = {{.name = "y"}, {.name = "targets"}};
  bool operator==(const MixImages&) const = default;

  double flops(const CustomCall& call) const { return 3.0 * double(call.outputs[0].numel()); }
  void run_cpu(const CustomCall& call) const;
};

}  // namespace adret::kernels
