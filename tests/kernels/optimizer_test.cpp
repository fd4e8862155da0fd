// Optimizer steps and gradient clipping over arenas, against PyTorch's trajectories and by hand.
#include <adret/core/error.h>
#include <adret/core/kernels/kernel.h>
#include <adret/core/tensor.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <optional>

#include "tests/support/arenas.h"
#include "tests/support/close.h"
#include "tests/support/expect_error.h"
#include "tests/support/guarded.h"
#include "tests/support/mirror.h"

namespace adret {
namespace {

using namespace test;
using kernels::AdamGroup;
using kernels::SgdGroup;
using Values = std::vector<double>;

constexpr double inf = std::numeric_limits<double>::infinity();

template <class Group>
Tensor table(const std::vector<Group>& groups) {
  constexpr int64_t columns = sizeof(Group) / sizeof(double);
  const auto* words = reinterpret_cast<const double*>(groups.data());
  return Tensor::from(std::span(words, groups.size() * columns), {int64_t(groups.size()), columns});
}

struct With {
  bool momentum = true, masters = false;
};

void sgd(Arenas& arenas, const std::vector<SgdGroup>& groups, const With& with = {}) {
  run(kernels::SgdStep{.values = arenas.values,
                       .grads = arenas.grads,
                       .momentum = with.momentum ? TensorView(arenas.first) : TensorView(),
                       .masters = with.masters ? TensorView(arenas.masters) : TensorView(),
                       .segments = arenas.segments,
                       .groups = table(groups)});
}

void adam(Arenas& arenas, const std::vector<AdamGroup>& groups, const With& with = {}) {
  run(kernels::AdamStep{.values = arenas.values,
                        .grads = arenas.grads,
                        .first = arenas.first,
                        .second = arenas.second,
                        .masters = with.masters ? TensorView(arenas.masters) : TensorView(),
                        .steps = arenas.steps,
                        .segments = arenas.segments,
                        .groups = table(groups)});
}

void clip_by_norm(Arenas& arenas, const Tensor& norm, double max_norm) {
  run(kernels::GradientNorm{.grads = arenas.grads, .segments = arenas.segments, .norm = norm});
  run(kernels::ClipByNorm{
      .grads = arenas.grads, .segments = arenas.segments, .norm = norm, .max_norm = max_norm});
}

// PyTorch 1.13.1: the values of
//   v = Parameter(tensor([1, -2, 0.5], dtype=float64));  o = make([v])
//   for k in range(4): v.grad = tensor([0.5, -1, 2]) * (k + 1) + 0.25 * v.detach(); o.step()
// after each of the four steps.
struct Trajectory {
  const char* make;
  std::optional<SgdGroup> sgd;
  std::optional<AdamGroup> adam;
  Values expected;
};

const Trajectory trajectories[] = {
    {"SGD(p, lr=0.1)",
     SgdGroup{0.1, 0, 0, 0},
     {},
     {0.925, -1.85, 0.2875, 0.801875, -1.60375, -0.1196875, 0.631828125, -1.26365625, -0.716695313,
      0.416032422, -0.832064844, -1.49877793}},
    {"SGD(p, lr=0.1, weight_decay=0.05)",
     SgdGroup{0.1, 0, 0.05, 0},
     {},
     {0.92, -1.84, 0.285, 0.7924, -1.5848, -0.12355, 0.618628, -1.237256, -0.7198435, 0.40006916,
      -0.80013832, -1.4982482}},
    {"SGD(p, lr=0.1, momentum=0.9)",
     SgdGroup{0.1, 0.9, 0, 0},
     {},
     {0.925, -1.85, 0.2875, 0.734375, -1.46875, -0.3109375, 0.394453125, -0.78890625, -1.44175781,
      -0.121337891, 0.242675781, -3.22345215}},
    {"SGD(p, lr=0.1, momentum=0.9, nesterov=True, weight_decay=0.05)",
     SgdGroup{0.1, 0.9, 0.05, 1},
     {},
     {0.848, -1.696, 0.0915, 0.544864, -1.089728, -0.8478655, 0.068880352, -0.137760704,
      -2.42249562, -0.593719783, 1.18743957, -4.70447284}},
    {"Adam(p, lr=0.1)",
     {},
     AdamGroup{0.1, 0.9, 0.999, 1e-8, 0, 0},
     {0.900000001, -1.9, 0.4, 0.801552923, -1.8016365, 0.303104639, 0.703650026, -1.70383482,
      0.206929042, 0.605685522, -1.60596857, 0.110562677}},
    {"Adam(p, lr=0.05, betas=(0.8, 0.99), eps=1e-6, weight_decay=0.1)",
     {},
     AdamGroup{0.05, 0.8, 0.99, 1e-6, 0.1, 0},
     {0.950000059, -1.95000003, 0.450000023, 0.900032586, -1.90004932, 0.400694524, 0.84963508,
      -1.84967028, 0.350961428, 0.798523756, -1.79857412, 0.300378375}},
    {"AdamW(p, lr=0.05, betas=(0.8, 0.99), eps=1e-6, weight_decay=0.1)",
     {},
     AdamGroup{0.05, 0.8, 0.99, 1e-6, 0.1, 1},
     {0.945000067, -1.94000003, 0.447500024, 0.890446005, -1.88048605, 0.39600679, 0.835746,
      -1.82085169, 0.344339117, 0.780578194, -1.76077119, 0.292069129}},
};

void expect_trajectory(const Trajectory& test, DType dtype, double tolerance) {
  Arenas arenas(std::vector<ArenaParameter>{{.value = {1, -2, 0.5}, .dtype = dtype}});
  for (size_t k = 0; k < 4; ++k) {
    const Values v = arenas.get(arenas.values, 0);
    Values grad{0.5, -1, 2};
    for (size_t i = 0; i < 3; ++i) grad[i] = grad[i] * double(k + 1) + 0.25 * v[i];
    arenas.set(arenas.grads, 0, grad);
    if (test.sgd) sgd(arenas, {*test.sgd});
    if (test.adam) adam(arenas, {*test.adam});
    const auto first = test.expected.begin() + std::ptrdiff_t(3 * k);
    expect_close(arenas.get(arenas.values, 0), Values(first, first + 3), {.absolute = tolerance},
                 std::string(test.make) + " step " + std::to_string(k + 1));
  }
}

TEST(OptimizerSteps, FollowPyTorchForSeveralSteps) {
  for (const Trajectory& test : trajectories) {
    expect_trajectory(test, DType::f64, 1e-8);  // the digits printed above
    expect_trajectory(test, DType::f32, 2e-6);  // roundings at up to 5, four steps
  }
}

TEST(OptimizerSteps, TakeGroupsDtypesAndManyElementsInOneCall) {
  // Three groups of rates; the large parameter spans several chunks.
  const Values large(50'000, 1.0);
  Arenas arenas({{.value = {1, 2}, .group = 2},
                 {.value = large, .group = 0},
                 {.value = {}, .group = 1},
                 {.value = {3}, .group = 1, .dtype = DType::f64}});
  arenas.set(arenas.grads, 0, {1, 1});
  arenas.set(arenas.grads, 1, Values(large.size(), 2));
  arenas.set(arenas.grads, 3, {4});
  sgd(arenas, {{0.25, 0, 0, 0}, {0.5, 0, 0, 0}, {1, 0.5, 0, 0}});
  EXPECT_EQ(arenas.get(arenas.values, 0), (Values{0, 1}));
  EXPECT_EQ(arenas.get(arenas.values, 1), Values(large.size(), 0.5));
  EXPECT_EQ(arenas.get(arenas.values, 3), (Values{1}));
  EXPECT_EQ(arenas.get(arenas.first, 0), (Values{1, 1}));
  EXPECT_EQ(arenas.get(arenas.first, 3), (Values{0}));  // its group has no momentum
}

TEST(OptimizerSteps, FindEachOfManyParameters) {
  std::vector<ArenaParameter> parameters;
  for (int64_t i = 0; i < 1000; ++i) {
    const int64_t length = i % 5 == 0 ? 0 : i * 7 % 70;
    parameters.push_back({.value = Values(size_t(length), double(i)),
                          .group = i % 2,
                          .dtype = i % 3 == 0 ? DType::f64 : DType::f32,
                          .active = i % 11 != 0});
  }
  Arenas arenas(parameters);
  for (size_t i = 0; i < 1000; ++i) {
    arenas.set(arenas.grads, i, Values(parameters[i].value.size(), 1 + double(i % 4)));
  }
  sgd(arenas, {{0.5, 0, 0, 0}, {0.25, 0, 0, 0}}, {.momentum = false});
  double squares = 0;
  for (size_t i = 0; i < 1000; ++i) {
    const bool active = i % 11 != 0;
    const size_t length = parameters[i].value.size();
    const double grad = 1 + double(i % 4), rate = i % 2 == 0 ? 0.5 : 0.25;
    const Values expected(length, double(i) - (active ? rate * grad : 0));
    EXPECT_EQ(arenas.get(arenas.values, i), expected) << i;
    if (active) squares += double(length) * grad * grad;
  }
  const Tensor norm = Tensor::empty({}, {.dtype = DType::f64});
  clip_by_norm(arenas, norm, 1e9);
  EXPECT_EQ(norm.item<double>(), std::sqrt(squares));  // of whole numbers: exact
  adam(arenas, {{0.5, 0.9, 0.99, 1e-8, 0, 0}, {0.5, 0.9, 0.99, 1e-8, 0, 0}});
  const auto steps = arenas.steps.to_vector<int64_t>();
  for (size_t i = 0; i < 1000; ++i) EXPECT_EQ(steps[i], i % 11 != 0) << i;
}

TEST(OptimizerSteps, NeedNoMomentumWhenNoGroupHasAny) {
  Arenas arenas(std::vector<ArenaParameter>{{.value = {1}}});
  arenas.set(arenas.grads, 0, {0.5});
  sgd(arenas, {{1, 0, 0, 0}}, {.momentum = false});
  EXPECT_EQ(arenas.get(arenas.values, 0), (Values{0.5}));
}

TEST(OptimizerSteps, LeaveParametersWithoutGradientAlone) {
  Arenas arenas({{.value = {1, 2, 3}}, {.value = {4, 5}}, {.value = {6}}});
  for (size_t i = 0; i < 3; ++i) arenas.set(arenas.grads, i, Values(3 - i, 1));
  arenas.set(arenas.first, 1, {7, 8});
  arenas.set(arenas.second, 1, {9, 10});
  arenas.set(arenas.grads, 1, {NAN, inf});
  arenas.set_active(1, false);
  adam(arenas, {{0.1, 0.9, 0.999, 1e-8, 0.5, 1}});
  sgd(arenas, {{0.1, 0.9, 0.5, 0}});
  EXPECT_EQ(arenas.get(arenas.values, 1), (Values{4, 5}));
  EXPECT_EQ(arenas.get(arenas.first, 1), (Values{7, 8}));
  EXPECT_EQ(arenas.get(arenas.second, 1), (Values{9, 10}));
  EXPECT_EQ(arenas.steps.to_vector<int64_t>(), (std::vector<int64_t>{1, 0, 1}));
  EXPECT_NE(arenas.get(arenas.values, 0)[0], 1);
  EXPECT_NE(arenas.get(arenas.values, 2)[0], 6);
}

TEST(OptimizerSteps, CountEachParametersOwnStepsInAdam) {
  // A parameter that joins later moves by the rate in its first step, as its bias correction is
  // that of step 1: m / (1 - b1) = g, sqrt(v / (1 - b2)) = |g|.
  Arenas arenas({{.value = {1}}, {.value = {1}}});
  arenas.set_active(1, false);
  for (int k = 0; k < 3; ++k) {
    arenas.set(arenas.grads, 0, {1});
    adam(arenas, {{0.125, 0.9, 0.999, 0, 0, 0}});
  }
  arenas.set_active(1, true);
  arenas.set(arenas.grads, 1, {-3});
  adam(arenas, {{0.125, 0.9, 0.999, 0, 0, 0}});
  EXPECT_EQ(arenas.steps.to_vector<int64_t>(), (std::vector<int64_t>{4, 1}));
  EXPECT_NEAR(arenas.get(arenas.values, 1)[0], 1.125, 1e-6);
}

TEST(OptimizerSteps, GiveTheSameBitsForAnyNumberOfThreads) {
  const Values start = random_values(70'001, 1), grad = random_values(70'001, 2);
  expect_same_for_any_threads([&] {
    Arenas arenas({{.value = start}, {.value = {1, 2, 3}}, {.value = start}});
    for (size_t i : {0, 2}) arenas.set(arenas.grads, i, grad);
    sgd(arenas, {{0.1, 0.9, 1e-4, 1}});
    adam(arenas, {{0.1, 0.9, 0.999, 1e-8, 0.01, 1}});
    const Tensor norm = Tensor::empty({}, {.dtype = DType::f64});
    clip_by_norm(arenas, norm, 1);
    return std::vector{arenas.get(arenas.values, 0), arenas.get(arenas.values, 2),
                       arenas.get(arenas.grads, 2), Values{norm.item<double>()}};
  });
}

TEST(GradientNorm, IsThatOfAllActiveGradientsTogether) {
  Arenas arenas({{.value = {0, 0}}, {.value = {0}}, {.value = {0}, .dtype = DType::f64}});
  arenas.set(arenas.grads, 0, {3, 4});
  arenas.set(arenas.grads, 1, {1e6});
  arenas.set(arenas.grads, 2, {12});
  arenas.set_active(1, false);
  const Tensor norm = Tensor::empty({}, {.dtype = DType::f64});
  clip_by_norm(arenas, norm, 100);
  EXPECT_EQ(norm.item<double>(), 13);                      // sqrt(9 + 16 + 144)
  EXPECT_EQ(arenas.get(arenas.grads, 0), (Values{3, 4}));  // below the limit: untouched
  clip_by_norm(arenas, norm, 6.5);
  EXPECT_EQ(arenas.get(arenas.grads, 0), (Values{1.5, 2}));
  EXPECT_EQ(arenas.get(arenas.grads, 1), (Values{1e6}));
  EXPECT_EQ(arenas.get(arenas.grads, 2), (Values{6}));
}

TEST(GradientNorm, DoesNotOverflowInF32AndSumsManyExactly) {
  Arenas arenas({{.value = Values(1'000'000, 0)}, {.value = {0}}});
  arenas.set(arenas.grads, 0, Values(1'000'000, 1e-3));
  arenas.set(arenas.grads, 1, {1e30});
  arenas.set_active(1, false);
  const Tensor norm = Tensor::empty({}, {.dtype = DType::f64});
  run(kernels::GradientNorm{.grads = arenas.grads, .segments = arenas.segments, .norm = norm});
  EXPECT_NEAR(norm.item<double>(), 1, 1e-7);  // 1e-3 in f32 is off by 5e-8 of it
  arenas.set_active(1, true);
  run(kernels::GradientNorm{.grads = arenas.grads, .segments = arenas.segments, .norm = norm});
  EXPECT_NEAR(norm.item<double>() / 1e30, 1, 1e-7);
}

TEST(ClipByNorm, LeavesGradientsAloneWhenTheNormIsNotFinite) {
  for (double bad : {inf, -inf, double(NAN)}) {
    Arenas arenas({{.value = {0, 0}}, {.value = {0}}});
    arenas.set(arenas.grads, 0, {3, bad});
    arenas.set(arenas.grads, 1, {4});
    const Tensor norm = Tensor::empty({}, {.dtype = DType::f64});
    clip_by_norm(arenas, norm, 1);
    EXPECT_FALSE(std::isfinite(norm.item<double>()));
    EXPECT_EQ(arenas.get(arenas.grads, 0)[0], 3);
    EXPECT_EQ(arenas.get(arenas.grads, 1), (Values{4}));
  }
}

TEST(ClipByValue, ClampsActiveGradientsAndKeepsNan) {
  Arenas arenas({{.value = {0, 0, 0, 0}}, {.value = {0}}});
  arenas.set(arenas.grads, 0, {0.25, -3, inf, NAN});
  arenas.set(arenas.grads, 1, {9});
  arenas.set_active(1, false);
  run(kernels::ClipByValue{.grads = arenas.grads, .segments = arenas.segments, .limit = 0.5});
  expect_close(arenas.get(arenas.grads, 0), {0.25, -0.5, 0.5, NAN}, {}, "clipped");
  EXPECT_EQ(arenas.get(arenas.grads, 1), (Values{9}));
}

TEST(OptimizerSteps, TakeNoParametersAtAll) {
  Arenas arenas(std::vector<ArenaParameter>{{.value = {}}});
  sgd(arenas, {{0.1, 0.9, 0, 0}});
  adam(arenas, {{0.1, 0.9, 0.999, 1e-8, 0, 0}});
  const Tensor norm = Tensor::empty({}, {.dtype = DType::f64});
  clip_by_norm(arenas, norm, 1);
  EXPECT_EQ(norm.item<double>(), 0);
}

// Steps of 2^-12 (bf16) and 2^-15 (f16) from 1, where the next numbers are 2^-7 and 2^-10 away.
TEST(OptimizerSteps, AddUpInMastersWhatSixteenBitsCannotHold) {
  const double lr = 0x1p-12;
  const std::vector<double> start(300, 1.0);  // more than is rounded at once
  for (DType dtype : {DType::bf16, DType::f16}) {
    const double rate = dtype == DType::bf16 ? lr : lr / 8;
    for (const bool masters : {true, false}) {
      Arenas arenas({{.value = start, .dtype = dtype}, {.value = {1}}});
      for (size_t i : {0, 1}) arenas.set(arenas.grads, i, Values(i == 0 ? 300 : 1, -1));
      for (int k = 0; k < 64; ++k) {
        sgd(arenas, {{rate, 0, 0, 0}}, {.momentum = false, .masters = masters});
      }
      const double moved = 1 + 64 * rate;  // exact, in f32 too
      EXPECT_EQ(arenas.get(arenas.values, 0), Values(300, masters ? moved : 1)) << dtype;
      EXPECT_EQ(arenas.get(arenas.masters, 0), Values(300, masters ? moved : 1)) << dtype;
      EXPECT_EQ(arenas.get(arenas.values, 1), Values{moved});  // f32 needs no master
      EXPECT_EQ(arenas.get(arenas.masters, 1), Values{1});     // and leaves its place alone
    }
  }
}

// The formulas of the kernels' contracts in f64.
void sgd_by_hand(double& value, double grad, double& momentum, const SgdGroup& group) {
  const double g = grad + group.weight_decay * value;
  momentum = group.momentum * momentum + g;
  value -= group.lr * (group.nesterov != 0 ? g + group.momentum * momentum : momentum);
}
void adam_by_hand(double& value, double grad, double& m, double& v, int step,
                  const AdamGroup& group) {
  m = group.beta1 * m + (1 - group.beta1) * grad;
  v = group.beta2 * v + (1 - group.beta2) * grad * grad;
  value -= group.lr * group.weight_decay * value;
  value -= group.lr * (m / (1 - std::pow(group.beta1, step))) /
           (std::sqrt(v / (1 - std::pow(group.beta2, step))) + group.epsilon);
}

TEST(OptimizerSteps, RoundTheMasterIntoTheValue) {
  const SgdGroup sgd_group{0.1, 0.9, 0.05, 1};
  const AdamGroup adam_group{0.05, 0.8, 0.99, 1e-6, 0.1, 1};
  const Values start = eighths(1000, 7, 3, 33), grad = eighths(1000, 5, 1, 17);
  for (const bool is_sgd : {true, false}) {
    Arenas arenas({{.value = start, .dtype = DType::bf16}, {.value = start, .dtype = DType::f16}});
    Values exact = start, m(1000, 0), v(1000, 0);
    for (int step = 1; step <= 5; ++step) {
      for (size_t i : {0, 1}) arenas.set(arenas.grads, i, grad);
      if (is_sgd) {
        sgd(arenas, {sgd_group}, {.masters = true});
      } else {
        adam(arenas, {adam_group}, {.masters = true});
      }
      for (size_t e = 0; e < 1000; ++e) {
        if (is_sgd) {
          sgd_by_hand(exact[e], grad[e], m[e], sgd_group);
        } else {
          adam_by_hand(exact[e], grad[e], m[e], v[e], step, adam_group);
        }
      }
    }
    for (size_t i : {0, 1}) {
      const Values masters = arenas.get(arenas.masters, i);
      expect_close(masters, exact, {.absolute = 3e-6}, "masters");  // f32 at up to 8, five steps
      expect_close(arenas.get(arenas.first, i), m, {.absolute = 3e-6}, "first");
      Values rounded;
      for (double master : masters) {
        rounded.push_back(i == 0 ? float(bfloat16(float(master))) : float(float16(float(master))));
      }
      EXPECT_EQ(arenas.get(arenas.values, i), rounded);
    }
  }
}

TEST(ClipByNorm, TakesSixteenBits) {
  Arenas arenas({{.value = {0, 0}, .dtype = DType::bf16}, {.value = {0}, .dtype = DType::f16}});
  arenas.set(arenas.grads, 0, {3, 4});
  arenas.set(arenas.grads, 1, {12});
  const Tensor norm = Tensor::empty({}, {.dtype = DType::f64});
  clip_by_norm(arenas, norm, 6.5);
  EXPECT_EQ(norm.item<double>(), 13);
  EXPECT_EQ(arenas.get(arenas.grads, 0), (Values{1.5, 2}));
  EXPECT_EQ(arenas.get(arenas.grads, 1), (Values{6}));
  run(kernels::ClipByValue{.grads = arenas.grads, .segments = arenas.segments, .limit = 1.75});
  EXPECT_EQ(arenas.get(arenas.grads, 0), (Values{1.5, 1.75}));
  EXPECT_EQ(arenas.get(arenas.grads, 1), (Values{1.75}));
}

TEST(OptimizerSteps, RefuseIntegers) {
  ADRET_CPU_ONLY("the GPU's host does not know the dtypes in the table");
  Arenas arenas(std::vector<ArenaParameter>{{.value = {1}, .dtype = DType::f32}});
  arenas.set_dtype(0, DType::i32);
  expect_error<ShapeError>(
      [&] {
        sgd(arenas, {{0.1, 0, 0, 0}});
        return 0;
      },
      "[sgd_step] runs in floating dtypes, not in i32");
}

}  // namespace
}  // namespace adret
