// Weights, images and labels from the integer hash of tests/golden/vision_golden.py, so that
// PyTorch has the same without a file.
#pragma once

#include <adret/autograd/ops/shape.h>
#include <adret/core/tensor.h>

#include <cmath>
#include <cstdint>
#include <string>
#include <vector>

namespace adret::test {

// `count` numbers in [-1, 1) of 24 bits: element i of the tensor `name`. FNV-1a of the name, then
// the end of MurmurHash3.
inline std::vector<double> hashed_unit(const std::string& name, int64_t count) {
  uint32_t seed = 2166136261u;
  for (const char c : name) seed = (seed ^ uint8_t(c)) * 16777619u;
  std::vector<double> values(static_cast<size_t>(count));
  for (size_t i = 0; i < values.size(); ++i) {
    uint32_t h = uint32_t(i) * 0x9E3779B9u + seed;
    h = (h ^ (h >> 16)) * 0x85EBCA6Bu;
    h = (h ^ (h >> 13)) * 0xC2B2AE35u;
    h ^= h >> 16;
    values[i] = double(h >> 8) / (1 << 23) - 1;
  }
  return values;
}

// What a state_dict holds under a name, in PyTorch's layout: f32, or the i64 count of batches.
inline Tensor hashed_weight(const std::string& name, const Shape& shape) {
  if (name.ends_with("num_batches_tracked")) return Tensor::from<int64_t>({7}, {});
  std::vector<float> values;
  values.reserve(size_t(shape.numel()));
  const double bound =
      shape.rank() > 1 ? std::sqrt(3 / double(shape.numel() / std::max<int64_t>(1, shape[0]))) : 0;
  for (const double u : hashed_unit(name, shape.numel())) {
    const double value = name.ends_with("running_var") ? 1 + 0.5 * u
                         : shape.rank() > 1            ? u * bound
                         : name.ends_with("weight")    ? 0.75 + 0.25 * u
                                                       : 0.1 * u;
    values.push_back(float(value));
  }
  return Tensor::from(values, shape);
}

// (count, size, size, 3); the numbers run through the images as PyTorch has them.
inline Tensor hashed_images(const std::string& name, int64_t count, int64_t size) {
  const std::vector<double> values = hashed_unit(name, count * 3 * size * size);
  return permute(Tensor::from(values, {count, 3, size, size}), {0, 2, 3, 1});
}

inline Tensor hashed_labels(const std::string& name, int64_t count) {
  std::vector<int64_t> labels;
  for (const double u : hashed_unit(name, count)) labels.push_back(int64_t((u + 1) * 5));
  return Tensor::from(labels, {count});
}

}  // namespace adret::test
