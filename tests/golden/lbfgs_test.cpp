// L-BFGS step by step against PyTorch. make_optim.py made the file.
#include <adret/autograd/ops/arithmetic.h>
#include <adret/autograd/ops/reduce.h>
#include <adret/autograd/ops/shape.h>
#include <adret/layers/module.h>
#include <adret/optim/lbfgs.h>
#include <fmt/core.h>
#include <gtest/gtest.h>

#include <map>

#include "tests/support/close.h"
#include "tests/support/golden.h"
#include "tests/support/mirror.h"

namespace adret {
namespace {

using namespace test;
using Values = std::vector<double>;

const std::map<std::string, Tensor>& golden() {
  static const auto all = read_golden("lbfgs.safetensors");
  return all;
}

Values exact(const Tensor& x) { return x.to(DType::f64).to_vector<double>(); }

struct Model : Layer<Model> {
  explicit Model(DType dtype) : dtype(dtype) {}
  Tensor make(const Values& values) const {
    return Tensor::from(values, {int64_t(values.size())}).to(dtype);
  }
  const DType dtype;
  Parameter& x = parameter("x", make({-1.2, 1, -0.5, 0.8, 1.1, -0.3, 0.4}));
  Parameter& w = parameter("w", make({1, -2, 3, 0.5, 0}));

  Tensor loss() const {
    const Tensor before = slice(x.value, 0, 0, 6), behind = slice(x.value, 0, 1, 7);
    const Tensor rosenbrock = sum(square(behind - square(before)) * 100 + square(1 - before));
    return rosenbrock + sum(make({1, 2, 3, 4, 5}) * square(w.value - 1));
  }
};

// Of LBFGS in make_optim.py.
const LbfgsOptions options[] = {
    {.lr = 0.02, .max_iter = 4, .history_size = 5},
    {.max_iter = 6, .history_size = 3, .line_search = LineSearch::strong_wolfe},
    {.lr = 8, .max_iter = 3, .max_eval = 4, .line_search = LineSearch::strong_wolfe}};

void expect_steps(size_t number, DType dtype, const Values& tolerances) {
  Model model(dtype);
  Lbfgs optimizer(model, options[number]);
  const std::string label = fmt::format("{}.{}.", number, name(dtype));
  const Values losses = exact(golden().at(label + "losses"));
  for (size_t step = 0; step < losses.size(); ++step) {
    const double tolerance = tolerances[std::min(step, tolerances.size() - 1)];
    const double loss = optimizer.step([&] {
      optimizer.zero_grad();
      Tensor value = model.loss();
      value.backward();
      return value;
    });
    const std::string what = label + std::to_string(step);
    EXPECT_NEAR(loss, losses[step], tolerance * (1 + losses[step])) << what;
    for (const auto& [key, parameter] : model.named_parameters()) {
      const Values all = exact(golden().at(label + key));
      const auto n = std::ptrdiff_t(parameter->value.numel());
      const auto first = all.begin() + std::ptrdiff_t(step) * n;
      expect_close(exact(parameter->value), {first, first + n}, {.absolute = tolerance},
                   what + " " + key);
    }
  }
}

// A step of the method magnifies what a rounding changed in the gradients before: in f32 PyTorch's
// own values differ from its f64 ones by 1e-6 after three steps, and 2e-3 after six.
TEST(GoldenLbfgs, FollowsPyTorchInF64) {
  for (size_t number = 0; number < 3; ++number) expect_steps(number, DType::f64, {1e-9});
}
TEST(GoldenLbfgs, FollowsPyTorchInF32) {
  for (size_t number = 0; number < 3; ++number) {
    expect_steps(number, DType::f32, {1e-5, 1e-5, 1e-5, 1e-2});
  }
}

}  // namespace
}  // namespace adret
