// NAdam, RAdam, RMSprop, Adagrad, Lion and LAMB over arenas, against their formulas in f64.
// tests/golden has PyTorch's trajectories.
#include <adret/core/kernels/kernel.h>
#include <adret/core/tensor.h>
#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <limits>

#include "tests/support/arenas.h"
#include "tests/support/close.h"
#include "tests/support/guarded.h"

namespace adret {
namespace {

using namespace test;
using Values = std::vector<double>;

template <class Group>
Tensor table(const std::vector<Group>& groups) {
  constexpr int64_t columns = sizeof(Group) / sizeof(double);
  const auto* words = reinterpret_cast<const double*>(groups.data());
  return Tensor::from(std::span(words, groups.size() * columns), {int64_t(groups.size()), columns});
}

// One parameter and its state by the formulas of the kernels' contracts.
struct ByHand {
  Values value;
  Values first = Values(value.size(), 0), second = first, third = first;
  double product = 1;
  int t = 0;
};

void nadam(ByHand& p, const Values& grad, const kernels::NAdamGroup& of) {
  const kernels::AdamGroup& group = of.adam;
  ++p.t;
  const auto mu = [&](int t) {
    return group.beta1 * (1 - 0.5 * std::pow(0.96, t * of.momentum_decay));
  };
  p.product *= mu(p.t);
  for (size_t i = 0; i < p.value.size(); ++i) {
    const double g = grad[i] + group.weight_decay * p.value[i];
    p.first[i] = group.beta1 * p.first[i] + (1 - group.beta1) * g;
    p.second[i] = group.beta2 * p.second[i] + (1 - group.beta2) * g * g;
    const double root = std::sqrt(p.second[i] / (1 - std::pow(group.beta2, p.t))) + group.epsilon;
    p.value[i] -= group.lr *
                  (mu(p.t + 1) * p.first[i] / (1 - p.product * mu(p.t + 1)) +
                   (1 - mu(p.t)) * g / (1 - p.product)) /
                  root;
  }
}

void radam(ByHand& p, const Values& grad, const kernels::AdamGroup& group) {
  ++p.t;
  const double power = std::pow(group.beta2, p.t), limit = 2 / (1 - group.beta2) - 1;
  const double rho = limit - 2 * p.t * power / (1 - power);
  for (size_t i = 0; i < p.value.size(); ++i) {
    p.first[i] = group.beta1 * p.first[i] + (1 - group.beta1) * grad[i];
    p.second[i] = group.beta2 * p.second[i] + (1 - group.beta2) * grad[i] * grad[i];
    double step = p.first[i] / (1 - std::pow(group.beta1, p.t));
    if (rho > 5) {
      step *= std::sqrt((rho - 4) * (rho - 2) * limit / ((limit - 4) * (limit - 2) * rho)) *
              std::sqrt(1 - power) / (std::sqrt(p.second[i]) + group.epsilon);
    }
    p.value[i] -= group.lr * (step + group.weight_decay * p.value[i]);  // decoupled
  }
}

void rms(ByHand& p, const Values& grad, const kernels::RmsGroup& group) {
  ++p.t;
  for (size_t i = 0; i < p.value.size(); ++i) {
    const double g = grad[i] + group.weight_decay * p.value[i];
    const bool sums = group.alpha == 1;
    p.first[i] = group.alpha * p.first[i] + (sums ? 1 : 1 - group.alpha) * g * g;
    p.second[i] = group.alpha * p.second[i] + (1 - group.alpha) * g;
    const double mean = group.centered != 0 ? p.second[i] : 0;
    p.third[i] =
        group.momentum * p.third[i] + g / (std::sqrt(p.first[i] - mean * mean) + group.epsilon);
    p.value[i] -= group.lr / (1 + (p.t - 1) * group.lr_decay) * p.third[i];
  }
}

void lion(ByHand& p, const Values& grad, const kernels::LionGroup& group) {
  for (size_t i = 0; i < p.value.size(); ++i) {
    const double c = group.beta1 * p.first[i] + (1 - group.beta1) * grad[i];
    p.value[i] -= group.lr * ((c > 0) - (c < 0) + group.weight_decay * p.value[i]);
    p.first[i] = group.beta2 * p.first[i] + (1 - group.beta2) * grad[i];
  }
}

double norm(const Values& x) {
  double sum = 0;
  for (const double v : x) sum += v * v;
  return std::sqrt(sum);
}

void lamb(ByHand& p, const Values& grad, const kernels::LambGroup& group) {
  ++p.t;
  Values u(p.value.size());
  for (size_t i = 0; i < u.size(); ++i) {
    p.first[i] = group.beta1 * p.first[i] + (1 - group.beta1) * grad[i];
    p.second[i] = group.beta2 * p.second[i] + (1 - group.beta2) * grad[i] * grad[i];
    u[i] = p.first[i] / (1 - std::pow(group.beta1, p.t)) /
               (std::sqrt(p.second[i] / (1 - std::pow(group.beta2, p.t))) + group.epsilon) +
           group.weight_decay * p.value[i];
  }
  const double of_w = norm(p.value), of_u = norm(u);
  const double ratio = of_w > 0 && of_u > 0 ? of_w / of_u : 1;
  for (size_t i = 0; i < u.size(); ++i) p.value[i] -= group.lr * ratio * u[i];
}

// A kernel and its formula, by the same group's options.
struct Rule {
  const char* name;
  std::function<void(Arenas&, bool masters)> run;
  std::function<void(ByHand&, const Values& grad)> formula;
};

TensorView masters_of(const Arenas& arenas, bool masters) {
  return masters ? TensorView(arenas.masters) : TensorView();
}

template <class Group>
Rule adam_rule(kernels::AdamRule rule, const Group& group,
               void (*formula)(ByHand&, const Values&, const Group&)) {
  return {to_string(rule),
          [=](Arenas& arenas, bool masters) {
            run(kernels::AdamStep{.values = arenas.values,
                                  .grads = arenas.grads,
                                  .first = arenas.first,
                                  .second = arenas.second,
                                  .masters = masters_of(arenas, masters),
                                  .steps = arenas.steps,
                                  .products = rule == kernels::AdamRule::nadam
                                                  ? TensorView(arenas.products)
                                                  : TensorView(),
                                  .segments = arenas.segments,
                                  .groups = table<Group>({group, group}),
                                  .rule = rule});
          },
          [=](ByHand& p, const Values& grad) { formula(p, grad, group); }};
}

Rule rms_rule(const char* name, const kernels::RmsGroup& group) {
  const bool centered = group.centered != 0, has_momentum = group.momentum != 0;
  return {
      name,
      [=](Arenas& arenas, bool masters) {
        run(kernels::RmsStep{.values = arenas.values,
                             .grads = arenas.grads,
                             .squares = arenas.first,
                             .mean = centered ? TensorView(arenas.second) : TensorView(),
                             .momentum = has_momentum ? TensorView(arenas.third) : TensorView(),
                             .masters = masters_of(arenas, masters),
                             .steps = group.lr_decay != 0 ? TensorView(arenas.steps) : TensorView(),
                             .segments = arenas.segments,
                             .groups = table<kernels::RmsGroup>({group, group})});
      },
      [=](ByHand& p, const Values& grad) { rms(p, grad, group); }};
}

Rule lion_rule(const kernels::LionGroup& group) {
  return {"lion",
          [=](Arenas& arenas, bool masters) {
            run(kernels::LionStep{.values = arenas.values,
                                  .grads = arenas.grads,
                                  .momentum = arenas.first,
                                  .masters = masters_of(arenas, masters),
                                  .segments = arenas.segments,
                                  .groups = table<kernels::LionGroup>({group, group})});
          },
          [=](ByHand& p, const Values& grad) { lion(p, grad, group); }};
}

Rule lamb_rule(const kernels::LambGroup& group) {
  return {"lamb",
          [=](Arenas& arenas, bool masters) {
            run(kernels::LambStep{.values = arenas.values,
                                  .grads = arenas.grads,
                                  .first = arenas.first,
                                  .second = arenas.second,
                                  .masters = masters_of(arenas, masters),
                                  .steps = arenas.steps,
                                  .segments = arenas.segments,
                                  .groups = table<kernels::LambGroup>({group, group})});
          },
          [=](ByHand& p, const Values& grad) { lamb(p, grad, group); }};
}

// No decay takes a gradient of eighths to 0, whose sign would be rounding.
const std::vector<Rule>& rules() {
  static const std::vector<Rule> list = {
      adam_rule<kernels::NAdamGroup>(kernels::AdamRule::nadam,
                                     {{0.05, 0.8, 0.95, 1e-6, 0.07, 0}, 0.05}, nadam),
      adam_rule<kernels::AdamGroup>(kernels::AdamRule::radam, {0.05, 0.8, 0.95, 1e-6, 0.07, 1},
                                    radam),
      rms_rule("rmsprop", {0.02, 0, 0.9, 1e-6, 0.07, 0, 0}),
      rms_rule("rmsprop, centered", {0.02, 0, 0.9, 1e-3, 0, 0, 1}),
      rms_rule("rmsprop, with momentum", {0.02, 0, 0.9, 1e-6, 0, 0.7, 0}),
      rms_rule("rmsprop, both", {0.02, 0, 0.9, 1e-3, 0.07, 0.7, 1}),
      rms_rule("adagrad", {0.1, 0.2, 1, 1e-8, 0.07, 0, 0}),
      lion_rule({0.02, 0.9, 0.8, 0.1}),
      lamb_rule({0.05, 0.8, 0.95, 1e-6, 0.1})};
  return list;
}

// Gradients of a step, in eighths so that 16 bits hold them, and never 0.
Values gradients(size_t count, int step) {
  Values list = eighths(int64_t(count), 5 + step, step, 17);
  for (double& g : list) g = g == 0 ? 0.125 : g;
  return list;
}

struct Part {
  size_t length;
  DType dtype;
  bool active = true;
};

// Eight steps over parameters of several lengths and dtypes, with masters or without 16 bits.
void expect_formula(const Rule& rule, const std::vector<Part>& parts, bool masters) {
  std::vector<ArenaParameter> parameters;
  std::vector<ByHand> expected;
  for (const Part& part : parts) {
    const Values start = eighths(int64_t(part.length), 7, 3, 33);
    parameters.push_back({.value = start,
                          .group = int64_t(part.length % 2),
                          .dtype = part.dtype,
                          .active = part.active});
    expected.push_back({.value = start});
  }
  Arenas arenas(parameters);
  for (int step = 1; step <= 8; ++step) {
    for (size_t i = 0; i < parts.size(); ++i) {
      const Values grad = gradients(parts[i].length, step);
      arenas.set(arenas.grads, i, grad);
      if (parts[i].active) rule.formula(expected[i], grad);
    }
    rule.run(arenas, masters);
  }
  for (size_t i = 0; i < parts.size(); ++i) {
    const bool wide = parts[i].dtype == DType::f64, half = size_of(parts[i].dtype) == 2;
    // f32 at up to 4, eight steps; a root of a difference magnifies.
    const Tolerance close{.absolute = wide ? 1e-11 : 2e-5};
    const std::string what = std::string(rule.name) + " parameter " + std::to_string(i);
    expect_close(arenas.get(half ? arenas.masters : arenas.values, i), expected[i].value, close,
                 what);
    expect_close(arenas.get(arenas.first, i), expected[i].first, close, what + " first");
  }
}

TEST(AdaptiveSteps, FollowTheirFormulas) {
  for (const Rule& rule : rules()) {
    expect_formula(rule,
                   {{5, DType::f32},
                    {0, DType::f32},
                    {1, DType::f64},
                    {1000, DType::f32, false},
                    {4097, DType::f32},
                    {333, DType::f64}},
                   false);
  }
}

TEST(AdaptiveSteps, TakeMastersOfSixteenBits) {
  for (const Rule& rule : rules()) {
    expect_formula(
        rule, {{300, DType::bf16}, {7, DType::f16}, {13, DType::f32}, {2051, DType::f16}}, true);
  }
}

// Segments of several blocks of the GPU and chunks of the CPU, and many within one.
TEST(AdaptiveSteps, FindTheirPartsOfLongArenas) {
  std::vector<Part> parts;
  for (size_t i = 0; i < 150; ++i) {
    parts.push_back({.length = i % 7 == 0 ? 0 : i * 5 % 31, .dtype = DType::f32});
  }
  parts.insert(parts.begin() + 40, {.length = 70'001, .dtype = DType::f32});
  parts.push_back({.length = 33'000, .dtype = DType::f64});
  for (const Rule& rule : {rules().front(), rules().back()}) expect_formula(rule, parts, false);
}

TEST(AdaptiveSteps, CountOnlyActiveParameters) {
  for (const Rule& rule : rules()) {
    const bool counts = rule.name != std::string("lion") &&
                        std::string(rule.name).find("rmsprop") == std::string::npos;
    Arenas arenas({{.value = {1, 2}}, {.value = {3}}});
    for (const bool active : {false, true}) {
      arenas.set_active(1, active);
      for (size_t i : {0, 1}) arenas.set(arenas.grads, i, Values(2 - i, 1));
      rule.run(arenas, false);
      EXPECT_EQ(arenas.get(arenas.values, 1)[0] == 3, !active) << rule.name;
    }
    EXPECT_EQ(arenas.steps.to_vector<int64_t>(),
              counts ? (std::vector<int64_t>{2, 1}) : (std::vector<int64_t>{0, 0}))
        << rule.name;
  }
}

TEST(AdaptiveSteps, GiveTheSameBitsForAnyNumberOfThreads) {
  const Values start = random_values(70'001, 1), grad = random_values(70'001, 2);
  expect_same_for_any_threads([&] {
    std::vector<Values> all;
    for (const Rule& rule : rules()) {
      Arenas arenas({{.value = start}, {.value = {1, 2, 3}}, {.value = start}});
      for (size_t i : {0, 2}) arenas.set(arenas.grads, i, grad);
      rule.run(arenas, false);
      for (size_t i : {0, 1, 2}) all.push_back(arenas.get(arenas.values, i));
    }
    return all;
  });
}

TEST(AdaptiveSteps, DivideTheScaleOut) {
  for (const Rule& rule : rules()) {
    const Values grad = {0.5, -0.25, 1};
    Arenas plain({{.value = {1, 2, 3}}}), scaled({{.value = {1, 2, 3}}});
    plain.set(plain.grads, 0, grad);
    scaled.set(scaled.grads, 0, {4, -2, 8});
    scaled.set_unscale(0.125);
    rule.run(plain, false);
    rule.run(scaled, false);
    EXPECT_EQ(plain.get(plain.values, 0), scaled.get(scaled.values, 0)) << rule.name;
  }
}

TEST(AdaptiveSteps, KeepNan) {
  for (const Rule& rule : rules()) {
    Arenas arenas(std::vector<ArenaParameter>{{.value = {1, 2}}});
    arenas.set(arenas.grads, 0, {NAN, 1});
    rule.run(arenas, false);
    EXPECT_TRUE(std::isnan(arenas.get(arenas.values, 0)[0])) << rule.name;
  }
}

TEST(LionStep, DoesNotMoveByASignOfZero) {
  Arenas arenas(std::vector<ArenaParameter>{{.value = {1, 2}}});
  arenas.set(arenas.grads, 0, {0, -4});
  lion_rule({0.25, 0.5, 0.5, 0}).run(arenas, false);
  EXPECT_EQ(arenas.get(arenas.values, 0), (Values{1, 2.25}));
  EXPECT_EQ(arenas.get(arenas.first, 0), (Values{0, -2}));
}

TEST(LambStep, TakesAParameterOfZerosAsItIs) {
  // The first direction is g / (|g| + 0): a step by the rate, not by a ratio of 0 or 1 / 0.
  Arenas arenas({{.value = {0, 0}}, {.value = {3, 4}}});
  arenas.set(arenas.grads, 0, {2, -2});
  arenas.set(arenas.grads, 1, {0, 0});
  lamb_rule({0.5, 0.9, 0.99, 1e-6, 0}).run(arenas, false);
  expect_close(arenas.get(arenas.values, 0), {-0.5, 0.5}, {.absolute = 1e-6}, "zeros");
  EXPECT_EQ(arenas.get(arenas.values, 1), (Values{3, 4}));
}

TEST(RmsStep, IsNotNegativeUnderTheRoot) {
  // Equal gradients: the variance goes to 0, and rounding may take it below.
  Arenas arenas(std::vector<ArenaParameter>{{.value = Values(64, 1)}});
  const Rule rule = rms_rule("centered", {1e-4, 0, 0.5, 1, 0, 0, 1});
  Values grad;
  for (int i = 0; i < 64; ++i) grad.push_back(1 + i / 63.0);
  for (int step = 0; step < 100; ++step) {
    arenas.set(arenas.grads, 0, grad);
    rule.run(arenas, false);
  }
  for (const double value : arenas.get(arenas.values, 0)) EXPECT_FALSE(std::isnan(value));
}

}  // namespace
}  // namespace adret
