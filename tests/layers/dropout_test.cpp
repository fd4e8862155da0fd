// Dropout layers: what each drops together, and that evaluation drops nothing.
#include <adret/core/random.h>
#include <adret/layers/dropout.h>
#include <gtest/gtest.h>

#include <set>
#include <vector>

namespace adret {
namespace {

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

}  // namespace
}  // namespace adret
