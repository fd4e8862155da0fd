// A layer with custom kernels trains in replayed steps as in eager ones.
#include <adret/autograd/node.h>
#include <adret/autograd/ops/loss.h>
#include <adret/autograd/saved_tensor.h>
#include <adret/core/kernels/kernel.h>
#include <adret/core/random.h>
#include <adret/layers/activation.h>
#include <adret/layers/linear.h>
#include <adret/layers/sequential.h>
#include <adret/optim/sgd.h>
#include <adret/train/step.h>
#include <gtest/gtest.h>

#include <cmath>
#include <initializer_list>
#include <vector>

#include "tests/support/close.h"

namespace adret {
namespace {

// y = x |x|, and dx = 2 |x| dy.
struct SignedSquare final : CustomKernel {
  const char* name() const override { return "signed_square"; }
  void run_cpu(Views in, Views out) const override {
    const auto* x = in[0].as<float>();
    for (int64_t i = 0; i < in[0].numel(); ++i) out[0].as<float>()[i] = x[i] * std::abs(x[i]);
  }
};
struct SignedSquareGradient final : CustomKernel {
  const char* name() const override { return "signed_square_gradient"; }
  void run_cpu(Views in, Views out) const override {
    const auto *x = in[0].as<float>(), *dy = in[1].as<float>();
    for (int64_t i = 0; i < in[0].numel(); ++i) out[0].as<float>()[i] = 2 * std::abs(x[i]) * dy[i];
  }
};

void run_custom(const CustomKernel& kernel, std::initializer_list<TensorView> in, TensorView out) {
  run(kernels::Custom{.kernel = &kernel, .in = {in.begin(), in.size()}, .out = {&out, 1}});
}

struct SignedSquareBackward final : Node {
  explicit SignedSquareBackward(const Tensor& x) : x(x) {}
  const char* name() const override { return "signed_square"; }
  std::vector<Tensor> backward(const std::vector<Tensor>& grads) override {
    static const SignedSquareGradient kernel;
    const Tensor dx = grad_buffer(0);
    run_custom(kernel, {x.unpack(*this), grads[0]}, dx);
    return {dx};
  }
  SavedTensor x;
};

struct Squash : Layer<Squash> {
  Tensor forward(const Tensor& x) {
    static const SignedSquare kernel;
    const FunctionScope scope("signed_square");
    Tensor y = Tensor::empty(x.shape());
    run_custom(kernel, {x}, y);
    record<SignedSquareBackward>({y}, {x}, x);
    return y;
  }
};

// The losses and the parameters after them.
std::vector<float> train(StepMode mode, int64_t replays) {
  random::manual_seed(3);
  Sequential model(Linear(4, 8), Squash(), Linear(8, 6), ReLU(), Squash(), Linear(6, 3));
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

}  // namespace
}  // namespace adret
