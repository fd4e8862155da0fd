// Padding, flipping, rolling, repeating, splitting and stacking beyond PyTorch's values: dtypes,
// empty tensors, shared memory, errors.
#include <adret/autograd/engine.h>
#include <adret/autograd/ops/arithmetic.h>
#include <adret/autograd/ops/pad.h>
#include <adret/autograd/ops/reduce.h>
#include <adret/autograd/ops/shape.h>
#include <adret/core/error.h>

#include "tests/support/expect_error.h"
#include "tests/support/gradients.h"

namespace adret {
namespace {

using namespace test;
using Inputs = std::vector<Tensor>;

TEST(Pad, TakesAnyDtypeAndNoElements) {
  const Tensor x = Tensor::from({1, 2, 3, 4}, {2, 2});
  EXPECT_EQ(pad(x, {{1, 0}, {0, 1}}, {.value = 7}).to_vector<int32_t>(),
            (std::vector<int32_t>{7, 7, 7, 1, 2, 7, 3, 4, 7}));
  const Tensor flags = Tensor::from({true, false}, {2});
  EXPECT_EQ(pad(flags, {{1, 0}}, {.value = 1}).to_vector<bool>(),
            (std::vector<bool>{true, true, false}));
  const Tensor half = Tensor::from({1.f, 2.f}, {2}).to(DType::bf16);
  EXPECT_EQ(pad(half, {{0, 1}}, {.value = 0.5}).to(DType::f32).to_vector<float>(),
            (std::vector<float>{1, 2, 0.5}));
  expect_values(pad(Tensor::zeros({0, 2}), {{1, 0}, {0, 1}}, {.value = 3}), {1, 3}, {3, 3, 3});
  EXPECT_EQ(pad(x, {{-1, -1}, {}}).shape(), Shape({0, 2}));
  EXPECT_EQ(pad(Tensor::zeros({}), {}).shape(), Shape({}));
  const Tensor leaf = variable({0, 2});
  EXPECT_EQ(gradients(pad(leaf, {{1, 0}, {}}), {leaf})[0].shape(), Shape({0, 2}));
}

TEST(Pad, RefusesWhatCannotBe) {
  const Tensor x = Tensor::zeros({2, 3});
  expect_error<ShapeError>(
      [&] {
        return pad(x, {{1, 1}});
      },
      "[pad] 1 paddings for x (2, 3), wanted one for each dimension");
  expect_error<ShapeError>(
      [&] {
        return pad(x, {{}, {-2, -2}});
      },
      "[pad] padding {-2, -2} of dimension 1 of x (2, 3): it would have less than no elements");
  expect_error<ShapeError>(
      [&] {
        return pad(x, {{}, {1, 3}}, {.mode = PadMode::reflect});
      },
      "[pad] padding {1, 3} of dimension 1 of x (2, 3): reflect adds fewer elements");
  for (PadMode mode : {PadMode::replicate, PadMode::circular}) {
    expect_error<ShapeError>(
        [&] {
          return pad(Tensor::zeros({0}), {{1, 0}}, {.mode = mode});
        },
        "there is nothing to repeat");
  }
}

TEST(Roll, GoesRoundAnyNumberOfTimes) {
  const Tensor x = Tensor::from({1, 2, 3}, {3});
  EXPECT_EQ(roll(x, {7}, {0}).to_vector<int32_t>(), (std::vector<int32_t>{3, 1, 2}));
  EXPECT_EQ(roll(x, {-301}, {-1}).to_vector<int32_t>(), (std::vector<int32_t>{2, 3, 1}));
  EXPECT_EQ(roll(Tensor::zeros({0, 2}), {1}, {0}).shape(), Shape({0, 2}));
}

TEST(FlipAndRoll, RefuseDimensions) {
  const Tensor x = Tensor::zeros({2, 3});
  expect_error<ShapeError>(
      [&] {
        return flip(x, {1, -1});
      },
      "[flip] dimension 1 of x (2, 3) is named twice");
  expect_error<ShapeError>([&] { return flip(x, {2}); }, "[flip] dimension 2");
  expect_error<ShapeError>(
      [&] {
        return roll(x, {1, 2}, {0});
      },
      "[roll] 2 shifts for 1 dimensions");
  expect_error<ShapeError>(
      [&] {
        return roll(x, {1, 2}, {0, 0});
      },
      "[roll] dimension 0 of x (2, 3) is named twice");
}

TEST(Repeat, RefusesCounts) {
  const Tensor x = Tensor::zeros({2, 3});
  expect_error<ShapeError>([&] { return repeat(x, {2}); },
                           "[repeat] 1 counts for x (2, 3), wanted one for each dimension");
  expect_error<ShapeError>([&] { return repeat(x, {2, -1}); }, "[repeat] count -1 is below 0");
  expect_error<ShapeError>([&] { return repeat_interleave(x, -1, 0); },
                           "[repeat_interleave] count -1 is below 0");
  EXPECT_EQ(repeat_interleave(Tensor::zeros({2, 0}), 3, 0).shape(), Shape({6, 0}));
  EXPECT_EQ(repeat_interleave(Tensor::zeros({2, 0}), 3, 1).shape(), Shape({2, 0}));
  EXPECT_EQ(repeat(Tensor::zeros({}), {2, 2}).shape(), Shape({2, 2}));
}

TEST(Split, SharesMemoryOfTheLeadingDimensionAndJoinsGradients) {
  const Tensor x = variable({5, 2});
  const std::vector<Tensor> parts = split(x, 2, 0);
  ASSERT_EQ(parts.size(), 3u);
  EXPECT_EQ(parts[2].shape(), Shape({1, 2}));
  EXPECT_EQ(parts[1].storage(), x.storage());
  const auto d = sequence({2, 2}, 3).to_vector<double>();
  expect_values(gradients(parts[1], {x})[0], {5, 2}, {0, 0, 0, 0, d[0], d[1], d[2], d[3], 0, 0});
  EXPECT_EQ(split(Tensor::zeros({0, 2}), 3, 0).size(), 1u);
  EXPECT_EQ(split(x, 9, 0).size(), 1u);
  EXPECT_EQ(chunk(x, 2, 0)[0].shape(), Shape({3, 2}));
}

TEST(Split, RefusesSizesAndDimensions) {
  const Tensor x = Tensor::zeros({2, 3});
  expect_error<ShapeError>([&] { return split(x, 0, 0); }, "[split] size is 0, wanted 1 at least");
  expect_error<ShapeError>([&] { return chunk(x, 0, 0); }, "[chunk] count is 0, wanted 1 at least");
  expect_error<ShapeError>([&] { return split(x, 1, 2); }, "[split] dimension 2");
}

TEST(Stack, RefusesTensorsOfSeveralShapes) {
  const Tensor x = Tensor::zeros({2, 3});
  expect_error<ShapeError>([] { return stack({}, 0); }, "[stack] no tensors were given");
  expect_error<ShapeError>(
      [&] {
        return stack({x, Tensor::zeros({3, 2})}, 0);
      },
      "[stack] a tensor is (3, 2), wanted (2, 3)");
  expect_error<ShapeError>([&] { return stack({x}, 3); }, "[stack] dimension 3");
  expect_error<ShapeError>(
      [&] {
        return stack({x, x.to(DType::f64)}, 0);
      },
      "[stack] the first tensor (2, 3) is f32, another (2, 3) is f64");
}

TEST(Squeeze, RemovesDimensionsOfSizeOne) {
  const Tensor x = Tensor::zeros({2, 1});
  EXPECT_EQ(squeeze(x, -1).data(), x.data());
  EXPECT_EQ(unsqueeze(x, 0).shape(), Shape({1, 2, 1}));
  expect_error<ShapeError>([&] { return squeeze(x, 0); },
                           "[squeeze] dimension 0 of x (2, 1) has 2 elements, wanted 1");
  expect_error<ShapeError>([&] { return unsqueeze(x, 3); }, "[unsqueeze] dimension 3");
}

}  // namespace
}  // namespace adret
