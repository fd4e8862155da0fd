// Which calls of pooling, activations and softmax cuDNN may compute, and what may be asked for.
#include <adret/core/cuda/implementation.h>
#include <adret/core/error.h>
#include <gtest/gtest.h>

#include "tests/support/expect_error.h"

namespace adret::cuda {
namespace {

using namespace kernels;

// Not to be read: only sizes and dtypes count.
TensorView operand(const Shape& shape, DType dtype = DType::f32) {
  static char memory;
  return {.data = &memory,
          .storage = reinterpret_cast<Storage*>(&memory),
          .shape = shape,
          .dtype = dtype,
          .device = Device::cuda()};
}

TEST(CudnnCan, MaxPoolOnlyWithoutPositions) {
  MaxPool2dForward call{.x = operand({2, 8, 8, 3}), .y = operand({2, 4, 4, 3})};
  EXPECT_TRUE(cudnn_can(call));
  call.position = operand({2, 4, 4, 3}, DType::u8);
  EXPECT_FALSE(cudnn_can(call));
}

TEST(CudnnCan, PoolOnlyWindowsInsideThePaddedImage) {
  const Pool2dParams pool{.kernel = 2, .stride = 2};
  const TensorView x = operand({1, 5, 6, 1}), down = operand({1, 2, 3, 1}),
                   up = operand({1, 3, 3, 1});
  EXPECT_TRUE(cudnn_can(AvgPool2dForward{.x = x, .y = down, .pool = pool}));
  EXPECT_TRUE(cudnn_can(AvgPool2dBackward{.dy = down, .dx = x, .pool = pool}));
  EXPECT_FALSE(cudnn_can(AvgPool2dForward{.x = x, .y = up, .pool = pool}));
  EXPECT_FALSE(cudnn_can(AvgPool2dBackward{.dy = up, .dx = x, .pool = pool}));
  EXPECT_FALSE(cudnn_can(MaxPool2dForward{.x = x, .y = up, .pool = pool}));
}

TEST(CudnnCan, ThreeActivations) {
  const TensorView x = operand({4, 3});
  for (const UnaryOp op : {UnaryOp::relu, UnaryOp::sigmoid, UnaryOp::tanh}) {
    EXPECT_TRUE(cudnn_can(Unary{.x = x, .y = x, .op = op})) << to_string(op);
  }
  for (const UnaryOp op : {UnaryOp::sigmoid, UnaryOp::tanh}) {
    EXPECT_TRUE(cudnn_can(UnaryBackward{.saved = x, .dy = x, .dx = x, .op = op})) << to_string(op);
  }
  // Its gradient of ReLU loses NaN.
  EXPECT_FALSE(cudnn_can(UnaryBackward{.saved = x, .dy = x, .dx = x, .op = UnaryOp::relu}));
  EXPECT_FALSE(cudnn_can(Unary{.x = x, .y = x, .op = UnaryOp::gelu}));
  EXPECT_FALSE(cudnn_can(UnaryBackward{.saved = x, .dy = x, .dx = x, .op = UnaryOp::gelu}));
}

// cuDNN's gradient of rows of 1000 elements was measured to take 150 times as long as ours.
TEST(CudnnIsFaster, ForShortRowsAndNotForGradientsOfLongOnes) {
  const auto forward = [](const TensorView& x) { return cudnn_is_faster(SoftmaxForward{x, x, 1}); };
  const auto backward = [](const TensorView& y) {
    return cudnn_is_faster(SoftmaxBackward{y, y, y, 1});
  };
  EXPECT_TRUE(forward(operand({64, 10})));
  EXPECT_TRUE(backward(operand({64, 10})));
  EXPECT_TRUE(forward(operand({4096, 1024})));
  EXPECT_FALSE(forward(operand({256, 1000})));
  EXPECT_FALSE(backward(operand({256, 1000})));
  EXPECT_FALSE(backward(operand({4096, 1024})));
  EXPECT_FALSE(forward(operand({64, 10}, DType::f64)));
}

TEST(CudnnCan, SizesOf32Bits) {
  const auto softmax = [](const TensorView& x) {
    return cudnn_can(SoftmaxForward{.x = x, .y = x});
  };
  EXPECT_TRUE(softmax(operand({4, 3}, DType::f64)));
  EXPECT_TRUE(softmax(operand({2, (int64_t(1) << 30) - 1}, DType::bf16)));
  EXPECT_FALSE(softmax(operand({2, int64_t(1) << 30}, DType::bf16)));
  EXPECT_FALSE(softmax(operand({0, 3})));
}

TEST(Implementation, IsOneOfThree) {
  EXPECT_EQ(parse_implementation("own"), Implementation::own);
  EXPECT_EQ(parse_implementation("cudnn"), Implementation::cudnn);
  EXPECT_EQ(parse_implementation("fastest"), Implementation::fastest);
  EXPECT_EQ(parse_implementation(""), Implementation::fastest);
  test::expect_error<DeviceError>([] { return parse_implementation("cublas"); },
                                  "[cuda] ADRET_CUDA_LAYERS=cublas says which kernels run pooling, "
                                  "activations and softmax: use own, cudnn or fastest");
}

}  // namespace
}  // namespace adret::cuda
