// Formulas as CUDA kernels beside the CPU's loops, both compiled by nvcc.
#include <adret/autograd/engine.h>
#include <adret/autograd/ops/arithmetic.h>
#include <adret/autograd/ops/reduce.h>
#include <adret/autograd/ops/shape.h>
#include <adret/core/backend.h>
#include <adret/core/error.h>

#include "tests/cuda/pointwise_kernels.h"
#include "tests/support/gradients.h"
#include "tests/support/mirror.h"
#include "tests/support/second_device_test.h"

namespace adret {
namespace {

using namespace test;
using Inputs = std::vector<Tensor>;

// Values, gradients and gradients of gradients.
Inputs all_of(const TestFunction& f, const Inputs& operands, Device device, DType dtype) {
  Inputs in;
  for (const Tensor& operand : operands) {
    in.push_back(operand.detach().to(dtype).to(device));
    in.back().set_requires_grad(true);
  }
  const Tensor y = f(in);
  const Tensor weight = sequence(y.shape(), 3).to(dtype).to(device);
  Inputs result = grad({y}, in, {.grad_outputs = {weight}, .create_graph = true});
  // Shares small enough for f16, in which gradients of broadcast operands are sums of many.
  Tensor total = sum(square(result[0] * 0.03125));
  for (size_t i = 1; i < in.size(); ++i) total = total + sum(square(result[i] * 0.03125));
  for (const Tensor& second : grad({total}, in)) result.push_back(second);
  result.push_back(y);
  return result;
}

void expect_as_cpu(const TestFunction& f, const Inputs& operands) {
  for (const DType dtype : {DType::f32, DType::f64, DType::bf16, DType::f16}) {
    SCOPED_TRACE(to_string(dtype));
    const double tolerance = dtype == DType::f64   ? 1e-12
                             : dtype == DType::f32 ? 1e-5
                             : dtype == DType::f16 ? 1e-2
                                                   : 4e-2;
    const Inputs here = all_of(f, operands, Device::cpu(), dtype),
                 there = all_of(f, operands, Device::cuda(), dtype);
    for (size_t i = 0; i < here.size(); ++i) {
      expect_alike(there[i], here[i], tolerance, "result " + std::to_string(i));
    }
  }
}

struct PointwiseOnGpu : testing::Test {
  void SetUp() override {
    if (test_device() != TestDevice::cuda) GTEST_SKIP() << "wants a GPU";
  }
  MirrorPause pause;
};

// Whole vectors, ends of vectors, and several blocks.
TEST_F(PointwiseOnGpu, OfOneOperand) {
  for (const int64_t n : {1, 3, 8, 1000, 4096, 70001}) expect_as_cpu(swish, {variable({n})});
}

TEST_F(PointwiseOnGpu, OfOperandsThatBroadcast) {
  expect_as_cpu(gate, {variable({33, 7}), variable({7}, 5)});
  expect_as_cpu(gate, {variable({33, 64}), variable({64}, 5)});
  expect_as_cpu(gate, {variable({33, 64}), variable({33, 1}, 5)});
  expect_as_cpu(gate, {variable({16, 1, 24}), variable({1, 5, 1}, 5)});
  expect_as_cpu(gate, {variable({1000}), variable({}, 5)});
  expect_as_cpu(mixed,
                {variable({9, 40}), variable({40}, 5), variable({9, 1}, 7), variable({}, 9)});
}

TEST_F(PointwiseOnGpu, OfNoElements) {
  const Tensor x = Tensor::zeros({0, 3}, {.device = Device::cuda()});
  EXPECT_EQ(swish({x}).shape(), Shape({0, 3}));
}

// Parts of a tensor whose addresses no vector can be loaded from.
TEST_F(PointwiseOnGpu, OfUnalignedOperands) {
  const auto part = [](const Inputs& in) { return swish({slice(in[0], 0, 1, in[0].size(0))}); };
  expect_as_cpu(part, {variable({1025})});
}

TEST_F(PointwiseOnGpu, OfSeveralOutputs) {
  const Inputs operands = {variable({12, 40}), variable({40}, 5)};
  expect_as_cpu(
      [](const Inputs& in) {
        const auto [x, y] = polar(in[0], in[1]);
        return x + 2 * square(y);
      },
      operands);
  expect_as_cpu([](const Inputs& in) { return polar(in[0], in[1])[1]; }, operands);
}

TEST_F(PointwiseOnGpu, HasEveryFunction) {
  const Tensor x = abs(sequence({200})) * 0.5 + 0.05;
  const auto once = [](const Inputs& in) { return every_function(in); };
  expect_as_cpu(once, {x});
}

TEST_F(PointwiseOnGpu, GivesNoGradientThatNobodyWants) {
  Tensor x = sequence({500}).to(DType::f32).to(Device::cuda()), b = x.detach() + 1;
  b.set_requires_grad(true);
  const Tensor d = grad({sum(gate({x, b}))}, {b})[0];
  const Tensor here_x = x.to(Device::cpu());
  Tensor here_b = b.detach().to(Device::cpu());
  here_b.set_requires_grad(true);
  expect_alike(d, grad({sum(gate({here_x, here_b}))}, {here_b})[0], 1e-5, "the gradient");
}

// The CPU's loops of what nvcc compiled.
TEST(PointwiseOfNvcc, RunsOnTheCpu) {
  ADRET_CPU_ONLY("custom kernels stay where they are");
  expect_gradients([](const Inputs& in) { return gate(in); }, {variable({5, 7}), variable({7}, 5)});
  expect_gradients([](const Inputs& in) { return mixed(in); },
                   {variable({3, 4}), variable({4}, 5), variable({3, 1}, 7), variable({}, 9)});
}

}  // namespace
}  // namespace adret
