// Shapes: limits, negative dimensions, broadcasting.
#include <adret/core/error.h>
#include <adret/core/shape.h>
#include <gtest/gtest.h>

#include <array>

#include "tests/support/expect_error.h"

namespace adret {
namespace {

using namespace test;

TEST(Shape, CountsNegativeDimensionsFromTheEnd) {
  const Shape shape{2, 3, 5};
  EXPECT_EQ(shape[-1], 5);
  EXPECT_EQ(shape[-3], 2);
  EXPECT_EQ(shape.numel(), 30);
  EXPECT_EQ(Shape{}.numel(), 1);
  EXPECT_EQ((Shape{4, 0, 3}).numel(), 0);
}

TEST(Shape, NamesTheDimensionThatIsOutOfRange) {
  expect_error<ShapeError>(
      [] {
        return Shape{2, 3}[2];
      },
      "[shape] dimension 2 is out of range for shape (2, 3); wanted -2..1");
  expect_error<ShapeError>([] { return Shape{}.resolve_dim("sum", 0); },
                           "[sum] dimension 0 is out of range for a scalar, which has none");
}

TEST(Shape, RefusesNegativeSizesAndTooManyDimensions) {
  expect_error<ShapeError>([] { return Shape{2, -3}; }, "[shape] negative size in (2, -3)");
  expect_error<ShapeError>([] { return Shape{1, 1, 1, 1, 1, 1, 1}; },
                           "[shape] 7 dimensions; a tensor has at most 6");
  expect_error<ShapeError>([] { return Shape({1, 1, 1, 1, 1, 1}).inserted(0, 2); }, "[shape]");
}

TEST(Shape, RefusesMoreElementsThanCanBeCounted) {
  const int64_t large = int64_t(1) << 40;
  EXPECT_EQ(Shape({large}).numel(), large);
  expect_error<ShapeError>(
      [&] {
        return Shape{large, large};
      },  // 2^80 wraps to 0
      "[shape] (1099511627776, 1099511627776) has more elements than");
  expect_error<ShapeError>([&] { return Shape{int64_t(1) << 62}; }, "[shape]");  // f32: 2^64 bytes
  expect_error<ShapeError>(
      [&] {
        return broadcast("add", Shape{large, 1}, Shape{1, large});
      },
      "[shape] (1099511627776, 1099511627776) has more elements than");
  expect_error<ShapeError>([&] { return Shape({large, 2}).with(1, large); }, "has more elements");
  expect_error<ShapeError>([&] { return Shape({large}).inserted(1, large); }, "has more elements");
}

// Whatever product of sizes a kernel takes, it does not overflow: a size of 0 makes up for nothing.
TEST(Shape, RefusesSizesThatOverflowBesideAZero) {
  const int64_t large = int64_t(1) << 31;
  for (const Shape& shape : {Shape{large, 0, 1 << 20}, Shape{0, large}, Shape{large, 1, 0}}) {
    EXPECT_EQ(shape.numel(), 0);
  }
  for (const auto& sizes :
       {std::array{large, large, int64_t(0)}, std::array{large, int64_t(0), large},
        std::array{int64_t(0), large, large}}) {
    expect_error<ShapeError>([&] { return Shape(sizes); },
                             "has no elements, but its other sizes multiply to more than 2^60");
  }
  expect_error<ShapeError>(
      [&] {
        return Shape({large, 0}).inserted(2, large);
      },
      "[shape] (2147483648, 0, 2147483648) has no elements, but");
}

TEST(Shape, ReplacesRemovesAndInsertsDimensions) {
  const Shape shape{2, 3, 5};
  EXPECT_EQ(shape.with(1, 7), (Shape{2, 7, 5}));
  EXPECT_EQ(shape.without(0), (Shape{3, 5}));
  EXPECT_EQ(shape.inserted(3, 7), (Shape{2, 3, 5, 7}));
  EXPECT_EQ(shape.inserted(0, 7), (Shape{7, 2, 3, 5}));
}

TEST(Shape, PrintsAsTuple) {
  EXPECT_EQ(to_string(Shape{}), "()");
  EXPECT_EQ(to_string(Shape{3}), "(3,)");
  EXPECT_EQ(to_string(Shape{3, 4}), "(3, 4)");
}

// Expected shapes: NumPy's broadcasting rules (numpy.broadcast_shapes).
TEST(Broadcast, FollowsNumpy) {
  EXPECT_EQ(broadcast("add", {5, 4}, {4}), (Shape{5, 4}));
  EXPECT_EQ(broadcast("add", {15, 3, 5}, {15, 1, 5}), (Shape{15, 3, 5}));
  EXPECT_EQ(broadcast("add", {8, 1, 6, 1}, {7, 1, 5}), (Shape{8, 7, 6, 5}));
  EXPECT_EQ(broadcast("add", {}, {2, 3}), (Shape{2, 3}));
  EXPECT_EQ(broadcast("add", {0, 3}, {1, 3}), (Shape{0, 3}));
  EXPECT_EQ(broadcast("add", {1}, {0}), (Shape{0}));
}

TEST(Broadcast, NamesBothShapes) {
  expect_error<ShapeError>(
      [] {
        return broadcast("add", {2, 3}, {2, 4});
      },
      "[add] shapes (2, 3) and (2, 4) do not broadcast: dimension 1 from the end is 3 and 4");
}

}  // namespace
}  // namespace adret
