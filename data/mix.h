// Mixed batches: mixup and cutmix, with targets that are shares of the classes.
#pragma once

#include <adret/data/dataset.h>

#include <cstdint>
#include <optional>

namespace adret {

struct MixOptions {
  int64_t num_classes = 0;            // of the targets that come of it
  double alpha = 1;                   // of the distribution of the share: Beta(alpha, alpha)
  double probability = 1;             // that a batch is mixed at all
  std::optional<uint64_t> seed = {};  // unset: random::seed() when the transform is made
};

// Both mix each sample with another one of its batch. Inputs are normalised images (N, H, W, C) of
// a floating dtype, targets class labels (N); afterwards targets are (N, num_classes) f32, for the
// cross-entropy of shares, also in batches that are not mixed. What is drawn depends on
// seed, epoch and number of the batch alone. For a loader's transform, behind others:
//
//   .transform = [=](Batch& batch) { augment(batch); mixup(batch); }

// Mixup (Zhang et al. 2018): share * sample + (1 - share) * partner.
class Mixup {
 public:
  // Throws Error for options out of range.
  explicit Mixup(MixOptions options);
  // Throws ShapeError for other inputs or targets.
  void operator()(Batch& batch) const;

 private:
  MixOptions options_;
};

// Cutmix (Yun et al. 2019): a box of the partner, of 1 - share of the area and the image's ratio of
// sides, around a pixel drawn uniformly and cut off at the border; targets by the area left.
class Cutmix {
 public:
  explicit Cutmix(MixOptions options);
  void operator()(Batch& batch) const;

 private:
  MixOptions options_;
};

}  // namespace adret
