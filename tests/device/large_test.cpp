// Tensors of more elements than 31 bits count: right values, and of sorting an error that says the
// limit.
#include <adret/autograd/engine.h>
#include <adret/autograd/ops/pool.h>
#include <adret/autograd/ops/shape.h>
#include <adret/autograd/ops/softmax.h>
#include <adret/autograd/ops/sort.h>
#include <adret/core/error.h>

#include <cmath>

#include "tests/support/expect_error.h"
#include "tests/support/second_device_test.h"

namespace adret {
namespace {

using namespace test;

constexpr int64_t groups = (int64_t(1) << 29) + 3;  // of four elements: 2^31 and twelve
constexpr double tolerance = 1e-3;                  // f16

// 4 GiB each: for a GPU with memory for five of them.
struct Large : OnSecondDevice {
  void SetUp() override {
    if (test_device() != TestDevice::cuda) {
      GTEST_SKIP() << "takes 20 GiB: with ADRET_TEST_DEVICE=cuda, in the GPU's memory";
    }
  }
  // Zeros, the last group being `values`.
  static Tensor with_last(const Shape& shape, const std::vector<float>& values) {
    const TensorOptions f16{.dtype = DType::f16, .device = second};
    const Tensor last = Tensor::from(values, shape.with(0, 1)).to(DType::f16).to(second);
    return concatenate({Tensor::zeros(shape.with(0, shape[0] - 1), f16), last}, 0);
  }
  static void expect_group(const Tensor& x, int64_t group, const std::vector<double>& values) {
    const std::vector<double> actual = values_of(slice(x, 0, group, group + 1));
    ASSERT_EQ(actual.size(), values.size());
    for (size_t i = 0; i < values.size(); ++i) {
      EXPECT_NEAR(actual[i], values[i], tolerance) << "element " << i << " of group " << group;
    }
  }
};

TEST_F(Large, Softmax) {
  Tensor x = with_last({groups, 4}, {0, 1, 2, 3});
  x.set_requires_grad(true);
  const Tensor y = softmax(x);
  const double total = 1 + std::exp(1) + std::exp(2) + std::exp(3);
  const std::vector<double> last = {1 / total, std::exp(1) / total, std::exp(2) / total,
                                    std::exp(3) / total};
  const std::vector<double> even = {0.25, 0.25, 0.25, 0.25};
  expect_group(y, 0, even);
  expect_group(y, groups - 2, even);
  expect_group(y, groups - 1, last);
  const Tensor dy = with_last({groups, 4}, {1, 0, 0, 0});
  const Tensor dx = grad({y}, {x}, {.grad_outputs = {dy}})[0];
  expect_group(dx, groups - 2, {0, 0, 0, 0});
  expect_group(
      dx, groups - 1,
      {last[0] * (1 - last[0]), -last[1] * last[0], -last[2] * last[0], -last[3] * last[0]});
}

TEST_F(Large, Pooling) {
  for (const bool of_largest : {true, false}) {
    Tensor x = with_last({groups, 2, 2, 1}, {0, 1, 2, 5});
    x.set_requires_grad(true);
    const Tensor y = of_largest ? max_pool2d(x, 2) : avg_pool2d(x, 2);
    expect_group(y, 0, {0});
    expect_group(y, groups - 2, {0});
    expect_group(y, groups - 1, {of_largest ? 5.0 : 2.0});
    const Tensor dy = with_last({groups, 1, 1, 1}, {1});
    const Tensor dx = grad({y}, {x}, {.grad_outputs = {dy}})[0];
    expect_group(dx, groups - 2, {0, 0, 0, 0});
    expect_group(
        dx, groups - 1,
        of_largest ? std::vector<double>{0, 0, 0, 1} : std::vector<double>{0.25, 0.25, 0.25, 0.25});
  }
}

// The device can still be used afterwards.
TEST_F(Large, SortingNamesItsLimit) {
  const Tensor x = Tensor::zeros({4 * groups}, {.dtype = DType::u8, .device = second});
  expect_error<ShapeError>([&] { return topk(x, 1); },
                           "[sort] takes up to 2^31 - 1 elements on CUDA, got 2147483660");
  EXPECT_EQ(values_of(Tensor::ones({2}, {.device = second})), (std::vector<double>{1, 1}));
}

}  // namespace
}  // namespace adret
