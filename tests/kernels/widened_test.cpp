// Calls in bf16 and f16 of kernels that compute in f32: what is added to, updated in place, shared
// and left alone. Every kernel's values in these dtypes are compared under Note [Parity].
#include <adret/core/kernels/kernel.h>
#include <adret/core/tensor.h>
#include <gtest/gtest.h>

#include <vector>

namespace adret {
namespace {

using kernels::BinaryOp;
using kernels::UnaryOp;

class In16Bits : public testing::TestWithParam<DType> {
 protected:
  Tensor of(const std::vector<float>& values, const Shape& shape) const {
    return Tensor::from(values, shape).to(GetParam());
  }
  static std::vector<float> values(const Tensor& tensor) {
    return tensor.to(DType::f32).to_vector();
  }
};
INSTANTIATE_TEST_SUITE_P(Both, In16Bits, testing::Values(DType::bf16, DType::f16));

using Floats = std::vector<float>;

TEST_P(In16Bits, UpdatesInPlace) {
  const Tensor x = of({1, -2, 3}, {3});
  run(kernels::Unary{.x = x, .y = x, .op = UnaryOp::affine, .alpha = 2, .beta = 1});
  EXPECT_EQ(values(x), (Floats{3, -3, 7}));
  run(kernels::Binary{.a = x, .b = x, .y = x, .op = BinaryOp::add});
  EXPECT_EQ(values(x), (Floats{6, -6, 14}));
}

TEST_P(In16Bits, AddsToAProduct) {
  const Tensor a = of({1, 2}, {1, 2}), b = of({3, 4}, {2, 1}), y = of({100}, {1, 1});
  run(kernels::Matmul{.a = a, .b = b, .y = y, .accumulate = true});
  EXPECT_EQ(values(y), (Floats{111}));
}

// The first row starts where the whole matrix does, and is another operand.
TEST_P(In16Bits, TellsASliceFromTheWhole) {
  const Tensor whole = of({1, 2, 10, 20}, {2, 2}), row = whole.alias({1, 2});
  run(kernels::Binary{.a = whole, .b = row, .y = whole, .op = BinaryOp::add});
  EXPECT_EQ(values(whole), (Floats{2, 4, 11, 22}));
}

TEST_P(In16Bits, WritesIntoASliceAlone) {
  const Tensor whole = of({1, 4, 9, 16}, {4}), middle = whole.alias({2}, 2);
  run(kernels::Unary{.x = middle, .y = middle, .op = UnaryOp::sqrt});
  EXPECT_EQ(values(whole), (Floats{1, 2, 3, 16}));
}

TEST_P(In16Bits, TakesTheSameElementsInTwoShapes) {
  const Tensor row = of({1, 2, 3, 4}, {1, 4}), column = row.alias({4, 1}), y = of({0}, {1, 1});
  run(kernels::Matmul{.a = row, .b = column, .y = y});
  EXPECT_EQ(values(y), (Floats{30}));
}

// 4096 ones: a sum in bf16 would stay at 256, one in f16 at 2048.
TEST_P(In16Bits, SumsInF32) {
  const Tensor x = Tensor::ones({4096}, {.dtype = GetParam()}), y = of({0}, {1});
  run(kernels::Reduce{.x = x, .y = y, .dims = 1});
  EXPECT_EQ(values(y), (Floats{4096}));
}

TEST_P(In16Bits, NormalisesWithStatisticsInF32) {
  // Means 2 and 0; variances 1 and 4; 0.1 of the unbiased ones, 2 and 8, beside 0.9 of 1.
  const Tensor x = of({1, 2, 3, -2}, {2, 2}), y = of({0, 0, 0, 0}, {2, 2});
  const Tensor mean = Tensor::zeros({2}), rstd = Tensor::zeros({2}),
               running_mean = Tensor::zeros({2}), running_var = Tensor::ones({2});
  run(kernels::BatchNormForward{.x = x,
                                .running_mean = running_mean,
                                .running_var = running_var,
                                .y = y,
                                .mean = mean,
                                .rstd = rstd,
                                .epsilon = 0});
  EXPECT_EQ(values(y), (Floats{-1, 1, 1, -1}));
  EXPECT_EQ(mean.to_vector(), (Floats{2, 0}));
  EXPECT_EQ(rstd.to_vector(), (Floats{1, 0.5}));
  EXPECT_EQ(running_mean.to_vector(), (Floats{0.1f * 2, 0}));
  EXPECT_FLOAT_EQ(running_var.to_vector()[0], 1.1f);
  EXPECT_FLOAT_EQ(running_var.to_vector()[1], 1.7f);
}

TEST_P(In16Bits, ComputesNothingOfNothing) {
  const Tensor x = Tensor::empty({0, 3}, {.dtype = GetParam()});
  run(kernels::Unary{.x = x, .y = x, .op = UnaryOp::exp});
  const Tensor sums = of({7, 7, 7}, {3});
  run(kernels::Reduce{.x = x, .y = sums, .dims = 1});
  EXPECT_EQ(values(sums), (Floats{0, 0, 0}));
}

}  // namespace
}  // namespace adret
