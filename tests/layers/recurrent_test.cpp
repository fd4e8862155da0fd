// Recurrent layers: names and first values, clones, dropout between layers, 16 bits, refusals.
// golden/recurrent_test.cpp holds their values.
#include <adret/autograd/ops/reduce.h>
#include <adret/autograd/ops/shape.h>
#include <adret/core/error.h>
#include <adret/core/random.h>
#include <adret/layers/init.h>
#include <adret/layers/recurrent.h>
#include <adret/train/weights.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "tests/support/expect_error.h"
#include "tests/support/files.h"
#include "tests/support/gradients.h"

namespace adret {
namespace {

using namespace test;

Tensor floats(const Shape& shape, int offset = 0) { return sequence(shape, offset).to(DType::f32); }

std::vector<std::string> names_of(const Module& model) {
  std::vector<std::string> names;
  for (const auto& [name, parameter] : model.named_parameters()) names.push_back(name);
  return names;
}

TEST(RecurrentLayers, HavePyTorchsNamesAndShapes) {
  GRU model(3, 5, {.layers = 2, .bidirectional = true});
  EXPECT_EQ(names_of(model),
            (std::vector<std::string>{
                "weight_ih_l0", "weight_hh_l0", "bias_ih_l0", "bias_hh_l0", "weight_ih_l0_reverse",
                "weight_hh_l0_reverse", "bias_ih_l0_reverse", "bias_hh_l0_reverse", "weight_ih_l1",
                "weight_hh_l1", "bias_ih_l1", "bias_hh_l1", "weight_ih_l1_reverse",
                "weight_hh_l1_reverse", "bias_ih_l1_reverse", "bias_hh_l1_reverse"}));
  EXPECT_EQ(model.parts[2].weight_ih.get().value.shape(), (Shape{15, 10}));
  const RecurrentResult result = model(floats({2, 4, 3}));
  EXPECT_EQ(result.output.shape(), (Shape{2, 4, 10}));
  EXPECT_EQ(result.h.shape(), (Shape{4, 2, 5}));
  EXPECT_FALSE(result.c.defined());
  EXPECT_EQ(model.type_name(), "GRU");
  EXPECT_EQ(names_of(LSTMCell(3, 5, {.bias = false})),
            (std::vector<std::string>{"weight_ih", "weight_hh"}));
}

TEST(RecurrentLayers, StartWithinTheHiddenSizesBound) {
  LSTM model(30, 25);
  for (const auto& [name, parameter] : model.named_parameters()) {
    float largest = 0;
    for (float v : parameter->value.to_vector()) largest = std::max(largest, std::abs(v));
    EXPECT_LE(largest, 0.2f) << name;
    EXPECT_GT(largest, 0.17f) << name;
  }
}

TEST(RecurrentLayers, AreClonedMovedSavedAndLoaded) {
  LSTM model(3, 4, {.layers = 2, .bidirectional = true});
  const Tensor x = floats({2, 5, 3});
  const std::vector<float> expected = model(x).output.to_vector();
  LSTM copy = model.clone();
  EXPECT_EQ(copy(x).output.to_vector(), expected);
  const TempDir folder;
  save_weights(model, folder / "weights");
  LSTM other(3, 4, {.layers = 2, .bidirectional = true});
  EXPECT_NE(other(x).output.to_vector(), expected);
  load_weights(other, folder / "weights");
  EXPECT_EQ(other(x).output.to_vector(), expected);
  LSTM moved = std::move(model);
  init::zeros_(copy.parts[0].weight_ih.get());
  EXPECT_EQ(moved(x).output.to_vector(), expected);
  EXPECT_NE(copy(x).output.to_vector(), expected);
  GRUCell cell(3, 4), same = cell.clone();
  EXPECT_EQ(cell(floats({2, 3})).h.to_vector(), same(floats({2, 3})).h.to_vector());
}

TEST(RecurrentLayers, GoOnFromAState) {
  LSTM model(3, 4, {.layers = 2});
  const Tensor x = floats({2, 5, 3});
  const RecurrentResult whole = model(x);
  const RecurrentResult first = model(slice(x, 1, 0, 2));
  const RecurrentResult rest = model(slice(x, 1, 2, 5), RecurrentState{first.h, first.c});
  EXPECT_THAT(rest.h.to_vector(),
              testing::Pointwise(testing::FloatNear(1e-6f), whole.h.to_vector()));
  EXPECT_THAT(
      rest.output.to_vector(),
      testing::Pointwise(testing::FloatNear(1e-6f), slice(whole.output, 1, 2, 5).to_vector()));
}

TEST(RecurrentLayers, DropOutBetweenLayersOnly) {
  const Tensor x = floats({2, 5, 3});
  GRU one(3, 4, {.dropout = 0.5});
  EXPECT_EQ(one(x).output.to_vector(), one(x).output.to_vector());
  GRU two(3, 4, {.layers = 2, .dropout = 0.5});
  EXPECT_NE(two(x).output.to_vector(), two(x).output.to_vector());
  two.eval();
  EXPECT_EQ(two(x).output.to_vector(), two(x).output.to_vector());
}

TEST(RecurrentLayers, RunIn16Bits) {
  for (const DType dtype : {DType::bf16, DType::f16}) {
    LSTM model(3, 4, {.layers = 2, .bidirectional = true});
    const Tensor x = floats({2, 5, 3}), h = floats({4, 2, 4}), c = floats({4, 2, 4}, 1);
    const Tensor lengths = Tensor::from<int32_t>({3, 5}, {2});
    const std::vector<float> expected = model(x, RecurrentState{h, c}, lengths).output.to_vector();
    model.to(dtype);
    const RecurrentResult result = model(x, RecurrentState{h, c}, lengths);
    EXPECT_EQ(result.output.dtype(), dtype);
    EXPECT_EQ(result.c.dtype(), dtype);
    EXPECT_THAT(result.output.to(DType::f32).to_vector(),
                testing::Pointwise(testing::FloatNear(0.03f), expected));
    sum(result.output.to(DType::f32)).backward();
    for (const auto& parameter : model.parameters()) EXPECT_TRUE(parameter->value.grad().defined());
  }
}

// Braces say no type, so a call that takes any arguments would not take them.
TEST(RecurrentLayers, TakeStatesInBraces) {
  random::manual_seed(4);
  LSTM lstm(3, 2);
  GRU gru(3, 2);
  LSTMCell cell(3, 2);
  const Tensor x = sequence({2, 4, 3}).to(DType::f32), h = sequence({1, 2, 2}).to(DType::f32);
  const Tensor lengths = Tensor::from<int64_t>({4, 2}, {2});
  int calls = 0;
  lstm.add_forward_pre_hook([&](Module&, const std::vector<Tensor>&) {
    ++calls;
    return std::vector<Tensor>{};
  });
  EXPECT_EQ(lstm(x, {}, lengths).output.to_vector(),
            lstm(x, RecurrentState{}, lengths).output.to_vector());
  EXPECT_EQ(lstm(x, {h, h}).h.to_vector(), lstm(x, RecurrentState{h, h}).h.to_vector());
  EXPECT_EQ(calls, 4);
  EXPECT_EQ(gru(x, {h}).h.to_vector(), gru(x, RecurrentState{h}).h.to_vector());
  const Tensor one = sequence({2, 3}).to(DType::f32), state = h.reshape({2, 2});
  EXPECT_EQ(cell(one, {state}).h.to_vector(), cell(one, RecurrentState{state}).h.to_vector());
}

TEST(RecurrentLayers, RefuseActivationsThatTheyDoNotHave) {
  const RecurrentActivation relu = RecurrentActivation::relu;
  expect_error<Error>([&] { return LSTM(2, 2, {.activation = relu}); },
                      "[LSTM] activation is relu; only an RNN has one of its own, this is tanh");
  expect_error<Error>([&] { return GRUCell(2, 2, {.activation = relu}); },
                      "[GRUCell] activation is relu");
  RNN(2, 2, {.activation = relu});
  RNNCell(2, 2, {.activation = relu});
}

TEST(RecurrentLayers, RefuseWhatDoesNotFit) {
  expect_error<Error>([] { return LSTM(0, 4); }, "[LSTM] input_size is 0; it must be at least 1");
  expect_error<Error>([] { return GRU(3, 0); }, "[GRU] hidden_size is 0; it must be at least 1");
  expect_error<Error>([] { return RNN(3, 4, {.layers = 0}); }, "[RNN] layers is 0");
  expect_error<Error>([] { return RNN(3, 4, {.dropout = 1.5}); },
                      "[RNN] dropout is 1.5; a probability lies in 0..1");
  expect_error<Error>([] { return GRUCell(3, 0); }, "[GRUCell] hidden_size is 0");
  GRU gru(3, 4, {.layers = 2});
  const Tensor x = floats({2, 5, 3});
  expect_error<ShapeError>(
      [&] {
        return gru(floats({5, 3}));
      },
      "[GRU] x is (5, 3), wanted (N, T, I)");
  expect_error<ShapeError>(
      [&] {
        return gru(floats({2, 5, 4}));
      },
      "[GRU] x (2, 5, 4) has 4 features, the layer 3");
  expect_error<ShapeError>(
      [&] {
        return gru(x, RecurrentState{floats({2, 4})});
      },
      "[GRU] state.h is (2, 4), wanted (2, 2, 4)");
  expect_error<ShapeError>(
      [&] {
        return gru(x, RecurrentState{{}, floats({2, 2, 4})});
      },
      "[GRU] state.c was given, but only an LSTM has a cell");
  expect_error<ShapeError>([&] { return gru(x, RecurrentState{}, floats({2})); },
                           "[gru] lengths (2,) is f32, wanted i64");
  LSTMCell cell(3, 4);
  expect_error<ShapeError>([&] { return cell(x); }, "[LSTMCell] x is (2, 5, 3), wanted (N, I)");
  expect_error<ShapeError>(
      [&] {
        return cell(floats({2, 3}), RecurrentState{floats({4})});
      },
      "[lstm] state.h is (4,), wanted (2, 4)");
}

}  // namespace
}  // namespace adret
