// Tensors on a second device: made, read, printed, sliced; empty batches; wrong labels.
#include <adret/autograd/ops/activation.h>
#include <adret/autograd/ops/arithmetic.h>
#include <adret/autograd/ops/conv.h>
#include <adret/autograd/ops/loss.h>
#include <adret/autograd/ops/matmul.h>
#include <adret/autograd/ops/norm.h>
#include <adret/autograd/ops/pool.h>
#include <adret/autograd/ops/reduce.h>
#include <adret/autograd/ops/shape.h>
#include <adret/autograd/ops/softmax.h>
#include <adret/core/error.h>

#include <functional>

#include "tests/support/expect_error.h"
#include "tests/support/gradients.h"
#include "tests/support/second_device_test.h"

namespace adret {
namespace {

using namespace test;

struct TensorThere : OnSecondDevice {};

TEST_F(TensorThere, IsMadeInEveryDtypeAndRead) {
  for (DType dtype : {DType::f32, DType::bf16, DType::f16, DType::f64, DType::i32, DType::i64,
                      DType::u8, DType::boolean}) {
    const TensorOptions options{.dtype = dtype, .device = second};
    for (const Tensor& one : {Tensor::ones({2, 3}, options), Tensor::full({6}, 1, options),
                              Tensor::zeros({3}, options).to(Device::cpu()).to(second)}) {
      EXPECT_EQ(one.device(), second);
      EXPECT_EQ(one.dtype(), dtype);
    }
    EXPECT_EQ(values_of(Tensor::ones({2, 3}, options)), std::vector<double>(6, 1)) << name(dtype);
    EXPECT_EQ(values_of(Tensor::zeros({1000}, options)), std::vector<double>(1000, 0));
    EXPECT_EQ(Tensor::empty({0, 3}, options).to(Device::cpu()).numel(), 0);
  }
  const Tensor x = Tensor::from({1.5f, -2.f}, {2}, second);
  EXPECT_EQ(x.to_vector(), (std::vector<float>{1.5f, -2}));
  EXPECT_EQ(Tensor::full({}, 3, {.device = second}).item(), 3);
  EXPECT_EQ(Tensor::from<int64_t>({int64_t(1) << 40}, {1}, second).item<int64_t>(), int64_t(1)
                                                                                        << 40);
  EXPECT_EQ(x.clone().to_vector(), x.to_vector());
  EXPECT_TRUE(x.to(second).is_same(x));
  expect_error<DeviceError>([&] { return x.span<float>().size(); }, "[span] the tensor (2,) is on");
}

TEST_F(TensorThere, ConvertsBetweenDtypes) {
  const Tensor x = Tensor::from({1.00390625f, -3.75f, 65520.f}, {3}, second);
  // By hand: bf16 keeps 8 bits and f16 11, ties to even; 65520 is the first that rounds to
  // infinity.
  EXPECT_EQ(values_of(x.to(DType::bf16)), (std::vector<double>{1, -3.75, 65536}));
  EXPECT_EQ(values_of(x.to(DType::f16)), (std::vector<double>{1.00390625, -3.75, HUGE_VAL}));
  EXPECT_EQ(values_of(x.to(DType::i32)), (std::vector<double>{1, -3, 65520}));
  EXPECT_EQ(values_of(x.to(DType::boolean)), (std::vector<double>{1, 1, 1}));
}

TEST_F(TensorThere, PrintsLikeOneOfTheCpuWithItsDevice) {
  for (const Tensor& here : {sequence({2, 3}), sequence({40, 1000}), Tensor::from<int32_t>({}, {0}),
                             Tensor::from<bool>({true, false}, {2})}) {
    std::string expected = to_string(here);
    const size_t device = expected.rfind("cpu");
    ASSERT_NE(device, std::string::npos) << expected;
    expected.replace(device, 3, "cuda:0");
    EXPECT_EQ(to_string(here.to(second)), expected);
  }
}

// Slices of the first dimension share memory, so that kernels meet pointers of any alignment.
TEST_F(TensorThere, ComputesOnSlicesOfAnyAlignment) {
  using Function = std::function<Tensor(const Tensor&)>;
  const Tensor weight = sequence({5, 4}, 7), kernel = sequence({4, 3, 3, 1}, 3);
  const auto like = [](const Tensor& t, const Tensor& x) { return t.to(x.dtype()).to(x.device()); };
  const std::vector<std::pair<const char*, Function>> functions = {
      {"add", [](const Tensor& x) { return x + x; }},
      {"relu", [](const Tensor& x) { return relu(x); }},
      {"gelu", [](const Tensor& x) { return gelu(x); }},
      {"sum", [](const Tensor& x) { return sum(x, {.dims = {0}}); }},
      {"max", [](const Tensor& x) { return max(x, {.dims = {1}}); }},
      {"softmax", [](const Tensor& x) { return softmax(x); }},
      {"transpose", [](const Tensor& x) { return transpose(x, 0, 1); }},
      {"batch_norm", [](const Tensor& x) { return batch_norm(x, {}, {}, {}, {}); }},
      {"linear",
       [&](const Tensor& x) {
         return linear(reshape(x, std::vector<int64_t>{-1, 4}), like(weight, x));
       }},
      {"conv2d",
       [&](const Tensor& x) {
         return conv2d(reshape(x, std::vector<int64_t>{1, -1, 4, 1}), like(kernel, x));
       }},
      {"max_pool2d",
       [](const Tensor& x) {
         return max_pool2d(reshape(x, std::vector<int64_t>{1, -1, 4, 1}), 2);
       }},
  };
  for (DType dtype : {DType::f32, DType::f64, DType::bf16, DType::f16}) {
    const double tolerance = dtype == DType::f64   ? 1e-12
                             : dtype == DType::f32 ? 1e-5
                             : dtype == DType::f16 ? 4e-3
                                                   : 3e-2;
    const Tensor flat = sequence({97}).to(dtype);
    for (const auto& [name, function] : functions) {
      for (int64_t begin : {0, 1, 2, 3, 5, 8}) {
        const auto sliced = [&](const Tensor& x) {
          return reshape(slice(x, 0, begin, begin + 88), std::vector<int64_t>{22, 4});
        };
        // The CPU computes in f64 on the same rounded values.
        const Tensor expected = function(sliced(flat.to(DType::f64)));
        const Tensor actual = function(sliced(flat.to(second)));
        EXPECT_EQ(actual.device(), second);
        expect_alike(actual, expected, tolerance,
                     std::string(name) + " in " + adret::name(dtype) + " from element " +
                         std::to_string(begin));
      }
    }
  }
}

TEST_F(TensorThere, OfNoImagesGoesThroughEveryLayer) {
  const auto there = [](const Tensor& x) { return x.to(DType::f32).to(second); };
  const auto weight = [&](const Shape& shape) {
    Tensor w = there(sequence(shape)).detach();
    return w.set_requires_grad(true);
  };
  const Tensor x = Tensor::empty({0, 8, 8, 3}, {.device = second});
  const Tensor kernel = weight({4, 3, 3, 3}), bias = weight({4}), matrix = weight({5, 36}),
               scale = weight({4});
  const Tensor running = there(positive_variable({4}));
  Tensor h = conv2d(x, kernel, bias, {.activation = Activation::relu});
  EXPECT_EQ(h.shape(), Shape({0, 6, 6, 4}));
  h = batch_norm(h, scale, {}, running, running, {.training = false});
  h = flatten(max_pool2d(h, 2));
  EXPECT_EQ(h.shape(), Shape({0, 36}));
  EXPECT_EQ(global_avg_pool2d(x).shape(), Shape({0, 3}));
  EXPECT_EQ(avg_pool2d(x, 2).shape(), Shape({0, 4, 4, 3}));
  const Tensor y = softmax(linear(h, matrix));
  EXPECT_EQ(y.shape(), Shape({0, 5}));
  const Tensor total = sum(y);
  EXPECT_EQ(total.item(), 0);
  total.backward();
  for (const Tensor& w : {kernel, bias, matrix, scale}) {
    ASSERT_TRUE(w.grad().defined());
    EXPECT_EQ(values_of(w.grad()), std::vector<double>(size_t(w.numel()), 0)) << to_string(w);
  }
}

TEST_F(TensorThere, OfLabelsOutOfRangeGivesNaNAndLeavesTheDeviceUsable) {
  const Tensor logits = Tensor::zeros({3, 10}, {.device = second});
  for (int64_t wrong : {int64_t(10), int64_t(-1), INT64_MAX, INT64_MIN}) {
    const Tensor labels = Tensor::from<int64_t>({1, wrong, 9}, {3}, second);
    EXPECT_TRUE(std::isnan(cross_entropy(logits, labels).item()));
    const std::vector<double> each =
        values_of(cross_entropy(logits, labels, {.reduction = Reduction::none}));
    EXPECT_TRUE(std::isnan(each[1]));
    EXPECT_NEAR(each[0], std::log(10), 1e-6);
    EXPECT_NEAR(each[2], std::log(10), 1e-6);
  }
  const Tensor right = Tensor::from<int32_t>({1, 0, 9}, {3}, second);
  EXPECT_NEAR(cross_entropy(logits, right).item(), std::log(10), 1e-6);
}

TEST_F(TensorThere, RefusesOperandsOfBothDevicesAndStaysUsable) {
  const Tensor here = Tensor::ones({2}), there = here.to(second);
  expect_error<DeviceError>([&] { return here + there; }, "move one with to(device)");
  expect_error<ShapeError>([&] { return there + Tensor::ones({3}, {.device = second}); }, "[add]");
  EXPECT_EQ(values_of(there + there), (std::vector<double>{2, 2}));
}

}  // namespace
}  // namespace adret
