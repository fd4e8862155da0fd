// Dropout layers: their functions in training, the identity in evaluation, and what they refuse.
#include <adret/core/random.h>
#include <adret/layers/dropout.h>
#include <gtest/gtest.h>

#include "tests/support/expect_error.h"
#include "tests/support/gradients.h"

namespace adret {
namespace {

using namespace test;

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
