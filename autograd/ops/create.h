// Tensors of numbers: ranges, unit matrices, classes, random ones. Tensor::full, zeros and ones are
// in core/tensor.h. Results have no gradient.
#pragma once

#include <adret/core/tensor.h>

namespace adret {

// start, start + step, ... before end, as many as ceil((end - start) / step), in any dtype but
// boolean (integers up to 2^53). Throws ShapeError for a step of 0 or no number, and for numbers
// beyond the dtype's range, as linspace does, which throws it for an infinite distance, too;
// integers drop fractions.
Tensor arange(double start, double end, double step = 1, const TensorOptions& options = {});
// `count` numbers from start to end, both included, at equal distances; one number is `start`.
Tensor linspace(double start, double end, int64_t count, const TensorOptions& options = {});
// (rows, columns) with 1 where both indices are equal, else 0.
Tensor eye(int64_t rows, int64_t columns, const TensorOptions& options = {});
Tensor eye(int64_t n, const TensorOptions& options = {});
// (..., classes) of `dtype`: 1 at each label's place; nothing for a label outside 0..classes-1.
// Labels (...) are i32 or i64, else ShapeError.
Tensor one_hot(const Tensor& labels, int64_t classes, DType dtype = DType::f32);

// Drawn from the `user` stream of core/random.h, in floating dtypes unless said. Each call draws
// new numbers, so a Step that draws is not replayed.
Tensor rand(const Shape& shape, const TensorOptions& options = {});   // uniform in [0, 1)
Tensor randn(const Shape& shape, const TensorOptions& options = {});  // normal, drawn on the CPU
// Integers low..high-1, alike likely. Throws ShapeError unless low < high and the dtype holds them.
Tensor randint(int64_t low, int64_t high, const Shape& shape,
               const TensorOptions& options = {.dtype = DType::i64});
// 1 with the probability that each element of p is, else 0; p's dtype. Throws ShapeError for a p
// outside 0..1 on the CPU; on a GPU that would mean to wait, so one above 1 counts as 1 there, one
// below 0 and NaN as 0.
Tensor bernoulli(const Tensor& p);
// 0..n-1 in a random order, i64; drawn on the CPU.
Tensor randperm(int64_t n, Device device = Device::cpu());

}  // namespace adret
