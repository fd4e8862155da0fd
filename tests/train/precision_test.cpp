// Models in bf16 and f16 beside f32: every family of layers trains, and losses stay near.
#include <adret/autograd/ops/activation.h>
#include <adret/autograd/ops/arithmetic.h>
#include <adret/autograd/ops/loss.h>
#include <adret/autograd/ops/pool.h>
#include <adret/autograd/ops/reduce.h>
#include <adret/autograd/ops/shape.h>
#include <adret/autograd/ops/softmax.h>
#include <adret/core/random.h>
#include <adret/layers/conv.h>
#include <adret/layers/dropout.h>
#include <adret/layers/init.h>
#include <adret/layers/linear.h>
#include <adret/layers/models/lenet.h>
#include <adret/layers/models/resnet.h>
#include <adret/optim/adam.h>
#include <adret/optim/sgd.h>
#include <adret/train/trainer.h>
#include <gtest/gtest.h>

#include <map>
#include <string>
#include <vector>

#include "tests/support/seen_kernels.h"

namespace adret {
namespace {

// A function or layer of each family between an image and its logits.
struct Everything : Layer<Everything> {
  Conv2d& conv = add("conv", Conv2d(3, 8, {.kernel = 3, .padding = 1, .bias = false}));
  BatchNorm2d& norm = add("norm", BatchNorm2d(8, {.activation = Activation::relu}));
  BasicBlock& block = add("block", BasicBlock(8, 8));    // a residual within batch norm
  BasicBlock& down = add("down", BasicBlock(8, 16, 2));  // and one through a projection
  Conv2d& depthwise = add("depthwise", Conv2d(16, 16, {.kernel = 3, .padding = 1, .groups = 16}));
  Dropout& dropout = add("dropout", Dropout(0.1));
  Linear& hidden = add("hidden", Linear(96, 32, {.activation = Activation::gelu}));
  Linear& gate = add("gate", Linear(32, 32));
  Linear& last = add("last", Linear(32, 10));

  Tensor forward(const Tensor& x) {
    Tensor h = gelu(depthwise(down(block(norm(conv(x))))));
    const Tensor largest = flatten(max_pool2d(h, 2)), average = flatten(avg_pool2d(h, 4)),
                 mean = global_avg_pool2d(h);
    h = concatenate({slice(largest, 1, 0, 64), average, mean}, 1);
    h = hidden(dropout(h));
    h = h * sigmoid(gate(h)) + tanh(h) / 2;
    h = h - sum(softmax(h) * h, {.dims = {1}, .keepdim = true});
    h = transpose(transpose(h, 0, 1), 0, 1);
    return log_softmax(last(h));
  }
};

struct Data {
  Tensor images, labels;
  Data(const Shape& shape, DType dtype) {
    random::manual_seed(11);
    images = Tensor::empty(shape);
    init::normal_(images, 0, 1);
    images = images.to(dtype);
    std::vector<int32_t> classes;
    for (int32_t i = 0; i < shape[0]; ++i) classes.push_back(i * 7 % 10);
    labels = Tensor::from(classes, {shape[0]});
  }
};

// The losses of training on one batch; those in 16 bits are those of the same weights, rounded.
template <class Model>
std::vector<double> losses(DType dtype, const Shape& images, int steps) {
  const Data data(images, dtype);
  random::manual_seed(5);
  Model model;
  model.to(dtype);
  Sgd optimizer(model, {.lr = 0.02, .momentum = 0.9});
  std::vector<double> all;
  for (int step = 0; step < steps; ++step) {
    random::begin_step(step);
    optimizer.zero_grad();
    const Tensor loss = cross_entropy(model(data.images), data.labels);
    EXPECT_EQ(loss.dtype(), DType::f32);
    all.push_back(loss.item());
    loss.backward();
    optimizer.step();
  }
  return all;
}

// The weights are updated in f32, so losses part by the roundings of values and gradients alone: by
// 2^-9 (bf16) of each, some of which add up over ten layers and 30 steps.
template <class Model>
void expect_losses_near_f32(const Shape& images, int steps) {
  const auto f32 = losses<Model>(DType::f32, images, steps),
             bf16 = losses<Model>(DType::bf16, images, steps),
             f16 = losses<Model>(DType::f16, images, steps);
  EXPECT_LT(f32.back(), 0.9 * f32.front());
  for (size_t i = 0; i < f32.size(); ++i) {
    EXPECT_NEAR(bf16[i], f32[i], 0.01 + 0.05 * f32[0]) << "step " << i;
    EXPECT_NEAR(f16[i], f32[i], 0.01 + 0.01 * f32[0]) << "step " << i;
  }
}

TEST(Precision, LeNetFollowsF32In16Bits) { expect_losses_near_f32<LeNet>({16, 28, 28, 1}, 30); }

TEST(Precision, AllFamiliesOfLayersFollowF32In16Bits) {
  expect_losses_near_f32<Everything>({8, 8, 8, 3}, 30);
}

TEST(Precision, NormalisationAndOptimizerStateStayInF32) {
  for (const DType dtype : {DType::bf16, DType::f16}) {
    const Data data({2, 8, 8, 3}, dtype);
    Everything model;
    model.to(dtype);
    Adam optimizer(model);
    cross_entropy(model(data.images), data.labels).backward();
    optimizer.step();
    for (const NamedParameter& entry : model.named_parameters()) {
      const Parameter& parameter = *entry.parameter;
      const bool of_norm = entry.name.find("norm") != std::string::npos ||
                           entry.name.find("bn") != std::string::npos ||
                           entry.name.find("downsample.1") != std::string::npos;
      EXPECT_EQ(parameter.value.dtype(), of_norm ? DType::f32 : dtype) << entry.name;
      ASSERT_TRUE(parameter.value.grad().defined()) << entry.name;
      EXPECT_EQ(parameter.value.grad().dtype(), parameter.value.dtype()) << entry.name;
      ASSERT_EQ(parameter.master().defined(), !of_norm) << entry.name;
      if (of_norm) continue;
      EXPECT_EQ(parameter.master().dtype(), DType::f32) << entry.name;
      EXPECT_EQ(parameter.master().to(dtype).to(DType::f32).to_vector(),
                parameter.value.to(DType::f32).to_vector())
          << entry.name;
    }
    for (const NamedTensor& buffer : model.named_buffers()) {
      EXPECT_NE(size_of(buffer.tensor.dtype()), 2u) << buffer.name;
    }
    for (const NamedTensor& state : optimizer.state().tensors) {
      EXPECT_NE(size_of(state.tensor.dtype()), 2u) << state.name;
    }
  }
}

// In an epoch of three steps.
std::map<std::string, int> kernels_of(const TrainerOptions& options) {
  random::manual_seed(5);
  const Data data({6, 8, 8, 3}, DType::f32);
  const DataLoader loader(TensorDataset(data.images, data.labels, 10), {.batch_size = 2});
  Everything model;
  Sgd optimizer(model, {.lr = 0.01});
  Trainer trainer(model, optimizer, options);
  test::SeenKernels seen;
  trainer.fit(loader);
  return seen.counts();
}

// On a GPU each costs the host some 5 us.
TEST(Precision, AddsFewKernelsToAStep) {
  const auto plain = kernels_of({.non_finite = NonFinite::unguarded});
  auto expected = plain;
  expected["update_loss_scale"] += 3;
  expected["binary"] += 2 * 3;           // the loss times the scale, and the way back
  expected["average_weights"] += 2 * 3;  // of the parameters, and of the running statistics
  EXPECT_EQ(kernels_of({.loss_scale = LossScaleOptions{}, .average = WeightAverageOptions{}}),
            expected);
  expected = plain;
  expected["gradient_norm"] += 3;
  expected["clip_by_norm"] += 3;
  EXPECT_EQ(kernels_of({.clip_norm = 1, .non_finite = NonFinite::unguarded}), expected);
  // Of a guarded step: looks at the loss and at the gradients, the decision, the table of segments,
  // and the buffers before and behind the forward.
  expected = plain;
  expected["update_loss_scale"] += 2 * 3;
  expected["binary"] += 3;
  expected["select"] += 2 * 3;
  expected["copy"] += 3;
  EXPECT_EQ(kernels_of({}), expected);
  // The average has the floating buffers in a block of their own, and two tables and counts.
  expected["average_weights"] += 2 * 3;
  expected["select"] += (1 + 2 + 1) * 3;
  expected["copy"] += (1 + 1 + 1) * 3;
  EXPECT_EQ(kernels_of({.average = WeightAverageOptions{}}), expected);
}

}  // namespace
}  // namespace adret
