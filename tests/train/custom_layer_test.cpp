// A layer with custom kernels trains in replayed steps as in eager ones.
#include <adret/autograd/node.h>
#include <adret/autograd/ops/loss.h>
#include <adret/autograd/pointwise.h>
#include <adret/autograd/saved_tensor.h>
#include <adret/core/kernels/kernel.h>
#include <adret/core/random.h>
#include <adret/layers/activation.h>
#include <adret/layers/linear.h>
#include <adret/layers/sequential.h>
#include <adret/optim/sgd.h>
#include <adret/train/step.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <string>
#include <vector>

#include "tests/support/close.h"

namespace adret {
namespace {

// y = factor * x |x|, by way of the workspace.
template <bool may_be_captured = true>
struct SignedSquare {
  static constexpr const char* name = "signed_square";
  static constexpr bool capturable = may_be_captured;
  float factor = 1;
  bool operator==(const SignedSquare&) const = default;
  size_t workspace_bytes(const CustomCall& call) const { return call.inputs[0].bytes(); }
  void run_cpu(const CustomCall& call) const {
    const auto* x = call.inputs[0].as<float>();
    auto *y = call.outputs[0].as<float>(), *size = static_cast<float*>(call.workspace);
    for (int64_t i = 0; i < call.inputs[0].numel(); ++i) size[i] = factor * std::abs(x[i]);
    for (int64_t i = 0; i < call.inputs[0].numel(); ++i) y[i] = x[i] * size[i];
  }
};
// dx = 2 * factor * |x| dy.
struct SignedSquareGradient {
  static constexpr const char* name = "signed_square_gradient";
  float factor = 1;
  bool operator==(const SignedSquareGradient&) const = default;
  void run_cpu(const CustomCall& call) const {
    const auto *x = call.inputs[0].as<float>(), *dy = call.inputs[1].as<float>();
    for (int64_t i = 0; i < call.inputs[0].numel(); ++i) {
      call.outputs[0].as<float>()[i] = 2 * factor * std::abs(x[i]) * dy[i];
    }
  }
};

struct SignedSquareBackward final : Node {
  SignedSquareBackward(const Tensor& x, float factor) : x(x), factor(factor) {}
  const char* name() const override { return "signed_square"; }
  std::vector<Tensor> backward(const std::vector<Tensor>& grads) override {
    const Tensor dx = grad_buffer(0);
    run_custom(SignedSquareGradient{.factor = factor}, {x.unpack(*this), grads[0]}, {dx});
    return {dx};
  }
  SavedTensor x;
  float factor;
};

Tensor signed_square(const Tensor& x, float factor) {
  Tensor y = Tensor::empty(x.shape(), {.device = x.device()});
  run_custom(SignedSquare<>{.factor = factor}, {x}, {y});
  record<SignedSquareBackward>({y}, {x}, x, factor);
  return y;
}

// Two of them differ in their kernels' members.
struct Squash : Layer<Squash> {
  float factor;
  explicit Squash(float factor) : factor(factor) {}
  Tensor forward(const Tensor& x) { return signed_square(x, factor); }
};

struct SoftClip {
  float limit;
  auto operator()(auto x) const { return limit * tanh(x / limit); }
};
struct Clip : Layer<Clip> {
  float limit;
  explicit Clip(float limit) : limit(limit) {}
  Tensor forward(const Tensor& x) { return pointwise(SoftClip{limit}, x); }
};

// The losses and the parameters after them.
std::vector<float> train(StepMode mode, int64_t replays) {
  random::manual_seed(3);
  Sequential model(Linear(4, 8), Squash(1), Clip(3), Linear(8, 6), ReLU(), Squash(0.5f), Clip(2),
                   Linear(6, 3));
  Sgd sgd(model, {.lr = 0.05, .momentum = 0.9});
  Step step(
      [&](const Tensor& x, const Tensor& labels) {
        sgd.zero_grad();
        Tensor loss = cross_entropy(model.call(x), labels);
        loss.backward();
        sgd.step();
        return loss;
      },
      {.mode = mode});
  std::vector<float> results;
  for (int i = 0; i < 8; ++i) {
    std::vector<float> values(20);
    for (size_t k = 0; k < values.size(); ++k) values[k] = std::sin(float(i * 20) + float(k));
    results.push_back(
        step(Tensor::from(values, {5, 4}), Tensor::from<int32_t>({0, 1, 2, 1, 0}, {5})).item());
  }
  EXPECT_EQ(step.report().replays, replays) << step.report().reason;
  for (const auto& parameter : model.parameters()) {
    const std::vector<float> values = parameter->value.to_vector();
    results.insert(results.end(), values.begin(), values.end());
  }
  return results;
}

TEST(CustomLayer, TrainsTheSameReplayedAndNot) {
  test::expect_as_eager(train(StepMode::graph, 5), train(StepMode::eager, 0));
}

// Workspace and all: what a replay takes from the pool it had in the replay before.
TEST(CustomLayer, IsReplayedWithoutAllocation) {
  random::manual_seed(3);
  Sequential model(Linear(4, 8), Squash(1), Clip(3), Linear(8, 3));
  Sgd sgd(model, {.lr = 0.05});
  Step step(
      [&](const Tensor& x, const Tensor& labels) {
        sgd.zero_grad();
        Tensor loss = cross_entropy(model.call(x), labels);
        loss.backward();
        sgd.step();
        return loss;
      },
      {.mode = StepMode::graph});
  const Tensor x = Tensor::full({5, 4}, 0.5), labels = Tensor::zeros({5}, {.dtype = DType::i32});
  for (int i = 0; i < 4; ++i) step(x, labels);
  const MemoryStats before = pool_for(Device::cpu()).stats();
  for (int i = 0; i < 10; ++i) step(x, labels);
  const MemoryStats after = pool_for(Device::cpu()).stats();
  EXPECT_EQ(step.report().replays, 11) << step.report().reason;
  EXPECT_EQ(after.misses, before.misses);
  EXPECT_EQ(after.current, before.current);
}

// -- what keeps a step eager ----------------------------------------------------------------------

std::string reason(const std::function<Tensor(const Tensor&)>& function) {
  Step step([&](const Tensor& x) { return function(x); });
  for (int i = 0; i < 4; ++i) {
    const Tensor y = step(Tensor::full({2}, double(i + 1)));
    EXPECT_EQ(y.shape(), Shape({2}));
  }
  EXPECT_EQ(step.report().replays, 0);
  return step.report().reason;
}

TEST(CustomLayer, IsNamedWhereItCannotBeCaptured) {
  EXPECT_THAT(reason([](const Tensor& x) {
                const Tensor y = Tensor::empty(x.shape());
                run_custom(SignedSquare<false>(), {x}, {y});
                return y;
              }),
              testing::HasSubstr("it runs the custom kernel signed_square in signed_square, which "
                                 "says that it cannot be captured"));
}

TEST(CustomLayer, IsNamedWhereItsMembersChange) {
  float factor = 0;
  EXPECT_THAT(reason([&](const Tensor& x) { return signed_square(x, factor += 1); }),
              testing::HasSubstr("call 0, signed_square in=(2,) f32 cpu -> out=(2,) f32 cpu in "
                                 "signed_square, had other constants than before; pass what "
                                 "changes as a tensor"));
  EXPECT_THAT(reason([&](const Tensor& x) { return pointwise(SoftClip{factor += 1}, x); }),
              testing::HasSubstr("SoftClip, had other constants than before"));
}

}  // namespace
}  // namespace adret
