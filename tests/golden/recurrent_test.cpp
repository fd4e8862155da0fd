// Recurrent layers with PyTorch's weights give PyTorch's results and gradients. make_recurrent.py
// made the file.
#include <adret/autograd/engine.h>
#include <adret/autograd/ops/arithmetic.h>
#include <adret/autograd/ops/reduce.h>
#include <adret/autograd/ops/shape.h>
#include <adret/layers/recurrent.h>
#include <adret/train/safetensors.h>
#include <gtest/gtest.h>

#include <map>
#include <string>

#include "tests/support/close.h"
#include "tests/support/golden.h"
#include "tests/support/gradients.h"
#include "tests/support/mirror.h"

namespace adret {
namespace {

using namespace test;

const std::map<std::string, Tensor>& tensors() {
  static const auto all = read_golden("recurrent.safetensors");
  return all;
}

// What the file holds for one case.
struct Golden {
  std::string name;

  // In f64 or integers; undefined for what the case lacks.
  Tensor find(const std::string& key) const {
    const auto found = tensors().find(name + "." + key);
    if (found == tensors().end()) return {};
    return found->second.dtype() == DType::f32 ? found->second.to(DType::f64) : found->second;
  }
  Tensor variable(const std::string& key) const {
    Tensor x = find(key);
    if (x.defined()) x.set_requires_grad(true);
    return x;
  }
  void expect(const std::string& key, const Tensor& x) const {
    const Tensor wanted = find(key);
    ASSERT_TRUE(wanted.defined()) << key;
    ASSERT_EQ(x.shape(), wanted.shape()) << key;
    expect_close(x.detach().to_vector<double>(), wanted.to_vector<double>(),
                 {.relative = 1e-11, .absolute = 1e-11}, name + " " + key);
  }
};

Tensor weighted(const Tensor& x) { return sum(x * sequence(x.shape(), 3)); }

template <class L>
void expect_golden(const std::string& name, L model) {
  SCOPED_TRACE(name);
  const Golden golden{name};
  model.to(DType::f64);
  std::vector<std::string> keys = {"dx"};
  const Tensor x = golden.variable("x");
  std::vector<Tensor> leaves = {x};
  for (const auto& [key, parameter] : model.named_parameters()) {
    const Tensor value = golden.find("weight." + key);
    ASSERT_TRUE(value.defined()) << key;
    ASSERT_EQ(value.shape(), parameter->value.shape()) << key;
    parameter->replace(value);
    leaves.push_back(parameter->value);
    keys.push_back("d." + key);
  }
  const RecurrentState state{golden.variable("h0"), golden.variable("c0")};
  const auto add = [&](const Tensor& first, const char* key) {
    if (!first.defined()) return;
    leaves.push_back(first);
    keys.push_back(key);
  };
  add(state.h, "dh0");
  add(state.c, "dc0");
  const RecurrentResult result = model(x, state, golden.find("lengths"));
  golden.expect("y", result.output);
  golden.expect("h", result.h);
  Tensor loss = weighted(result.output) + weighted(result.h);
  EXPECT_EQ(result.c.defined(), golden.find("c").defined());
  if (result.c.defined()) {
    golden.expect("c", result.c);
    loss = loss + weighted(result.c);
  }
  const std::vector<Tensor> gradients = grad({loss}, leaves);
  for (size_t i = 0; i < keys.size(); ++i) golden.expect(keys[i], gradients[i]);
}

template <class L>
void expect_cases(const std::string& kind) {
  constexpr int64_t inputs = 3, hidden = 5;
  expect_golden(kind + ".deep", L(inputs, hidden, {.layers = 2, .bidirectional = true}));
  expect_golden(kind + ".lengths", L(inputs, hidden, {.layers = 2, .bidirectional = true}));
  expect_golden(kind + ".no_bias", L(inputs, hidden, {.layers = 2, .bias = false}));
  expect_golden(kind + ".one_step", L(inputs, hidden));
}

TEST(RecurrentLayers, RnnIsPyTorchs) {
  expect_cases<RNN>("rnn");
  expect_golden(
      "rnn_relu.deep",
      RNN(3, 5, {.layers = 2, .bidirectional = true, .activation = RecurrentActivation::relu}));
}
TEST(RecurrentLayers, LstmIsPyTorchs) { expect_cases<LSTM>("lstm"); }
TEST(RecurrentLayers, GruIsPyTorchs) { expect_cases<GRU>("gru"); }

// The layer's steps one by one, from PyTorch's weights and to its results.
template <class Cell>
void expect_steps(const std::string& kind) {
  SCOPED_TRACE(kind);
  const Golden golden{kind + ".one_step"};
  Cell cell(3, 5);
  cell.to(DType::f64);
  for (const auto& [key, parameter] : cell.named_parameters()) {
    parameter->replace(golden.find("weight." + key + "_l0"));
  }
  const auto row = [&](const char* key) {
    const Tensor x = golden.find(key);
    return x.defined() ? squeeze(x, 0) : x;
  };
  const RecurrentState after =
      cell(squeeze(golden.find("x"), 1), RecurrentState{row("h0"), row("c0")});
  golden.expect("h", unsqueeze(after.h, 0));
  if (after.c.defined()) golden.expect("c", unsqueeze(after.c, 0));
}

TEST(RecurrentLayers, CellsArePyTorchs) {
  expect_steps<RNNCell>("rnn");
  expect_steps<LSTMCell>("lstm");
  expect_steps<GRUCell>("gru");
}

}  // namespace
}  // namespace adret
