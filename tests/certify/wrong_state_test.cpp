// Layers that keep, lose or leave behind what they should not: each fails in the check that is
// about it.
#include <adret/autograd/grad_mode.h>
#include <adret/autograd/ops/arithmetic.h>
#include <adret/autograd/ops/dropout.h>
#include <adret/autograd/ops/inplace.h>
#include <adret/autograd/ops/reduce.h>
#include <adret/layers/dropout.h>

#include <vector>

#include "tests/certify/wrong_layers.h"

namespace adret {
namespace {

using namespace test;

// Subtracts in evaluation a mean of what it saw in training.
Tensor centred(const Tensor& x, Tensor& mean_seen, bool training) {
  if (!training) return x - mean_seen.to(x.dtype());
  if (x.numel() > 0) {
    const NoGrad no_grad;
    copy_(mean_seen, mean_seen * 0.9 + mean(x).to(mean_seen.dtype()) * 0.1);
  }
  return x * 1.0;
}

struct CentredByBuffer : Layer<CentredByBuffer> {
  Tensor& seen = buffer("seen", Tensor::zeros({}));
  Tensor forward(const Tensor& x) { return centred(x, seen, training()); }
  CentredByBuffer rebuild() const { return {}; }
};

struct CentredByMember : Layer<CentredByMember> {
  Tensor seen = Tensor::zeros({});
  Tensor forward(const Tensor& x) { return centred(x, seen, training()); }
  CentredByMember rebuild() const { return {}; }
};

TEST(WrongState, ABufferThatIsNotRegistered) {
  // Also a foreign tensor to the check of parameters.
  expect_failure(certify(CentredByMember(), {{4, 3}},
                         quick({.skip = {{"parameters", "shown in wrong_gradients_test.cpp"}}})),
                 "state", "in evaluation, output (4, 3), element 0 at (0, 0) is");
  const Certificate right = certify(CentredByBuffer(), {{4, 3}}, quick());
  EXPECT_TRUE(right.passed()) << right;
}

struct Scaled : Layer<Scaled> {
  explicit Scaled(double factor = 1) : factor(factor) {}
  Tensor forward(const Tensor& x) { return x * factor; }
  Scaled rebuild() const { return Scaled(); }
  double factor;
};

TEST(WrongState, ArgumentsThatRebuildForgets) {
  const Certificate c = certify(Scaled(2), {{4, 3}}, quick());
  expect_failure(c, "copies", "in a copy");
  EXPECT_THAT(c.row("copies").reason,
              testing::HasSubstr("rebuild() must pass on what the constructor was given"));
}

struct OtherShape : Layer<OtherShape> {
  explicit OtherShape(int64_t size = 3) : scale(parameter("scale", Tensor::ones({size}))) {}
  Tensor forward(const Tensor& x) { return x * scale; }
  OtherShape rebuild() const { return OtherShape(); }
  Parameter& scale;
};

TEST(WrongState, ALayerThatCannotBeCopiedIsCheckedNoFurther) {
  const Certificate c = certify(OtherShape(5), {{4, 5}}, quick());
  EXPECT_EQ(c.row("runs").verdict, Verdict::failed);
  EXPECT_THAT(c.row("runs").reason,
              testing::HasSubstr("rebuild() made \"scale\" (3,), the original has (5,)"));
  EXPECT_EQ(c.row("memory").verdict, Verdict::skipped);
  EXPECT_EQ(c.row("memory").reason, "it does not run");
}

struct Cached : Layer<Cached> {
  Parameter& scale = parameter("scale", Tensor::full({3}, 0.5));
  Tensor seen;
  Tensor forward(const Tensor& x) {
    // Another tensor after a conversion.
    if (!seen.defined()) seen = scale.value.detach();
    return x * scale + (seen.data() == scale.value.data() ? 0.0 : 1.0);
  }
  Cached rebuild() const { return {}; }
};

TEST(WrongState, WhatAConversionDoesNotReach) {
  const Certificate c = certify(Cached(), {{4, 3}}, quick({.eager_step = true}));
  expect_failure(c, "conversion", "to f64 and back: output (4, 3)");
}

// -- calls ----------------------------------------------------------------------------------------

TEST(WrongCalls, WriteToTheInput) {
  const auto wrong = [](const Tensor& x) {
    const Tensor y = x * 2.0;
    if (x.dtype() == DType::f32) {
      for (float& value : x.span<float>()) value += 1;
    }
    return y;
  };
  // Such a write is seen in a step, which then stays eager.
  const CertifyOptions options = quick({.eager_step = true});
  expect_failure(certify("doubled", wrong, {{4, 3}}, options), "inputs untouched",
                 "in training, input 0 (4, 3), element 0 at (0, 0) is");
}

TEST(WrongCalls, WriteToTheInputWhatItHolds) {
  const auto bumping = [](const Tensor& x) {
    x.bump_version();
    return x * 2.0;
  };
  const Certificate bumped = certify("doubled", bumping, {{4, 3}}, quick());
  EXPECT_THAT(bumped.row("inputs untouched").reason,
              testing::HasSubstr("input 0 (4, 3) was written to, with what it held"));
}

struct WritesParameter : Layer<WritesParameter> {
  Parameter& scale = parameter("scale", Tensor::full({3}, 0.5));
  Tensor forward(const Tensor& x) {
    const Tensor y = x * scale.value.clone();
    if (scale.value.dtype() == DType::f32 && training()) {
      for (float& value : scale.value.span<float>()) value *= 2;
    }
    return y;
  }
  WritesParameter rebuild() const { return {}; }
};

TEST(WrongCalls, WriteToAParameter) {
  const Certificate c = certify(WritesParameter(), {{4, 3}}, quick({.eager_step = true}));
  EXPECT_EQ(c.row("inputs untouched").verdict, Verdict::failed);
  EXPECT_THAT(c.row("inputs untouched").reason,
              testing::HasSubstr("scale (3,), element 0 at (0,)"));
}

TEST(WrongCalls, NotTheSameWithoutGradients) {
  const auto wrong = [](const Tensor& x) { return x * (grad_enabled() ? 2.0 : 2.5); };
  const CertifyOptions options = quick();
  expect_failure(certify("scaled", wrong, {{4, 3}}, options), "repeatable",
                 "output (4, 3), element ");
}

TEST(WrongCalls, NotTheSameTwice) {
  // Every other result is one unit in the last place off.
  int64_t calls = 0;
  const auto wrong = [&](const Tensor& x) {
    const bool odd = x.dtype() == DType::f32 && ++calls % 2 == 1;
    return x * (odd ? 1 + 1.2e-7 : 1.0);
  };
  const Certificate c = certify("unsteady", wrong, {{4, 3}}, quick({.eager_step = true}));
  expect_failure(c, "repeatable", "in training, output (4, 3), element");
  EXPECT_THAT(c.row("repeatable").reason, testing::HasSubstr("the second time"));
}

// -- modes ----------------------------------------------------------------------------------------

struct AlwaysDrops : Layer<AlwaysDrops> {
  Tensor forward(const Tensor& x) { return dropout(x, 0.5, true); }
  AlwaysDrops rebuild() const { return {}; }
};

TEST(WrongModes, RandomNumbersInEvaluation) {
  const CertifyOptions apart = quick({.mixes_samples = true});
  expect_failure(certify(AlwaysDrops(), {{4, 3}}, apart), "evaluation", "from another seed");
  const Certificate meant = certify(AlwaysDrops(), {{4, 3}}, quick({.random = true}));
  EXPECT_TRUE(meant.passed()) << meant;
}

struct HeldDropout : Layer<HeldDropout> {
  Dropout dropout{0.5};
  Tensor forward(const Tensor& x) { return dropout(x); }
  HeldDropout rebuild() const { return {}; }
};

TEST(WrongModes, ALayerThatEvalDoesNotReach) {
  expect_failure(certify(HeldDropout(), {{4, 3}}, quick({.mixes_samples = true})), "evaluation",
                 "declare layers that draw with add()");
}

struct CountsAlways : Layer<CountsAlways> {
  Tensor& calls = buffer("calls", Tensor::zeros({}));
  Tensor forward(const Tensor& x) {
    {
      const NoGrad no_grad;
      add_(calls, Tensor::ones({}, {calls.dtype(), calls.device()}));
    }
    return x * 1.0;
  }
  CountsAlways rebuild() const { return {}; }
};

TEST(WrongModes, StateThatChangesInEvaluation) {
  expect_failure(certify(CountsAlways(), {{4, 3}}, quick()), "evaluation",
                 "calls () is 1 after a call in evaluation, 0 before");
}

// -- memory ---------------------------------------------------------------------------------------

struct KeepsAll : Layer<KeepsAll> {
  std::vector<Tensor> all;
  Tensor forward(const Tensor& x) {
    all.push_back(x.detach().clone());
    return x * 1.0;
  }
  KeepsAll rebuild() const { return {}; }
};

TEST(WrongMemory, GrowsFromCallToCall) {
  const Certificate c = certify(KeepsAll(), {{4, 3}}, quick({.eager_step = true}));
  expect_failure(c, "memory", "64 more each call");
  EXPECT_THAT(c.row("captured step").reason, testing::HasSubstr("it stays eager, as it may"));
}

}  // namespace
}  // namespace adret
