// Layers that pad: what they pass on, copies, and what they refuse.
#include <adret/layers/pad.h>
#include <gtest/gtest.h>

#include "tests/support/expect_error.h"
#include "tests/support/gradients.h"

namespace adret {
namespace {

using namespace test;

Tensor input(const Shape& shape) { return sequence(shape).to(DType::f32); }

template <class L>
void expect_padded(L layer, const Tensor& x, const std::vector<Padding>& paddings,
                   const PadOptions& options) {
  const Tensor y = pad(x, paddings, options);
  EXPECT_EQ(layer(x).shape(), y.shape());
  EXPECT_EQ(layer(x).to_vector(), y.to_vector());
  EXPECT_EQ(layer.clone()(x).to_vector(), y.to_vector());
}

TEST(PadLayers, PassTheirOptionsOn) {
  const Tensor line = input({2, 4, 3}), image = input({1, 3, 4, 2}),
               volume = input({1, 2, 3, 3, 1});
  const std::vector<Padding> of_line = {{}, {1, 1}, {}}, of_image = {{}, {1, 0}, {2, 2}, {}},
                             of_volume = {{}, {1, 1}, {1, 1}, {1, 1}, {}};
  const DirectionPaddings<2> each{{1, 0}, {2, 2}};
  const PadOptions reflect{.mode = PadMode::reflect}, replicate{.mode = PadMode::replicate},
      circular{.mode = PadMode::circular}, number{.value = 2.5};
  expect_padded(ZeroPad1d(1), line, of_line, {});
  expect_padded(ZeroPad2d({{1, 0}, {2, 2}}), image, of_image, {});
  expect_padded(ZeroPad3d(1), volume, of_volume, {});
  expect_padded(ReflectionPad1d(1), line, of_line, reflect);
  expect_padded(ReflectionPad2d(each), image, of_image, reflect);
  expect_padded(ReflectionPad3d(1), volume, of_volume, reflect);
  expect_padded(ReplicationPad1d(1), line, of_line, replicate);
  expect_padded(ReplicationPad2d(each), image, of_image, replicate);
  expect_padded(ReplicationPad3d(1), volume, of_volume, replicate);
  expect_padded(CircularPad1d(1), line, of_line, circular);
  expect_padded(CircularPad2d(each), image, of_image, circular);
  expect_padded(CircularPad3d(1), volume, of_volume, circular);
  expect_padded(ConstantPad1d(1, 2.5), line, of_line, number);
  expect_padded(ConstantPad2d(each, 2.5), image, of_image, number);
  expect_padded(ConstantPad3d(1, 2.5), volume, of_volume, number);
}

TEST(PadLayers, RefuseWhatDoesNotFit) {
  expect_error<ShapeError>(
      [] {
        return ZeroPad1d(1)(input({2, 3}));
      },
      "[ZeroPad1d] wants sequences (N, L, C), got (2, 3)");
  expect_error<ShapeError>(
      [] {
        return ReplicationPad3d(1)(input({2, 3}));
      },
      "[ReplicationPad3d] wants volumes (N, D, H, W, C), got (2, 3)");
  expect_error<ShapeError>([] { return ReflectionPad2d(3)(input({1, 3, 4, 1})); }, "[pad]");
  expect_error<Error>(
      [] {
        return ZeroPad2d({{1, 0}, {2, 2}, {}});
      },
      "[PadLayer] got 3 paddings; there must be one for each of 2 directions");
  expect_error<ShapeError>([] { return ZeroPad2d(-2)(input({1, 3, 4, 1})); }, "[pad]");
}

}  // namespace
}  // namespace adret
