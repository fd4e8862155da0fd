// Transforms of batches: from bytes to the numbers a network likes.
#pragma once

#include <adret/data/dataset.h>

#include <vector>

namespace adret {

// Turns u8 images (N, H, W, C) into f32: (x / 255 - mean[c]) / std[c]. Serves as a loader's
// transform, or on a tensor.
class Normalize {
 public:
  // One mean and standard deviation for all channels, of values in 0..1; MNIST's are 0.1307,
  // 0.3081.
  Normalize(double mean, double std) : Normalize(std::vector{mean}, std::vector{std}) {}
  // One of each for each channel. Throws Error for different numbers, or a std that is not above 0.
  Normalize(std::vector<double> mean, std::vector<double> std);
  // With the statistics of each channel of these u8 images. Channels that never vary get std 1.
  static Normalize fit(const Tensor& images);

  // Throws ShapeError for another dtype or rank, or channels that do not match.
  Tensor operator()(const Tensor& images) const;
  void operator()(Batch& batch) const { batch.inputs = (*this)(batch.inputs); }

  const std::vector<double>& mean() const { return mean_; }
  const std::vector<double>& std() const { return std_; }

 private:
  std::vector<double> mean_, std_;
};

}  // namespace adret
