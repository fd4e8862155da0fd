// Operands for kernel tests, with guards around them: what is read beyond an operand is NaN, and
// what is written beyond it is noticed.
#pragma once

#include <adret/core/tensor.h>
#include <adret/core/tensor_view.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <random>
#include <span>
#include <vector>

namespace adret::test {

// A CPU tensor of T in the middle of a larger one.
template <class T>
class Guarded {
 public:
  explicit Guarded(const Shape& shape)
      : whole_(Tensor::empty({shape.numel() + 2 * guard}, {.dtype = dtype_of<T>})),
        tensor_(whole_.alias(shape, guard * sizeof(T))) {
    std::ranges::fill(whole_.span<T>(), T(NAN));
  }
  Guarded(const Shape& shape, const std::vector<double>& values) : Guarded(shape) {
    EXPECT_EQ(int64_t(values.size()), shape.numel());
    std::ranges::transform(values, tensor_.span<T>().begin(), [](double v) { return T(v); });
  }
  operator TensorView() const { return tensor_; }
  operator const Tensor&() const { return tensor_; }

  std::vector<double> values() const {
    const std::span<T> elements = tensor_.span<T>();
    return {elements.begin(), elements.end()};
  }
  std::vector<T> exact() const {
    const std::span<T> elements = tensor_.span<T>();
    return {elements.begin(), elements.end()};
  }
  bool guards_intact() const {
    const std::span<T> all = whole_.span<T>();
    const auto is_nan = [](T v) { return std::isnan(v); };
    return std::ranges::all_of(all.first(guard), is_nan) &&
           std::ranges::all_of(all.last(guard), is_nan);
  }

 private:
  static constexpr int64_t guard = 64;
  Tensor whole_, tensor_;
};

// Uniform in -1..1 and exact in f32, so that f32 and f64 runs have the same operands. The generator
// and the arithmetic are fixed by the standard: the same values everywhere.
inline std::vector<double> random_values(int64_t count, uint32_t seed) {
  std::mt19937 generator(seed);
  std::vector<double> values(static_cast<size_t>(count));
  for (double& v : values) v = double(int32_t(generator() >> 8) - (1 << 23)) / (1 << 23);
  return values;
}

// ((i * factor + offset) mod modulus - modulus / 2) / 8 for i = 0, 1, ...: small eighths, of which
// sums of products are exact.
inline std::vector<double> eighths(int64_t count, int64_t factor, int64_t offset, int64_t modulus) {
  std::vector<double> values;
  for (int64_t i = 0; i < count; ++i) {
    values.push_back(double((i * factor + offset) % modulus - modulus / 2) / 8);
  }
  return values;
}

}  // namespace adret::test
