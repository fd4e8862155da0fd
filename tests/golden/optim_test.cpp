// Optimizers step by step against PyTorch, and the papers' formulas in NumPy. make_optim.py made
// the files.
#include <adret/layers/module.h>
#include <adret/optim/adagrad.h>
#include <adret/optim/adam.h>
#include <adret/optim/lamb.h>
#include <adret/optim/lion.h>
#include <adret/optim/muon.h>
#include <adret/optim/rmsprop.h>
#include <adret/optim/sgd.h>
#include <adret/train/safetensors.h>
#include <fmt/core.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <map>
#include <memory>

#include "tests/golden/optim_golden.h"
#include "tests/support/close.h"
#include "tests/support/mirror.h"

namespace adret {
namespace {

using namespace test;

// Muon's parameters.
struct Matrices : Layer<Matrices> {
  explicit Matrices(DType dtype) : dtype(dtype) {}
  const DType dtype;
  Parameter& wide = parameter("wide", golden_steps().at("start.wide").to(dtype));
  Parameter& tall = parameter("tall", golden_steps().at("start.tall").to(dtype));
  Parameter& kernel = parameter("kernel", golden_steps().at("start.kernel").to(dtype));
};

using Make = std::function<std::unique_ptr<Optimizer>(const Module&)>;

template <class Kind, class Options>
Make make(const Options& options) {
  return [options](const Module& model) { return std::make_unique<Kind>(model, options); };
}

// The options of OPTIMIZERS in make_optim.py.
const std::map<std::string, Make> optimizers = {
    {"sgd.0", make<Sgd>(SgdOptions{.lr = 0.1})},
    {"sgd.1", make<Sgd>(SgdOptions{.lr = 0.05, .momentum = 0.9, .weight_decay = 0.1})},
    {"sgd.2",
     make<Sgd>(SgdOptions{.lr = 0.05, .momentum = 0.9, .weight_decay = 0.1, .nesterov = true})},
    {"adam.0", make<Adam>(AdamOptions{.lr = 0.05})},
    {"adam.1", make<Adam>(AdamOptions{
                   .lr = 0.02, .beta1 = 0.8, .beta2 = 0.95, .epsilon = 1e-4, .weight_decay = 0.1})},
    {"adamw.0", make<AdamW>(AdamWOptions{.lr = 0.05})},
    {"adamw.1",
     make<AdamW>(AdamWOptions{
         .lr = 0.02, .beta1 = 0.8, .beta2 = 0.95, .epsilon = 1e-4, .weight_decay = 0.1})},
    {"muon.0", make<Muon>(MuonOptions{.lr = 0.02})},
    {"muon.1",
     make<Muon>(MuonOptions{
         .lr = 0.05, .momentum = 0.8, .nesterov = false, .weight_decay = 0.1, .iterations = 3})},
    {"muon.2", make<Muon>(MuonOptions{.lr = 0.1, .momentum = 0.6, .normalize = true})},
    {"nadam.0", make<NAdam>(NAdamOptions{.lr = 0.05})},
    {"nadam.1", make<NAdam>(NAdamOptions{.lr = 0.02,
                                         .beta1 = 0.8,
                                         .beta2 = 0.95,
                                         .epsilon = 1e-4,
                                         .weight_decay = 0.1,
                                         .momentum_decay = 0.1})},
    {"radam.0", make<RAdam>(RAdamOptions{.lr = 0.05})},
    {"radam.1",
     make<RAdam>(RAdamOptions{
         .lr = 0.02, .beta1 = 0.8, .beta2 = 0.95, .epsilon = 1e-4, .weight_decay = 0.1})},
    {"rmsprop.0", make<Rmsprop>(RmspropOptions{.lr = 0.02})},
    {"rmsprop.1", make<Rmsprop>(RmspropOptions{.lr = 0.01,
                                               .alpha = 0.9,
                                               .epsilon = 1e-4,
                                               .weight_decay = 0.1,
                                               .momentum = 0.8,
                                               .centered = true})},
    {"adagrad.0", make<Adagrad>(AdagradOptions{.lr = 0.1})},
    {"adagrad.1", make<Adagrad>(AdagradOptions{.lr = 0.2,
                                               .lr_decay = 0.1,
                                               .weight_decay = 0.1,
                                               .initial_accumulator_value = 0.5,
                                               .epsilon = 1e-4})},
    {"lion.0", make<Lion>(LionOptions{.lr = 0.01})},
    {"lion.1",
     make<Lion>(LionOptions{.lr = 0.02, .beta1 = 0.7, .beta2 = 0.8, .weight_decay = 0.3})},
    {"lamb.0", make<Lamb>(LambOptions{.lr = 0.1})},
    {"lamb.1", make<Lamb>(LambOptions{
                   .lr = 0.05, .beta1 = 0.8, .beta2 = 0.95, .epsilon = 1e-3, .weight_decay = 0})},
};

class GoldenSteps : public testing::TestWithParam<std::string> {};

template <class Model>
void expect_steps(const std::string& name, DType dtype, double tolerance) {
  Model model(dtype);
  const auto optimizer = optimizers.at(name)(model);
  const std::vector<int> told = {1, 2, 5, 10};
  size_t row = 0;
  for (int step = 1; step <= 10; ++step) {
    for (const auto& [key, parameter] : model.named_parameters()) {
      Tensor& value = parameter->value;
      const auto grads = exact(golden_steps().at("grads." + key));
      const auto n = size_t(value.numel());
      value.set_grad(
          Tensor::from(std::span(grads).subspan(size_t(step - 1) * n, n), value.shape()).to(dtype));
    }
    optimizer->step();
    if (step != told[row]) continue;
    for (const auto& [key, parameter] : model.named_parameters()) {
      const std::string label = fmt::format("{}.{}.{}", name, adret::name(dtype), key);
      const auto all = exact(golden_steps().at(label));
      const auto n = std::ptrdiff_t(parameter->value.numel());
      const auto first = all.begin() + std::ptrdiff_t(row) * n;
      expect_close(exact(parameter->value), {first, first + n}, {.absolute = tolerance},
                   label + " step " + std::to_string(step));
    }
    ++row;
  }
}

// PyTorch works in another order: a few roundings of values up to 3 in each of ten steps, which
// root and quotient of a small second moment make larger, and each of Muon's iterations by up to
// 3.4 where a singular value is small.
void expect_steps(const std::string& name, DType dtype) {
  const bool is_exact = dtype == DType::f64;
  if (name.starts_with("muon")) {
    expect_steps<Matrices>(name, dtype, is_exact ? 1e-11 : 3e-5);
  } else {
    expect_steps<Model>(name, dtype, is_exact ? 1e-12 : 3e-6);
  }
}
TEST_P(GoldenSteps, InF32) { expect_steps(GetParam(), DType::f32); }
TEST_P(GoldenSteps, InF64) { expect_steps(GetParam(), DType::f64); }

std::vector<std::string> names() {
  std::vector<std::string> list;
  for (const auto& [name, make] : optimizers) list.push_back(name);
  return list;
}

INSTANTIATE_TEST_SUITE_P(Of, GoldenSteps, testing::ValuesIn(names()), [](const auto& test) {
  std::string name = test.param;
  std::ranges::replace(name, '.', '_');
  return name;
});

}  // namespace
}  // namespace adret
