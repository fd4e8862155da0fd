// Averages of weights step by step against PyTorch's swa_utils. make_optim.py made the files.
#include <adret/autograd/ops/shape.h>
#include <adret/layers/module.h>
#include <adret/optim/sgd.h>
#include <adret/train/weight_average.h>
#include <fmt/core.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "tests/golden/optim_golden.h"
#include "tests/support/close.h"
#include "tests/support/mirror.h"

namespace adret {
namespace {

using namespace test;

// Part `i` of a tensor along its first dimension.
std::vector<double> part(const Tensor& x, int64_t i) { return exact(slice(x, 0, i, i + 1)); }

// Ten steps of SGD, each of which is averaged.
void expect_averages(const std::string& name, DType dtype, const WeightAverageOptions& options) {
  static const auto golden = read_golden("averages.safetensors");
  Model model(dtype);
  Sgd optimizer(model, {.lr = 0.5});
  WeightAverage average(model, optimizer, options);
  const std::vector<int64_t> told = {1, 2, 5, 10};
  for (int64_t step = 1; step <= 10; ++step) {
    for (const auto& [key, parameter] : model.named_parameters()) {
      Tensor& value = parameter->value;
      const auto gradient = part(golden_steps().at("grads." + key), step - 1);
      value.set_grad(Tensor::from(gradient, value.shape()).to(dtype));
    }
    optimizer.step();
    average.update();
    const auto row = std::ranges::find(told, step);
    if (row == told.end()) continue;
    const AveragedWeights averaged(average);
    for (const auto& [key, parameter] : model.named_parameters()) {
      const std::string label = fmt::format("{}.{}.{}", name, adret::name(dtype), key);
      // Two or three roundings a step of values up to 5.
      expect_close(exact(parameter->value), part(golden.at(label), row - told.begin()),
                   {.absolute = dtype == DType::f64 ? 1e-14 : 3e-6},
                   label + " step " + std::to_string(step));
    }
  }
}

TEST(GoldenAverages, FollowPyTorch) {
  for (const DType dtype : {DType::f32, DType::f64}) {
    expect_averages("uniform", dtype, {.uniform = true});
    expect_averages("moving", dtype, {.decay = 0.9, .warm_up = false});
    expect_averages("warm", dtype, {.decay = 0.5});
  }
}

}  // namespace
}  // namespace adret
