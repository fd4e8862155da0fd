// Dropout: identity, masks, scale, derivatives and refusals.
#include <adret/autograd/engine.h>
#include <adret/autograd/ops/dropout.h>
#include <adret/autograd/ops/reduce.h>
#include <adret/core/error.h>
#include <adret/core/random.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "tests/support/expect_error.h"
#include "tests/support/gradients.h"

namespace adret {
namespace {

using namespace test;
using Inputs = std::vector<Tensor>;

TEST(Dropout, IsTheIdentityInEvaluationAndForProbabilityZero) {
  const Tensor x = variable({3, 4});
  EXPECT_TRUE(dropout(x, 0.5, false).is_same(x));
  EXPECT_TRUE(dropout(x, 0, true).is_same(x));
}

TEST(Dropout, OfProbabilityOneIsZeroWithAZeroGradient) {
  const Tensor x = leaf({1, -2, std::numeric_limits<double>::infinity()});
  const Tensor y = dropout(x, 1, true);
  expect_values(y, {3}, {0, 0, 0});
  expect_values(grad({sum(y)}, {x})[0], {3}, {0, 0, 0});
}

TEST(Dropout, ScalesWhatItKeepsAndUsesTheSameMaskBackwards) {
  random::manual_seed(1);
  for (const int64_t batch : {10, 64, 7}) {
    Tensor x = Tensor::ones({batch, 50});
    x.set_requires_grad(true);
    const Tensor y = dropout(x, 0.2, true);
    const std::vector<float> kept = y.to_vector();
    for (const float value : kept) EXPECT_TRUE(value == 0 || value == 1.25f) << value;
    // 4 standard deviations of the share that is dropped.
    const double share = double(std::ranges::count(kept, 0.0f)) / double(kept.size());
    EXPECT_NEAR(share, 0.2, 4 * std::sqrt(0.2 * 0.8 / double(kept.size())));
    EXPECT_EQ(grad({sum(y)}, {x})[0].to_vector(), kept);
  }
}

TEST(Dropout, DrawsAnotherMaskEachCallAndTheSameAfterSeeding) {
  const Tensor x = Tensor::ones({100});
  random::manual_seed(3);
  const std::vector<float> first = dropout(x, 0.5, true).to_vector();
  EXPECT_NE(dropout(x, 0.5, true).to_vector(), first);
  random::manual_seed(3);
  EXPECT_EQ(dropout(x, 0.5, true).to_vector(), first);
}

TEST(Dropout, HasDerivativesForAFixedMask) {
  const auto function = [](const Inputs& in) {
    random::manual_seed(5);
    return dropout(in[0], 0.4, true);
  };
  expect_gradients(function, {variable({3, 4})});
  expect_gradients(function, {variable({0, 4})});
}

TEST(Dropout, WantsAProbability) {
  const Tensor x = Tensor::ones({2});
  expect_error<ShapeError>([&] { return dropout(x, 1.5, true); },
                           "[dropout] p is 1.5, wanted a probability in 0..1");
  expect_error<ShapeError>([&] { return dropout(x, -0.1, false); }, "[dropout] p is -0.1");
  expect_error<ShapeError>([&] { return dropout(x, std::nan(""), true); }, "[dropout] p is nan");
}

}  // namespace
}  // namespace adret
