// Dropout layers: their functions in training, the identity in evaluation, and what they refuse.
#include <adret/core/random.h>
#include <adret/layers/dropout.h>
#include <gtest/gtest.h>

#include <set>
#include <vector>

#include "tests/support/expect_error.h"
#include "tests/support/gradients.h"

namespace adret {
namespace {

using namespace test;

// Ones (8, 2, 3, 5) behind the layer: in training 0 or 1 / (1 - p), both of them, and equal for all
// elements that `group` names alike; in evaluation the same tensor.
template <class L, class F>
void expect_drops_together(L layer, float kept, const F& group, size_t groups) {
  random::manual_seed(4);
  const Tensor x = Tensor::ones({8, 2, 3, 5});
  const std::vector<float> values = layer(x).to_vector();
  std::vector<std::set<float>> found(groups);
  std::set<float> all;
  for (size_t i = 0; i < values.size(); ++i) {
    found[group(i)].insert(values[i]);
    all.insert(values[i]);
  }
  EXPECT_EQ(all, (std::set<float>{0, kept}));
  for (const auto& together : found) EXPECT_EQ(together.size(), 1);
  layer.eval();
  EXPECT_TRUE(layer(x).is_same(x));
}

TEST(DropoutLayers, DropElementsChannelsOrSamples) {
  constexpr size_t channels = 5, sample = 2 * 3 * channels;
  expect_drops_together(
      Dropout(0.75), 4, [](size_t i) { return i; }, 8 * sample);
  expect_drops_together(
      Dropout2d(0.5), 2, [](size_t i) { return i / sample * channels + i % channels; },
      8 * channels);
  expect_drops_together(
      DropPath(0.5), 2, [](size_t i) { return i / sample; }, 8);
}

// Not one number for more than a channel of a sample, or for all elements.
TEST(DropoutLayers, DropEachByItself) {
  random::manual_seed(4);
  const std::vector<float> values = Dropout2d(0.5)(Tensor::ones({8, 1, 1, 5})).to_vector();
  for (size_t sample = 0; sample < 8; ++sample) {
    const auto first = values.begin() + int64_t(sample * 5);
    if (std::set<float>(first, first + 5).size() == 2) return;
  }
  FAIL() << "all channels of each sample have one fate";
}

template <class L>
void expect_dropout(L layer, Tensor (*function)(const Tensor&, double, bool)) {
  const Tensor x = sequence({5, 3, 2, 4}).to(DType::f32);
  random::manual_seed(3);
  const Tensor expected = function(x, layer.p, true);
  random::manual_seed(3);
  EXPECT_EQ(layer(x).to_vector(), expected.to_vector());
  EXPECT_NE(expected.to_vector(), x.to_vector());
  L copy = layer.clone();
  copy.eval();
  EXPECT_EQ(copy.p, layer.p);
  EXPECT_EQ(copy(x).to_vector(), x.to_vector());
}

TEST(DropoutLayers, AreTheirFunctions) {
  expect_dropout(Dropout(0.25), dropout);
  expect_dropout(Dropout1d(0.5), dropout2d);
  expect_dropout(Dropout2d(0.5), dropout2d);
  expect_dropout(Dropout3d(0.5), dropout2d);
  expect_dropout(AlphaDropout(0.25), alpha_dropout);
  expect_dropout(FeatureAlphaDropout(0.25), feature_alpha_dropout);
  expect_dropout(DropPath(0.5), drop_path);
}

TEST(DropoutLayers, WantAProbability) {
  expect_error<Error>([] { return Dropout2d(-0.1); },
                      "[Dropout2d] p is -0.1; a probability lies in 0..1");
  expect_error<Error>([] { return Dropout1d(2); }, "[Dropout1d] p is 2");
  expect_error<Error>([] { return Dropout3d(2); }, "[Dropout3d] p is 2");
  expect_error<Error>([] { return AlphaDropout(-1); }, "[AlphaDropout] p is -1");
  expect_error<Error>([] { return FeatureAlphaDropout(2); }, "[FeatureAlphaDropout] p is 2");
  expect_error<Error>([] { return DropPath(1.5); }, "[DropPath] p is 1.5");
}

}  // namespace
}  // namespace adret
