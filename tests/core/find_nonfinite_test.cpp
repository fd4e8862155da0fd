// The finder of the first result that is not finite: what it says, and what it passes on.
#include <adret/autograd/ops/arithmetic.h>
#include <adret/autograd/ops/attention.h>
#include <adret/autograd/ops/elementary.h>
#include <adret/autograd/ops/extreme.h>
#include <adret/autograd/ops/logic.h>
#include <adret/autograd/ops/loss.h>
#include <adret/autograd/ops/reduce.h>
#include <adret/autograd/ops/shape.h>
#include <adret/autograd/ops/softmax.h>
#include <adret/core/decorators/find_nonfinite.h>
#include <adret/core/error.h>
#include <adret/core/kernels/kernel.h>
#include <adret/layers/activation.h>
#include <adret/layers/conv.h>
#include <adret/layers/flatten.h>
#include <adret/layers/linear.h>
#include <adret/layers/norm.h>
#include <adret/layers/sequential.h>
#include <adret/optim/adam.h>
#include <adret/optim/sgd.h>
#include <adret/train/step.h>
#include <gtest/gtest.h>

#include <cmath>

#include "tests/support/expect_error.h"
#include "tests/support/mirror.h"

namespace adret {
namespace {

using namespace test;

const float infinity = HUGE_VALF;

struct Log : Layer<Log> {
  Tensor forward(const Tensor& x) { return log(x); }
};
struct Net : Layer<Net> {
  Log& head = add("head", Log());
  Tensor forward(const Tensor& x) { return head(x); }
};

void expect_check(const FindNonFinite& find, const Tensor& tensor, const std::string& text) {
  expect_error<Error>(
      [&] {
        find.check(tensor, "the loss");
        return 0;
      },
      text);
}

TEST(FindNonFinite, NamesTheModuleTheKernelTheOutputAndTheInputs) {
  Net net;
  const Tensor x = Tensor::from<float>({1, 2, -1, 4}, {2, 2});
  FindNonFinite find;
  EXPECT_EQ(thrown<Error>([&] { return net(x); }),
            "[FindNonFinite] Net/head/log: unary x=(2, 2) f32 cpu -> y=(2, 2) f32 cpu log alpha 1 "
            "beta 0: y has 1 NaN among 4 elements, the first (nan) at [1, 0]; the others are from "
            "0 to 1.38629. x "
            "is finite, from -1 to 4 (in Net/head)");
  EXPECT_EQ(net(x + 2.0).shape(), Shape({2, 2}));
  EXPECT_EQ(find.checked(), 3);
}

TEST(FindNonFinite, CountsInfinitiesInF16AndOtherDTypes) {
  FindNonFinite find;
  const Tensor x = Tensor::from<float>({2, -300, 300}, {3});
  EXPECT_EQ(x.to(DType::bf16).to(DType::f64).dtype(), DType::f64);
  const Tensor half = x.to(DType::f16), y = half * half;
  expect_check(find, y,
               "[FindNonFinite] multiply: binary a=(3,) f16 cpu b=(3,) f16 cpu -> y=(3,) f16 cpu "
               "multiply: y has 2 infinities among 3 elements, the first (inf) at [1]; the others "
               "are from 4 to 4. a is finite, from -300 to 300; b is finite, from -300 to 300. It "
               "came to the loss: (3,) f16 cpu has 2 infinities among 3 elements, the first (inf) "
               "at [1]; the others are from 4 to 4");
  for (const DType dtype : {DType::f32, DType::f64, DType::bf16}) {
    expect_check(find, log((x * 0.0).to(dtype)),
                 "y has 3 infinities among 3 elements, the first (-inf) at [0]; none is finite. x "
                 "is finite, from ");
  }
  expect_check(find, Tensor::from<float>({-2}, {}) / Tensor::zeros({}),
               "y is -inf. a is -2; b is 0");
  expect_error<Error>([] { return mean(Tensor::zeros({0})); }, "y is nan. x is empty");
}

TEST(FindNonFinite, NamesWhatCameInWithAnInput) {
  const Tensor x = Tensor::from<float>({1, NAN, 3}, {3});
  FindNonFinite find;
  const Tensor moved = x.reshape({3, 1}).clone();  // which is no finding
  expect_error<Error>(
      [&] { return moved + 1.0; },
      "y has 1 NaN among 3 elements, the first (nan) at [1, 0]; the others are from "
      "2 to 4. x has 1 NaN among 3 elements, the first (nan) at [1, 0]; the others "
      "are from 1 to 3");
}

TEST(FindNonFinite, KeepsInputsThatAreOverwritten) {
  const Tensor x = Tensor::from<float>({4, -1}, {2});
  FindNonFinite find;
  expect_error<Error>(
      [&] {
        run(kernels::Unary{.x = x, .y = x, .op = kernels::UnaryOp::sqrt});
        return 0;
      },
      "y has 1 NaN among 2 elements, the first (nan) at [1]; the others are from 2 to 2. x, before "
      "the call, is finite, from -1 to 4");
  const Tensor a = Tensor::from<float>({3e38f}, {1, 1}), y = Tensor::from<float>({3e38f}, {1, 1});
  run(kernels::Matmul{.a = a, .b = Tensor::ones({1, 1}), .y = y, .accumulate = true});
  expect_check(find, y, "y is inf. a is 3e+38; b is 1; y, before the call, is 3e+38. It came to");
}

TEST(FindNonFinite, NamesFunctionsInTheirBackward) {
  Tensor x = Tensor::from<float>({4, 0}, {2});
  x.set_requires_grad(true);
  const FindNonFinite find;
  sum(sqrt(x)).backward();
  const std::string text = thrown<Error>([&] {
    find.check(x.grad(), "the gradient of x");
    return 0;
  });
  EXPECT_PRED_FORMAT2(testing::IsSubstring, "[FindNonFinite] sqrt backward: ", text);
  EXPECT_PRED_FORMAT2(testing::IsSubstring,
                      "It came to the gradient of x: (2,) f32 cpu has 1 infinity among 2 "
                      "elements, the first (inf) at [1]",
                      text);
}

TEST(FindNonFinite, PassesOnWhatOnlyMoves) {
  const Tensor scores = Tensor::from<float>({1, 2, 3, 4}, {2, 2});
  const Tensor seen = Tensor::from<bool>({true, false, true, true}, {2, 2});
  FindNonFinite find;
  const Tensor masked = where(seen, scores, -infinity);
  EXPECT_EQ(softmax(masked, -1).to_vector()[1], 0);
  const Tensor all = concatenate({masked, Tensor::full({1, 2}, NAN)}, 0).clone();
  EXPECT_TRUE(std::isnan(permute(all, {1, 0}).to(DType::f16).to(DType::f32).to_vector()[2]));
  EXPECT_EQ(max_with_indices(masked, {.dim = 1}).values.to_vector(), (std::vector<float>{1, 4}));
  EXPECT_EQ(min_with_indices(masked, {.dim = 1}).values.to_vector(),
            (std::vector<float>{-infinity, 3}));
  const Tensor narrow = Tensor::empty({2}, {.dtype = DType::f16});
  run(kernels::Fill{.y = narrow, .value = 1e5});
  expect_check(find, narrow,
               "fill -> y=(2,) f16 cpu value 100000: y has 2 infinities among 2 elements");
  expect_check(find, Tensor::full({2}, 1e5).to(DType::f16),
               "cast x=(2,) f32 cpu -> y=(2,) f16 cpu: y has 2 infinities among 2 elements, the "
               "first (inf) at [0]; none is finite. x is finite, from 100000 to 100000");
}

TEST(FindNonFinite, TellsConstantsFromIndicesOutside) {
  const Tensor x = Tensor::from<float>({1, 2}, {2}), y = Tensor::empty({3});
  const FindNonFinite find;
  kernels::Remap pad{.x = x, .y = y};
  pad.remap.step[0] = 1;
  pad.remap.value = -infinity;
  run(pad);
  EXPECT_EQ(y.to_vector(), (std::vector<float>{1, 2, -infinity}));
  const Tensor indices = Tensor::from<int32_t>({0, 1, 2}, {3});
  expect_error<Error>(
      [&] {
        run(kernels::Gather{.x = x, .indices = indices, .y = y});
        return 0;
      },
      "y has 1 NaN among 3 elements, the first (nan) at [2]; the others are from 1 to 2. x is "
      "finite, from 1 to 2");
}

// Scores with -inf added to what may not be seen, and a logarithm of 0.
struct Masked : Layer<Masked> {
  Linear& keys = add("keys", Linear(3, 3));
  Tensor forward(const Tensor& x) {
    const Tensor unseen = Tensor::from<float>({0, -infinity, -infinity, 0, 0, -infinity}, {2, 3});
    const Tensor scores = keys(x) * 0.5 + unseen * 2.0 - 1.0;
    const Tensor shares = exp(log(clamp(x.detach(), 0, 10)));  // of which some are 0
    return sum(softmax(scores, -1) * exp(log_softmax(scores, -1)) * shares);
  }
};

TEST(FindNonFinite, LeavesInfinitiesAloneThatBecomeFiniteAgain) {
  Masked model;
  Sgd sgd(model, {.lr = 0.1, .momentum = 0.9});
  const Tensor x = Tensor::from<float>({1, 2, -3, 0, 5, 6}, {2, 3});
  for (const bool at_once : {true, false}) {
    const FindNonFinite find({.at_once = at_once});
    for (int i = 0; i < 2; ++i) {
      sgd.zero_grad();
      const Tensor loss = model(x);
      loss.backward();
      find.check(loss, "the loss");
      sgd.clip_norm(1);
      sgd.step();
    }
  }
}

TEST(FindNonFinite, NamesTheCallThatMadeItAndNotAMask) {
  const Tensor mask = Tensor::from<float>({0, -infinity}, {2}), x = Tensor::full({2}, 90);
  FindNonFinite find;
  const Tensor scores = mask + 1.0, large = exp(x);
  const std::string text = thrown<Error>([&] { return softmax(scores + large, -1); });
  EXPECT_EQ(text.find("[FindNonFinite] exp: unary x=(2,) f32 cpu -> y=(2,) f32 cpu exp"), 0u)
      << text;
  EXPECT_PRED_FORMAT2(testing::IsSubstring,
                      "y has 2 infinities among 2 elements, the first (inf) at [0]; none is "
                      "finite. x is finite, from 90 to 90. It came to add: binary ",
                      text);
  EXPECT_PRED_FORMAT2(testing::IsSubstring, "y has 1 NaN and 1 infinity among 2 elements", text);
  // All that came from outside: the first that computed with it, or else the one that made a NaN.
  expect_check(find, scores * 2.0, "[FindNonFinite] add: unary x=(2,) f32 cpu");
  expect_error<Error>([&] { return scores - scores; }, "[FindNonFinite] subtract: binary ");
  expect_check(find, mask.clone(),
               "[FindNonFinite] the loss: (2,) f32 cpu, in which no kernel made it, has 1 infinity "
               "among 2 elements, the first (-inf) at [1]");
}

TEST(FindNonFinite, FollowsParts) {
  FindNonFinite find;
  const Tensor all = Tensor::zeros({3, 16});
  const auto part = [&](int64_t begin, int64_t end) {
    return all.segment({end - begin}, size_t(begin) * sizeof(float), DType::f32);
  };
  run(kernels::Copy{.x = exp(Tensor::full({16}, 90)), .y = part(16, 32)});
  expect_check(find, all, "[FindNonFinite] exp: ");
  expect_check(find, concatenate({all, all}, 1), "[FindNonFinite] exp: ");
  run(kernels::Fill{.y = part(20, 24), .value = infinity});
  find.check(part(0, 16), "the first row");
  expect_check(find, part(20, 24), "in which no kernel made it");
  expect_check(find, part(16, 20), "[FindNonFinite] exp: ");
  expect_check(find, part(24, 32), "[FindNonFinite] exp: ");
}

TEST(FindNonFinite, WaitsForWhatIsCheckedWhenAsked) {
  const Tensor x = Tensor::from<float>({4, -1}, {2});
  const FindNonFinite find({.at_once = false});
  const Tensor root = sqrt(x) * 2.0;
  EXPECT_EQ(where(greater(x, Tensor::zeros({2})), root, 0).to_vector(), (std::vector<float>{4, 0}));
  expect_check(find, root, "[FindNonFinite] sqrt: unary x=(2,) f32 cpu");
}

// Before a weight is lost.
TEST(FindNonFinite, StopsGradientsAtTheOptimizer) {
  Linear model(1, 1, {.bias = false});
  Sgd sgd(model, {.lr = 1});
  const float before = model.weight.value.item();
  const FindNonFinite find;
  sum(model(Tensor::ones({1, 1})) * 1e30 * 1e30).backward();
  const std::string text = thrown<Error>([&] { return sgd.step(), 0; });
  EXPECT_EQ(text.find("[FindNonFinite] multiply backward: unary x=(1, 1) f32 cpu"), 0u) << text;
  EXPECT_PRED_FORMAT2(testing::IsSubstring, ": y is inf. x is 1e+30. It came to sgd: sgd_step ",
                      text);
  EXPECT_EQ(model.weight.value.item(), before);
}

TEST(FindNonFinite, LetsQueriesOfAttentionSeeNoKey) {
  const Tensor q = Tensor::ones({1, 2, 1, 4});
  Tensor v = Tensor::ones({1, 2, 1, 4});
  v.set_requires_grad(true);
  const Tensor mask = Tensor::from<bool>({true, true, false, false}, {2, 2});
  const FindNonFinite find;
  sum(scaled_dot_product_attention(q, q, v, {.mask = mask})).backward();
}

Sequential network() {
  return Sequential(Conv2d(1, 4, {.kernel = 3, .padding = 1}), BatchNorm2d(4), ReLU(), Flatten(),
                    Linear(4 * 36, 3));
}

Tensor train(Module& model, Optimizer& optimizer, const Tensor& x) {
  optimizer.zero_grad();
  Tensor loss = cross_entropy(model.call(x), Tensor::from<int32_t>({0, 2}, {2}));
  loss.backward();
  optimizer.step();
  return loss;
}

TEST(FindNonFinite, FindsNothingInACleanStep) {
  Sequential model = network();
  FindNonFinite find;
  Adam adam(model);
  const Tensor x = Tensor::ones({2, 6, 6, 1});
  for (int step = 0; step < 3; ++step) train(model, adam, x);
  EXPECT_GT(find.checked(), 30);
  Sequential half = network();
  half.to(DType::bf16);
  Sgd sgd(half, {.lr = 0.1, .momentum = 0.9});
  train(half, sgd, x);
}

// The second parameter has no gradient, and what lies there may be anything.
TEST(FindNonFinite, NamesParametersOfAnArenaThatAreTrained) {
  for (const bool active : {false, true}) {
    const Tensor values = Tensor::ones({32}).segment({128}, 0, DType::u8);
    const Tensor grads = Tensor::full({32}, NAN).segment({128}, 0, DType::u8);
    run(kernels::Fill{.y = grads.segment({3}, 0, DType::f32), .value = 1});
    const int64_t f32 = int64_t(DType::f32);
    const std::vector<kernels::Segment> rows{
        {.value_offset = 0, .state_offset = 0, .length = 3, .group = 0, .dtype = f32, .active = 1},
        {.value_offset = 64,
         .state_offset = 64,
         .length = 2,
         .group = 0,
         .dtype = f32,
         .active = active}};
    run(kernels::Fill{.y = values.segment({2}, 64, DType::f32), .value = active ? 1 : NAN});
    const auto* words = reinterpret_cast<const int64_t*>(rows.data());
    const kernels::SgdGroup group{.lr = 1};
    const auto* columns = reinterpret_cast<const double*>(&group);
    const Tensor segments =
        Tensor::from(std::span(words, 2 * kernels::segment_columns), {2, kernels::segment_columns});
    const Tensor groups = Tensor::from(std::span(columns, sizeof(group) / sizeof(double)),
                                       {1, int64_t(sizeof(group) / sizeof(double))});
    const kernels::SgdStep step{
        .values = values, .grads = grads, .segments = segments, .groups = groups};
    FindNonFinite find;
    if (!active) {
      run(step);
      continue;
    }
    expect_error<Error>(
        [&] {
          run(step);
          return 0;
        },
        "grads of parameter 1 has 2 NaN among 2 elements, the first (nan) at [0]; none is finite");
    EXPECT_EQ(values.segment({3}, 0, DType::f32).to_vector(), (std::vector<float>{1, 1, 1}));
    run(kernels::Fill{.y = grads.segment({2}, 64, DType::f32), .value = 3e38});
    run(kernels::Fill{.y = values.segment({2}, 64, DType::f32), .value = -3e38});
    expect_error<Error>(
        [&] {
          run(step);
          return 0;
        },
        "values of parameter 1 has 2 infinities among 2 elements, the first (-inf) at [0]; none is "
        "finite. values of parameter 0, before the call, is finite, from 1 to 1; values of "
        "parameter 1, before the call, is finite, from -3e+38 to -3e+38; grads of parameter 0 is "
        "finite, from 1 to 1; grads of parameter 1 is finite, from 3e+38 to 3e+38");
  }
}

TEST(FindNonFinite, SeesTheCallsOfAReplayedStep) {
  Step step([](const Tensor& x) {
    const NameScope scope("net");
    return sum(log(x) * 2.0);
  });
  const Tensor good = Tensor::ones({4}), bad = Tensor::from<float>({1, 2, -3, 4}, {4});
  {
    const FindNonFinite outside;  // while it is recorded
    for (int i = 0; i < 3; ++i) EXPECT_EQ(step(good).item(), 0);
  }
  EXPECT_EQ(step.report().replays, 1) << step.report().reason;
  {
    FindNonFinite find;
    EXPECT_EQ(step(good).item(), 0);
    EXPECT_GE(find.checked(), 3);
    expect_error<Error>([&] { return step(bad); }, "[FindNonFinite] net/log: unary x=(4,) f32 cpu");
    EXPECT_EQ(step(good).item(), 0);
  }
  EXPECT_TRUE(std::isnan(step(bad).item()));
  EXPECT_EQ(step.report().replays, 4) << step.report().reason;
}

TEST(FindNonFinite, ReadsResultsOfASecondDevice) {
  SecondDevice second;
  const Tensor x = Tensor::from<float>({1, -1}, {2}, Device::cuda());
  FindNonFinite find;
  expect_error<Error>([&] { return log(x); },
                      "y has 1 NaN among 2 elements, the first (nan) at [1]; the others are from 0 "
                      "to 0. x is finite, from -1 to 1");
}

}  // namespace
}  // namespace adret
