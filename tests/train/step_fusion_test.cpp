// Plain layers, whose replays must be fused and compute what eager steps do.
#include <adret/autograd/ops/activation.h>
#include <adret/autograd/ops/arithmetic.h>
#include <adret/autograd/ops/loss.h>
#include <adret/autograd/ops/pool.h>
#include <adret/autograd/ops/reduce.h>
#include <adret/autograd/ops/shape.h>
#include <adret/core/random.h>
#include <adret/layers/conv.h>
#include <adret/layers/dropout.h>
#include <adret/layers/group_norm.h>
#include <adret/layers/linear.h>
#include <adret/layers/norm.h>
#include <adret/optim/sgd.h>
#include <adret/train/step.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <map>
#include <memory>
#include <string>

#include "tests/support/hashed.h"
#include "tests/support/seen_kernels.h"

namespace adret {
namespace {

using namespace test;
using Counts = std::map<std::string, int>;

Tensor images(int64_t step, int64_t count) {
  const std::vector<double> values = hashed_unit(std::to_string(step), count * 8 * 8 * 3);
  return Tensor::from(values, {count, 8, 8, 3}).to(DType::f32);
}
Tensor labels(int64_t step, int64_t count) {
  std::vector<int32_t> list;
  for (int64_t i = 0; i < count; ++i) list.push_back(int32_t((step + i * i) % 3));
  return Tensor::from(list, {count});
}

struct Run {
  std::vector<float> losses, state;
  Counts kernels;
};

// Of the classes, for a model that has some.
template <class Model>
Tensor weights_of(const Model& model) {
  if constexpr (requires { model.class_weights; }) return model.class_weights;
  return {};
}

// Eight steps of batches of 40, of a model that is made anew.
template <class Model>
Run train(StepMode mode, bool capture = true) {
  random::manual_seed(5);
  Model model;
  Sgd optimizer(model, {.lr = 0.05, .momentum = 0.9});
  Step step(
      [&](const Tensor& x, const Tensor& y) {
        optimizer.zero_grad();
        const Tensor loss = cross_entropy(model(x), y, {.class_weights = weights_of(model)});
        loss.backward();
        optimizer.step();
        return loss;
      },
      {.mode = mode, .capture = capture});
  Run run;
  for (int64_t i = 0; i < 8; ++i) {
    random::begin_step(i);
    if (i < 7 || mode == StepMode::eager) {
      run.losses.push_back(step(images(i, 40), labels(i, 40)).item());
      continue;
    }
    const Tensor x = images(i, 40), y = labels(i, 40);
    SeenKernels seen;
    const Tensor loss = step(x, y);
    run.kernels = seen.counts();
    run.kernels.erase("copy");  // of the inputs and outputs
    run.losses.push_back(loss.item());
  }
  EXPECT_EQ(step.report().replays > 0, mode == StepMode::graph) << step.report().reason;
  for (const auto& parameter : model.parameters()) {
    for (const float value : parameter->value.to_vector()) run.state.push_back(value);
  }
  for (const NamedTensor& buffer : model.named_buffers()) {
    for (const float value : buffer.tensor.to(DType::f32).to_vector()) run.state.push_back(value);
  }
  return run;
}

// Both ways give the same weights; returns what a replay ran.
template <class Model>
Counts replayed_kernels() {
  const Run eager = train<Model>(StepMode::eager), replayed = train<Model>(StepMode::graph);
  const Run listed = train<Model>(StepMode::graph, false);
  EXPECT_EQ(replayed.losses, listed.losses);  // a capture changes no bit
  EXPECT_EQ(replayed.state, listed.state);
  EXPECT_EQ(eager.state.size(), replayed.state.size());
  // Eight steps of f32: fused kernels round differently.
  for (size_t i = 0; i < eager.losses.size(); ++i) {
    EXPECT_NEAR(eager.losses[i], replayed.losses[i], 2e-5) << i;
  }
  for (size_t i = 0; i < eager.state.size(); ++i) {
    EXPECT_NEAR(eager.state[i], replayed.state[i], 1e-4) << i;
  }
  return replayed.kernels;
}

// -- linear --------------------------------------------------------------------------------------

template <auto activation>
struct Perceptron : Layer<Perceptron<activation>> {
  Linear& fc1 = this->add("fc1", Linear(8 * 8 * 3, 16));
  Linear& fc2 = this->add("fc2", Linear(16, 3));
  Tensor forward(const Tensor& x) {
    return fc2(activation(fc1(x.reshape({x.size(0), 8 * 8 * 3}))));
  }
};

TEST(StepFusion, LinearReluAndTheLossWithItsGradient) {
  EXPECT_EQ(replayed_kernels<Perceptron<relu>>(), (Counts{{"linear_forward", 2},
                                                          {"cross_entropy_forward", 1},
                                                          {"linear_backward_input", 1},
                                                          {"linear_backward_weight", 2},
                                                          {"sgd_step", 1}}));
}

struct Weighing : Perceptron<relu> {
  const Tensor class_weights = Tensor::from({0.5f, 2.0f, 1.25f}, {3});
};

TEST(StepFusion, TheLossOfWeightedClassesWithItsGradient) {
  EXPECT_EQ(replayed_kernels<Weighing>(), replayed_kernels<Perceptron<relu>>());
}

TEST(StepFusion, TheGradientOfGelu) {
  const Counts kernels = replayed_kernels<Perceptron<gelu>>();
  EXPECT_EQ(kernels.at("unary"), 1);
  EXPECT_EQ(kernels.count("unary_backward"), 0u);
}

TEST(StepFusion, OtherActivationsStay) {
  const Counts kernels = replayed_kernels<Perceptron<tanh>>();
  EXPECT_EQ(kernels.at("unary"), 1);
  EXPECT_EQ(kernels.at("unary_backward"), 1);
}

// What relu gets is used elsewhere, too.
struct Shared : Layer<Shared> {
  Linear& fc1 = add("fc1", Linear(8 * 8 * 3, 16));
  Linear& fc2 = add("fc2", Linear(16, 3));
  Tensor forward(const Tensor& x) {
    const Tensor h = fc1(x.reshape({x.size(0), 8 * 8 * 3}));
    return fc2(relu(h) + h);
  }
};

TEST(StepFusion, WhatIsUsedTwiceStays) {
  const Counts kernels = replayed_kernels<Shared>();
  EXPECT_EQ(kernels.at("unary"), 1);
  EXPECT_EQ(kernels.at("unary_backward"), 1);
}

// -- convolution, pooling, dropout ---------------------------------------------------------------

struct PoolThenRelu : Layer<PoolThenRelu> {
  Conv2d& conv = add("conv", Conv2d(3, 4, {.kernel = 3, .padding = 1}));
  Conv2d& second = add("second", Conv2d(4, 4, {.kernel = 3, .padding = 1}));
  Linear& fc = add("fc", Linear(4 * 2 * 2, 3));
  Tensor forward(const Tensor& x) {
    const Tensor h = relu(max_pool2d(conv(x), 2));
    return fc(flatten(relu(max_pool2d(second(h), 2))));
  }
};

struct ReluThenPool : Layer<ReluThenPool> {
  Conv2d& conv = add("conv", Conv2d(3, 4, {.kernel = 3, .padding = 1}));
  Conv2d& second = add("second", Conv2d(4, 4, {.kernel = 3, .padding = 1}));
  Linear& fc = add("fc", Linear(4 * 2 * 2, 3));
  Tensor forward(const Tensor& x) {
    const Tensor h = max_pool2d(relu(conv(x)), 3, {.stride = 2, .padding = 1});
    return fc(flatten(max_pool2d(relu(second(h)), 2)));
  }
};

const Counts pooled{{"conv2d_forward", 2},
                    {"max_pool2d_forward", 2},
                    {"permute", 2},  // of the linear layer's weight and its gradient
                    {"linear_forward", 1},
                    {"cross_entropy_forward", 1},
                    {"linear_backward_input", 1},
                    {"linear_backward_weight", 1},
                    {"max_pool2d_backward", 2},
                    {"conv2d_backward_input", 1},
                    {"conv2d_backward_weight", 2},
                    {"sgd_step", 1}};

TEST(StepFusion, PoolingAndReluInEitherOrder) {
  EXPECT_EQ(replayed_kernels<PoolThenRelu>(), pooled);
  EXPECT_EQ(replayed_kernels<ReluThenPool>(), pooled);
}

struct Dropped : Layer<Dropped> {
  Linear& fc1 = add("fc1", Linear(8 * 8 * 3, 16));
  Dropout& dropout = add("dropout", Dropout(0.3));
  Linear& fc2 = add("fc2", Linear(16, 3));
  Tensor forward(const Tensor& x) {
    return fc2(dropout(relu(fc1(x.reshape({x.size(0), 8 * 8 * 3})))));
  }
};

TEST(StepFusion, ReluAndDropout) {
  const Counts kernels = replayed_kernels<Dropped>();
  EXPECT_EQ(kernels.count("unary"), 0u);
  EXPECT_EQ(kernels.count("unary_backward"), 0u);
  EXPECT_EQ(kernels.at("dropout_forward"), 1);
  EXPECT_EQ(kernels.at("dropout_backward"), 1);
}

// -- normalisation -------------------------------------------------------------------------------

struct Block : Layer<Block> {
  Conv2d& conv1 = add("conv1", Conv2d(3, 3, {.kernel = 3, .padding = 1, .bias = false}));
  BatchNorm2d& bn1 = add("bn1", BatchNorm2d(3));
  Conv2d& conv2 = add("conv2", Conv2d(3, 3, {.kernel = 3, .padding = 1, .bias = false}));
  BatchNorm2d& bn2 = add("bn2", BatchNorm2d(3));
  Conv2d& conv3 = add("conv3", Conv2d(3, 3, {.kernel = 1, .bias = false}));
  BatchNorm2d& bn3 = add("bn3", BatchNorm2d(3));
  Linear& fc = add("fc", Linear(3, 3));
  Tensor forward(const Tensor& x) {
    const Tensor h = relu(bn1(conv1(x)));
    const Tensor y = relu(bn2(conv2(h)) + bn3(conv3(h)));
    return fc(mean(y, {.dims = {1, 2}}));
  }
};

TEST(StepFusion, NormsWithReluAndSum) {
  const Counts kernels = replayed_kernels<Block>();
  EXPECT_EQ(kernels.at("batch_norm_forward"), 3);
  EXPECT_EQ(kernels.at("batch_norm_backward"), 3);
  EXPECT_EQ(kernels.at("unary"), 1);  // of the mean's gradient
  EXPECT_EQ(kernels.count("unary_backward"), 0u);
  EXPECT_EQ(kernels.at("binary"), 1);  // of the two gradients of h
}

// Two residual blocks: the first's result has two users.
struct Blocks : Layer<Blocks> {
  Conv2d& stem = add("stem", Conv2d(3, 3, {.kernel = 1, .bias = false}));
  Conv2d& conv1 = add("conv1", Conv2d(3, 3, {.kernel = 3, .padding = 1, .bias = false}));
  BatchNorm2d& bn1 = add("bn1", BatchNorm2d(3));
  Conv2d& conv2 = add("conv2", Conv2d(3, 3, {.kernel = 3, .padding = 1, .bias = false}));
  BatchNorm2d& bn2 = add("bn2", BatchNorm2d(3));
  Linear& fc = add("fc", Linear(3, 3));
  Tensor forward(const Tensor& x) {
    const Tensor first = stem(x), h = relu(bn1(conv1(first)) + first);
    const Tensor y = relu(bn2(conv2(h)) + h);
    return fc(mean(y, {.dims = {1, 2}}));
  }
};

TEST(StepFusion, GradientsOfAShortcutAreSummedByTheNormBehindIt) {
  const Counts kernels = replayed_kernels<Blocks>();
  EXPECT_EQ(kernels.at("batch_norm_backward"), 2);
  EXPECT_EQ(kernels.count("unary_backward"), 0u);
  EXPECT_EQ(kernels.at("binary"), 1);  // of the two gradients of what the stem gave
}

// -- residual blocks -----------------------------------------------------------------------------

template <class Norm>
struct Residual : Layer<Residual<Norm>> {
  Linear& in = this->add("in", Linear(8 * 8 * 3, 16));
  Norm& norm1 = this->add("norm1", Norm(16));
  Linear& fc1 = this->add("fc1", Linear(16, 16, {.activation = Activation::gelu_tanh}));
  Norm& norm2 = this->add("norm2", Norm(16));
  Linear& fc2 = this->add("fc2", Linear(16, 16));
  Norm& norm3 = this->add("norm3", Norm(16));
  Linear& out = this->add("out", Linear(16, 3));
  Tensor forward(const Tensor& x) {
    Tensor h = in(x.reshape({x.size(0), 8 * 8 * 3}));
    h = h + fc1(norm1(h));
    h = h + fc2(norm2(h));
    return out(norm3(h));
  }
};

// Both sums are their norms', and so are both sums of gradients.
const Counts residual{{"linear_forward", 4},
                      {"group_norm_forward", 3},
                      {"cross_entropy_forward", 1},
                      {"linear_backward_input", 3},
                      {"linear_backward_weight", 4},
                      {"group_norm_backward", 3},
                      {"unary_backward", 1},  // of the gelu, whose result is added
                      {"sgd_step", 1}};

TEST(StepFusion, SumsBeforeNormsOfSamplesAndTheirGradients) {
  EXPECT_EQ(replayed_kernels<Residual<LayerNorm>>(), residual);
  EXPECT_EQ(replayed_kernels<Residual<RMSNorm>>(), residual);
}

}  // namespace
}  // namespace adret
