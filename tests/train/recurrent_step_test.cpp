// Training a recurrent model: a replayed step gives the losses of an eager one, and it learns.
#include <adret/autograd/ops/loss.h>
#include <adret/autograd/ops/shape.h>
#include <adret/core/random.h>
#include <adret/layers/linear.h>
#include <adret/layers/recurrent.h>
#include <adret/optim/adam.h>
#include <adret/train/step.h>
#include <gtest/gtest.h>

#include "tests/support/close.h"
#include "tests/support/hashed.h"

namespace adret {
namespace {

using namespace test;

// The class of a sequence from the last state of its top layer.
template <class L>
struct Classifier : Layer<Classifier<L>> {
  L& layer = this->add("layer", L(3, 8, {.layers = 2, .dropout = 0.1, .bidirectional = true}));
  Linear& head = this->add("head", Linear(16, 3));

  Tensor forward(const Tensor& x, const Tensor& lengths) {
    const Tensor h = layer(x, RecurrentState{}, lengths).h;
    return head(concatenate({squeeze(slice(h, 0, 2, 3), 0), squeeze(slice(h, 0, 3, 4), 0)}, 1));
  }
};

struct Training {
  std::vector<double> losses;
  StepReport report;
};

template <class L>
Training train(StepMode mode, DType dtype, int steps) {
  random::manual_seed(5);
  Classifier<L> model;
  model.to(dtype);
  Adam optimizer(model, {.lr = 0.02});
  Step step(
      [&](const Tensor& x, const Tensor& lengths, const Tensor& labels) {
        optimizer.zero_grad();
        const Tensor loss = cross_entropy(model(x, lengths), labels);
        loss.backward();
        optimizer.step();
        return loss;
      },
      {.mode = mode});
  const Tensor x = Tensor::from(hashed_unit("x", 6 * 5 * 3), {6, 5, 3}).to(dtype);
  const Tensor lengths = Tensor::from<int64_t>({5, 3, 1, 4, 5, 2}, {6});
  const Tensor labels = Tensor::from<int32_t>({0, 1, 2, 0, 1, 2}, {6});
  Training result;
  for (int i = 0; i < steps; ++i) {
    random::begin_step(i);
    result.losses.push_back(step(x, lengths, labels).item());
  }
  result.report = step.report();
  return result;
}

template <class L>
void expect_replayed() {
  const Training eager = train<L>(StepMode::eager, DType::f32, 10),
                 replayed = train<L>(StepMode::graph, DType::f32, 10);
  EXPECT_GE(replayed.report.replays, 7) << replayed.report.reason;
  expect_close(replayed.losses, eager.losses, {.relative = 1e-5, .absolute = 1e-6}, "losses");
}

TEST(RecurrentStep, ReplaysAnRnn) { expect_replayed<RNN>(); }
TEST(RecurrentStep, ReplaysAnLstm) { expect_replayed<LSTM>(); }
TEST(RecurrentStep, ReplaysAGru) { expect_replayed<GRU>(); }

TEST(RecurrentStep, LearnsInF32AndBf16) {
  for (const DType dtype : {DType::f32, DType::bf16}) {
    const Training training = train<GRU>(StepMode::automatic, dtype, 80);
    EXPECT_LT(training.losses.back(), 0.3 * training.losses.front()) << name(dtype);
  }
}

}  // namespace
}  // namespace adret
