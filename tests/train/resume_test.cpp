// A run that ends, is written to files and goes on gives the bits of one that never ended.
#include <adret/autograd/ops/arithmetic.h>
#include <adret/autograd/ops/reduce.h>
#include <adret/core/random.h>
#include <adret/layers/activation.h>
#include <adret/layers/linear.h>
#include <adret/layers/sequential.h>
#include <adret/optim/adam.h>
#include <adret/optim/sgd.h>
#include <adret/train/safetensors.h>
#include <adret/train/trainer.h>
#include <adret/train/weights.h>
#include <gtest/gtest.h>

#include <map>

#include "tests/support/files.h"
#include "tests/support/state_bytes.h"

namespace adret {
namespace {

using namespace test;

Sequential network() { return Sequential(Linear(3, 8), Tanh(), Linear(8, 1)); }

void train(Sequential& net, Optimizer& optimizer, int first, int last) {
  for (int step = first; step < last; ++step) {
    const float s = float(step);
    const Tensor x = Tensor::from({s, 1 - s, 0.5f, -1.f, s / 2, 2.f}, {2, 3});
    optimizer.zero_grad();
    mean(square(net(x) - 1)).backward();
    optimizer.step();
  }
}

// nntile/nntile#351, tenstorrent/tt-metal#53212, chainer/chainer#4013: the file's step count and
// betas count, whatever the constructor says.
TEST(Resume, AdamGoesOnFromItsFiles) {
  const TempDir dir;
  random::manual_seed(3);
  Sequential straight = network(), begun = straight.clone();
  const AdamOptions options{.lr = 0.05, .beta1 = 0.7, .beta2 = 0.95, .weight_decay = 0.01};
  Adam whole(straight, options);
  train(straight, whole, 0, 10);
  {
    Adam half(begun, options);
    train(begun, half, 0, 5);
    save_weights(begun, dir / "weights.safetensors");
    const OptimizerState state = half.state();
    write_tensors(dir / "optimizer.safetensors", state.tensors, {{"optimizer", state.optimizer}});
  }
  Sequential resumed = network();
  Adam other(resumed, {.lr = 1, .beta1 = 0.1, .beta2 = 0.2});
  load_weights(resumed, dir / "weights.safetensors");
  const TensorFile file = read_tensors(dir / "optimizer.safetensors");
  other.load_state({.optimizer = file.metadata.at("optimizer"), .tensors = file.tensors});
  train(resumed, other, 5, 10);
  EXPECT_EQ(state_bytes(resumed, other), state_bytes(straight, whole));
}

// The rate of every step of a trainer's epochs `first`..`last`, four steps each.
std::map<int64_t, double> rates(const LrSchedule& schedule, int64_t first, int64_t last) {
  std::map<int64_t, double> seen;
  Sequential net = network();
  Sgd optimizer(net, {.lr = 7});
  const LrSchedule noting = [&](int64_t step) { return seen[step] = schedule(step); };
  const TensorDataset data(Tensor::zeros({4, 3}), Tensor::zeros({4, 1}));
  Trainer(net, optimizer,
          {.epochs = last,
           .first_epoch = first,
           .schedule = noting,
           .loss = [](const Tensor& y, const Tensor& target) { return mean(square(y - target)); }})
      .fit(DataLoader(data, {.batch_size = 1}));
  EXPECT_EQ(optimizer.lr(), seen.rbegin()->second);
  return seen;
}

// Lightning-AI/pytorch-lightning#1772, pytorch/pytorch#60265.
TEST(Resume, RatesAreThoseOfAnUninterruptedRun) {
  const auto check = [](const LrSchedule& schedule, int64_t at, int64_t last) {
    std::map<int64_t, double> parts = rates(schedule, 1, at - 1);
    parts.merge(rates(schedule, at, last));
    EXPECT_EQ(parts, rates(schedule, 1, last));
    EXPECT_EQ(parts.size(), size_t(4 * last));
  };
  check(step_lr({.lr = 0.1, .every = 4 * 3}), 3, 6);  // drops as epoch 4 begins
  check(cosine_lr({.lr = 0.1, .steps = 4 * 50, .final_lr = 0.001}), 45, 50);
}

}  // namespace
}  // namespace adret
