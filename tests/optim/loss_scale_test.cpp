// Loss scaling: skipped steps change nothing, others no bit.
#include <adret/autograd/grad_mode.h>
#include <adret/autograd/ops/arithmetic.h>
#include <adret/autograd/ops/loss.h>
#include <adret/autograd/ops/reduce.h>
#include <adret/core/error.h>
#include <adret/core/random.h>
#include <adret/layers/linear.h>
#include <adret/optim/adam.h>
#include <adret/optim/loss_scale.h>
#include <adret/optim/muon.h>
#include <adret/optim/sgd.h>
#include <gtest/gtest.h>

#include <functional>
#include <limits>
#include <memory>

#include "tests/support/expect_error.h"

namespace adret {
namespace {

using namespace test;

constexpr float infinity = std::numeric_limits<float>::infinity();

struct Net : Layer<Net> {
  Linear& hidden = add("hidden", Linear(5, 7, {.activation = Activation::relu}));
  Linear& last = add("last", Linear(7, 3));
  Tensor forward(const Tensor& x) { return last(hidden(x)); }
};

using MakeOptimizer = std::function<std::unique_ptr<Optimizer>(Module&)>;

struct Named {
  const char* name;
  MakeOptimizer make;
};
const std::vector<Named> optimizers = {
    {"sgd",
     [](Module& m) { return std::make_unique<Sgd>(m, SgdOptions{.lr = 0.1, .momentum = 0.9}); }},
    {"adam", [](Module& m) { return std::make_unique<Adam>(m, AdamOptions{.lr = 0.01}); }},
    {"adamw", [](Module& m) { return std::make_unique<AdamW>(m, AdamWOptions{.lr = 0.01}); }},
};

struct Training {
  static constexpr int64_t samples = 6;

  explicit Training(const MakeOptimizer& make, DType dtype, const LossScaleOptions& options = {}) {
    random::manual_seed(2);
    model = std::make_unique<Net>();
    model->to(dtype);
    optimizer = make(*model);
    scaler = std::make_unique<LossScaler>(*optimizer, options);
  }
  Tensor loss(int step) const {
    const DType dtype = model->last.weight.value.dtype();
    std::vector<float> x;
    std::vector<int32_t> labels;
    for (uint32_t i = 0; i < samples * 5; ++i) {
      x.push_back(float(philox({i, uint32_t(step), 0, 0}, {1, 2})[0] >> 8) / 0x1p24f - 0.5f);
    }
    for (int32_t i = 0; i < samples; ++i) labels.push_back((i * 5 + step) % 3);
    return cross_entropy((*model)(Tensor::from(x, {samples, 5}).to(dtype)),
                         Tensor::from(labels, {samples}));
  }
  // With `spoil` one gradient of the first layer is infinite.
  void step(int number, bool spoil = false, double clip = 0) {
    optimizer->zero_grad();
    scaler->scale(loss(number)).backward();
    if (spoil) {
      Tensor& weight = model->hidden.weight.value;
      std::vector<float> grad = weight.grad().to(DType::f32).to_vector();
      grad[11] = infinity;
      weight.set_grad(Tensor::from(grad, weight.shape()).to(weight.dtype()));
    }
    scaler->unscale();
    if (clip > 0) optimizer->clip_norm(clip);
    optimizer->step();
  }
  // Values, masters and the optimizer's state.
  std::vector<std::vector<double>> state() const {
    std::vector<std::vector<double>> all;
    for (const auto& parameter : model->parameters()) {
      all.push_back(parameter->value.to(DType::f64).to_vector<double>());
      all.push_back(parameter->exact().to(DType::f64).to_vector<double>());
    }
    for (const NamedTensor& part : optimizer->state().tensors) {
      all.push_back(part.tensor.to(DType::f64).to_vector<double>());
    }
    return all;
  }

  std::unique_ptr<Net> model;
  std::unique_ptr<Optimizer> optimizer;
  std::unique_ptr<LossScaler> scaler;
};

const std::vector<DType> dtypes{DType::f32, DType::bf16, DType::f16, DType::f64};

TEST(LossScaler, SkipsAStepThatOverflowsWithoutATrace) {
  for (const auto& [name, make] : optimizers) {
    for (const DType dtype : dtypes) {
      for (const double clip : {0.0, 0.5}) {
        Training run(make, dtype, {.initial = 1024});
        run.step(0, false, clip);
        const auto before = run.state();
        run.step(1, true, clip);
        EXPECT_EQ(run.state(), before) << name << " " << dtype;
        EXPECT_EQ(run.scaler->state().scale, 512);
        EXPECT_EQ(run.scaler->skipped_steps(), 1);
        run.step(2, false, clip);
        EXPECT_NE(run.state(), before) << name << " " << dtype;
        EXPECT_EQ(run.scaler->state().finite_steps, 1);
      }
    }
  }
}

// The step that is left out may leave no trace in Adam's counts of steps either. In f16 the other
// steps' gradients are rounded at another scale, which is no bit less exact above 6e-8 times it.
TEST(LossScaler, TenStepsAreElevenWithASkippedOneTakenOut) {
  for (const auto& [name, make] : optimizers) {
    for (const DType dtype : {DType::f32, DType::bf16, DType::f64}) {
      Training straight(make, dtype), skipping(make, dtype);
      for (int step = 0; step < 10; ++step) {
        straight.step(step);
        if (step == 4) skipping.step(99, true);
        skipping.step(step);
      }
      EXPECT_EQ(skipping.state(), straight.state()) << name << " " << dtype;
    }
  }
}

TEST(LossScaler, ChangesNoBitWhereNothingOverflows) {
  for (const auto& [name, make] : optimizers) {
    for (const DType dtype : {DType::f32, DType::bf16, DType::f64}) {
      for (const double clip : {0.0, 0.25}) {
        Training scaled(make, dtype, {.initial = 0x1p20}), plain(make, dtype);
        for (int step = 0; step < 5; ++step) {
          scaled.step(step, false, clip);
          plain.optimizer->zero_grad();
          plain.loss(step).backward();
          if (clip > 0) plain.optimizer->clip_norm(clip);
          plain.optimizer->step();
        }
        EXPECT_EQ(scaled.state(), plain.state()) << name << " " << dtype;
        EXPECT_EQ(scaled.scaler->skipped_steps(), 0);
      }
    }
  }
}

// A gradient of 2^-30 is 0 in f16, and 2^-14 times the scale.
TEST(LossScaler, KeepsGradientsThatAreTooSmallForF16) {
  struct Scale : Layer<Scale> {
    Parameter& weight = parameter("weight", Tensor::ones({1}));
    Tensor forward(const Tensor& x) { return x * weight.value; }
  } model;
  model.to(DType::f16);
  Sgd optimizer(model, {.lr = 0x1p20});
  const Tensor x = Tensor::ones({1}, {.dtype = DType::f16});
  const auto loss = [&] { return sum(model(x)).to(DType::f32) * 0x1p-30; };
  loss().backward();
  optimizer.step();
  EXPECT_EQ(model.weight.master().item(), 1);
  optimizer.zero_grad();
  LossScaler scaler(optimizer);
  scaler.scale(loss()).backward();
  scaler.unscale();
  EXPECT_EQ(optimizer.clip_norm(1).item<double>(), 0x1p-30);
  optimizer.step();
  EXPECT_EQ(model.weight.master().item(), 1 - 0x1p-10f);
}

TEST(LossScaler, AddsUpTheGradientsOfSeveralBatches) {
  Training parts(optimizers[0].make, DType::f64), whole(optimizers[0].make, DType::f64);
  for (int step = 0; step < 3; ++step) {
    parts.optimizer->zero_grad();
    for (int part = 0; part < 2; ++part) {
      parts.scaler->scale(parts.loss(2 * step + part) / 2).backward();
    }
    parts.scaler->unscale();
    parts.optimizer->step();
    whole.optimizer->zero_grad();
    ((whole.loss(2 * step) + whole.loss(2 * step + 1)) / 2).backward();
    whole.optimizer->step();
  }
  const auto a = parts.state(), b = whole.state();
  for (size_t i = 0; i < a.size(); ++i) {
    for (size_t e = 0; e < a[i].size(); ++e) EXPECT_NEAR(a[i][e], b[i][e], 1e-14);
  }
}

TEST(LossScaler, DoublesTheScaleAfterStepsInARow) {
  Training run(optimizers[0].make, DType::f16,
               {.initial = 64, .lowest = 32, .largest = 256, .growth_interval = 2});
  std::vector<double> scales;
  for (int step = 0; step < 10; ++step) {
    run.step(step, step == 1 || step == 2 || step == 3);
    scales.push_back(run.scaler->state().scale);
  }
  EXPECT_EQ(scales, (std::vector<double>{64, 32, 32, 32, 32, 64, 64, 128, 128, 256}));
  EXPECT_EQ(run.scaler->skipped_steps(), 3);
}

TEST(LossScaler, GoesOnFromASavedState) {
  Training run(optimizers[1].make, DType::f16, {.growth_interval = 3});
  run.step(0, true);
  run.step(1);
  run.step(2);
  const LossScaleState saved = run.scaler->state();
  EXPECT_EQ(saved.scale, 0x1p15);
  EXPECT_EQ(saved.finite_steps, 2);
  EXPECT_EQ(saved.skipped_steps, 1);
  run.scaler = std::make_unique<LossScaler>(*run.optimizer, LossScaleOptions{.growth_interval = 3});
  run.scaler->load_state(saved);
  run.step(3);
  EXPECT_EQ(run.scaler->state().scale, 0x1p16);  // the third in a row
  EXPECT_EQ(run.scaler->skipped_steps(), 1);
}

TEST(LossScaler, LeavesPlainStepsBehindItPlain) {
  Training run(optimizers[0].make, DType::f32), plain(optimizers[0].make, DType::f32);
  run.step(0);
  plain.step(0);
  run.step(1, true);  // its segments stay switched off on the device
  for (const Training* each : {&run, &plain}) {
    each->optimizer->zero_grad();
    each->loss(2).backward();
    each->optimizer->step();
  }
  EXPECT_EQ(run.state(), plain.state());
}

// As when an exception comes between unscale() and step().
TEST(LossScaler, ForgetsAStepThatWasNotMade) {
  for (const bool spoil : {false, true}) {
    for (const bool scaled : {false, true}) {
      Training run(optimizers[1].make, DType::f32), straight(optimizers[1].make, DType::f32);
      run.step(0);
      straight.step(0);
      run.optimizer->zero_grad();
      run.scaler->scale(spoil ? run.loss(1) * infinity : run.loss(1)).backward();
      run.scaler->unscale();
      for (Training* each : {&run, &straight}) {
        if (scaled) {
          each->step(2);
        } else {
          each->optimizer->zero_grad();
          each->loss(2).backward();
          each->optimizer->step();
        }
      }
      EXPECT_EQ(run.state(), straight.state()) << spoil << scaled;
      EXPECT_EQ(run.scaler->skipped_steps(), int64_t(spoil));
    }
  }
}

TEST(LossScaler, LeavesParametersWithoutGradientAlone) {
  Training run(optimizers[1].make, DType::f32);
  run.model->hidden.set_requires_grad(false);
  const auto before = run.model->hidden.weight.value.to_vector();
  run.optimizer->zero_grad();
  run.scaler->unscale();  // no gradient at all: nothing to decide
  run.step(0);
  run.step(1);
  EXPECT_EQ(run.model->hidden.weight.value.to_vector(), before);
  EXPECT_EQ(run.scaler->state().finite_steps, 2);
}

TEST(LossScaler, SwitchesMuonOffToo) {
  Linear model(4, 4, {.bias = false});
  Muon optimizer(model, {.lr = 0.1});
  LossScaler scaler(optimizer, {.initial = 8});
  const auto step = [&](float gradient) {
    scaler.scale(sum(model.weight.value)).backward();
    model.weight.value.set_grad(Tensor::full({4, 4}, gradient));
    scaler.unscale();
    optimizer.step();
    return model.weight.value.to_vector();
  };
  const auto before = model.weight.value.to_vector();
  EXPECT_EQ(step(infinity), before);
  EXPECT_NE(step(1), before);
}

TEST(LossScaler, WantsUnscaleBeforeTheStep) {
  Training run(optimizers[0].make, DType::f32);
  const auto step = [&] { return run.optimizer->step(), 0; };
  const auto before = run.state();
  run.scaler->scale(run.loss(0)).backward();
  expect_error<Error>(step,
                      "[step] a loss was scaled, so the gradients are times the scale; call "
                      "LossScaler::unscale() between backward() and step()");
  EXPECT_EQ(run.state(), before);
  run.scaler->unscale();
  run.optimizer->step();
  EXPECT_NE(run.state(), before);
  run.scaler->scale(run.loss(1)).backward();  // given up
  run.optimizer->zero_grad();
  run.loss(1).backward();
  run.optimizer->step();
  const NoGrad no_grad;
  run.scaler->scale(run.loss(2));  // to be looked at
  run.optimizer->step();
}

TEST(LossScaler, SaysWhatIsWrong) {
  Linear model(2, 2);
  Sgd optimizer(model, {.lr = 1});
  EXPECT_EQ(thrown<Error>([&] { LossScaler(optimizer, {.initial = 1000}); }),
            "[LossScaler] wants powers of two with lowest <= initial <= largest within "
            "2^-100..2^100, got 1, 1000 and 16777216");
  EXPECT_EQ(thrown<Error>([&] { LossScaler(optimizer, {.growth_interval = 0}); }),
            "[LossScaler] growth_interval is 0; it must be at least 1");
  LossScaler scaler(optimizer);
  EXPECT_EQ(thrown<Error>([&] { scaler.load_state({.scale = 0.5}); }),
            "[LossScaler] the state has the scale 0.5 after 0 finite and 0 skipped steps; wanted a "
            "power of two in 1..16777216 and counts not negative");
  sum(model.weight.value).backward();
  expect_error<Error>([&] { return scaler.unscale(), 0; },
                      "[LossScaler] unscale() was called for gradients of a loss that was not "
                      "scaled; call scale(loss).backward() before");
  optimizer.zero_grad();
  scaler.scale(sum(model.weight.value)).backward();
  scaler.unscale();
  LossScaler another(optimizer);
  for (LossScaler* each : {&scaler, &another}) {
    EXPECT_EQ(thrown<Error>([&] { each->unscale(); }),
              "[LossScaler] unscale() was called a second time before step(); call it once for a "
              "step, behind its last backward");
  }
}

}  // namespace
}  // namespace adret
