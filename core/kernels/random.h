// Random fills and dropout from counter-based random numbers.
#pragma once

#include <adret/core/kernels/matmul.h>
#include <adret/core/kernels/operand.h>
#include <adret/core/random.h>

#include <string>

namespace adret::kernels {

// Note [Random kernels]
// Word e of a fill is word e % 4 of philox(philox_counter(key, e / 4, step), philox_key(key)),
// where `step` (scalar i64 on the same device) is read by the kernel, so that a replayed step draws
// anew. Both backends give the same bits.

// y uniform in [low, high), from 24 random bits (53 for f64, two words an element): min(low + u *
// (high - low), last()) with one rounding of the sum, in f32 for 16-bit y and then rounded to it.
struct RandomUniform {
  static constexpr const char* name = "random_uniform";
  TensorView y, step;
  RandomKey key;
  double low = 0, high = 1;

  auto inputs() const { return operands(Operand{"step", step}); }
  auto outputs() const { return operands(Operand{"y", y}); }
  double flops() const { return double(y.numel()); }
  std::string params() const;
  // The largest number of y's dtype below high, which rounding could reach; low if there is none.
  double last() const;
};

// y normal (Box and Muller 1958), 16-bit y rounded through f32. Drawn on the CPU for every device,
// as logarithms and cosines differ: elsewhere the caller waits for it.
struct RandomNormal {
  static constexpr const char* name = "random_normal";
  TensorView y, step;
  RandomKey key;
  double mean = 0, std = 1;

  auto inputs() const { return operands(Operand{"step", step}); }
  auto outputs() const { return operands(Operand{"y", y}); }
  double flops() const { return 8.0 * double(y.numel()); }
  std::string params() const;
};

// Dropout (Srivastava et al. 2014): mask (u8) is 0 with probability p, else 1; y = x * mask / (1 -
// p), exactly 0 where dropped, also for p = 1. One word an element, dropped when word < p * 2^32.
// With the activation relu the mask is 0 also where x <= 0, so that the backward pass is that of
// relu and dropout.
struct DropoutForward {
  static constexpr const char* name = "dropout_forward";
  TensorView x, step, y, mask;
  RandomKey key;
  double p = 0.5;
  Activation activation = Activation::none;

  auto inputs() const { return operands(Operand{"x", x}, Operand{"step", step}); }
  auto outputs() const { return operands(Operand{"y", y}, Operand{"mask", mask}); }
  double flops() const { return double(y.numel()); }
  std::string params() const;
};

// dx = dy * mask / (1 - p).
struct DropoutBackward {
  static constexpr const char* name = "dropout_backward";
  TensorView dy, mask, dx;
  double p = 0.5;

  auto inputs() const { return operands(Operand{"dy", dy}, Operand{"mask", mask}); }
  auto outputs() const { return operands(Operand{"dx", dx}); }
  double flops() const { return double(dx.numel()); }
  std::string params() const;
};

}  // namespace adret::kernels
