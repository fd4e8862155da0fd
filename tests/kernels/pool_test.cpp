// Pooling kernels against loops from the definition, and public bug reports of padding and ceil
// mode.
#include "tests/support/close.h"
#include "tests/support/guarded.h"
#include "tests/support/reference.h"

#include <adret/core/kernels/kernel.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace adret {
namespace {

using namespace test;

struct PoolCase : PoolSizes {
  std::string name;
  PoolCase(std::string case_name, PoolSizes sizes) : PoolSizes(sizes), name(std::move(case_name)) {}
};
void PrintTo(const PoolCase& c, std::ostream* out) { *out << c.name; }

// n, h, w, c, oh, ow, {kernel, stride, padding, count_include_pad}
const PoolCase pool_cases[] = {
    {"lenet_1", {3, 28, 28, 6, 14, 14, {}}},
    {"lenet_2", {3, 10, 10, 16, 5, 5, {}}},
    {"one_channel", {2, 8, 6, 1, 4, 3, {}}},
    {"three_channels", {2, 9, 7, 3, 4, 3, {}}},
    {"many_channels", {1, 6, 6, 70, 3, 3, {}}},
    {"windows_of_three_tile_all_but_the_edge", {2, 11, 10, 5, 3, 3, {.kernel = 3, .stride = 3}}},
    {"overlapping_padded", {2, 9, 9, 8, 5, 5, {.kernel = 3, .stride = 2, .padding = 1}}},
    {"stride_1_padded", {2, 5, 6, 4, 5, 6, {.kernel = 3, .stride = 1, .padding = 1}}},
    {"padding_not_counted",
     {2, 5, 6, 4, 3, 3, {.kernel = 3, .stride = 2, .padding = 1, .count_include_pad = false}}},
    {"sizes_differ_by_direction",
     {2, 9, 12, 3, 4, 5, {.kernel = {2, 4}, .stride = {2, 3}, .padding = {0, 2}}}},
    {"whole_image", {3, 4, 4, 20, 1, 1, {.kernel = 4, .stride = 4}}},
    {"gaps_between_windows", {1, 9, 9, 2, 3, 3, {.kernel = 2, .stride = 3}}},
    {"kernel_of_one_with_stride", {1, 6, 7, 2, 3, 4, {.kernel = 1, .stride = 2}}},
    {"ceil_mode_last_windows_are_cut", {2, 5, 5, 3, 3, 3, {.kernel = 2, .stride = 2}}},
    {"ceil_mode_with_padding", {1, 5, 5, 2, 3, 3, {.kernel = 2, .stride = 2, .padding = 1}}},
    {"positions_beyond_a_byte", {1, 20, 40, 3, 2, 3, {.kernel = {10, 30}, .stride = {9, 5}}}},
    {"many_rows", {64, 12, 12, 6, 6, 6, {}}},
    {"no_images", {0, 8, 8, 3, 4, 4, {}}},
};

template <class Position>
constexpr DType position_dtype = dtype_of<Position>;

// Positions between guards of 77.
template <class Position>
struct Positions {
  static constexpr int64_t guard = 64;
  explicit Positions(const Shape& shape)
      : whole(Tensor::empty({shape.numel() + 2 * guard}, {.dtype = position_dtype<Position>})),
        tensor(whole.alias(shape, guard * sizeof(Position))) {
    std::ranges::fill(whole.template span<Position>(), Position(77));
  }
  std::vector<int64_t> values() const {
    const std::span<Position> elements = tensor.template span<Position>();
    return {elements.begin(), elements.end()};
  }
  bool guards_intact() const {
    const std::span<Position> all = whole.template span<Position>();
    const auto intact = [](Position p) { return p == Position(77); };
    return std::ranges::all_of(all.first(guard), intact) &&
           std::ranges::all_of(all.last(guard), intact);
  }
  Tensor whole, tensor;
};

// Few different values, so that windows have equals.
Values values_with_ties(int64_t count) {
  Values values = random_values(count, 1);
  for (double& v : values) v = std::round(v * 4);
  return values;
}

template <class T, class Position>
void check_max_pool(const PoolCase& c) {
  const Values x = values_with_ties(c.x().numel()), dy = random_values(c.y().numel(), 2);
  const Winners expected = test::max_pool(c, x);
  const Guarded<T> x_operand(c.x(), x), y(c.y()), y_alone(c.y());
  const Positions<Position> position(c.y());
  run(kernels::MaxPool2dForward{
      .x = x_operand, .y = y, .position = position.tensor, .pool = c.pool});
  EXPECT_EQ(y.values(), expected.value);
  EXPECT_EQ(position.values(), expected.tap);
  EXPECT_TRUE(y.guards_intact() && position.guards_intact());
  run(kernels::MaxPool2dForward{.x = x_operand, .y = y_alone, .pool = c.pool});
  EXPECT_EQ(y_alone.values(), expected.value);

  Sums dx(c.x().numel());
  for (size_t i = 0; i < dy.size(); ++i) dx.add(expected.index[i], dy[i]);
  const Guarded<T> dx_operand(c.x()), gathered(c.y());
  run(kernels::MaxPool2dBackward{
      .dy = Guarded<T>(c.y(), dy), .position = position.tensor, .dx = dx_operand, .pool = c.pool});
  expect_sums<T>(dx_operand.values(), dx, "backward");
  EXPECT_TRUE(dx_operand.guards_intact());
  run(kernels::MaxPool2dGather{
      .x = x_operand, .position = position.tensor, .y = gathered, .pool = c.pool});
  EXPECT_EQ(gathered.values(), expected.value);
  EXPECT_TRUE(gathered.guards_intact());
}

// ReLU behind it: zeros have no winner, so that the backward pass gives them nothing.
template <class T, class Position>
void check_max_pool_relu(const PoolCase& c) {
  if (sizeof(Position) == 1 && c.pool.kernel.area() > 255) return;
  Values x = values_with_ties(c.x().numel());
  for (double& value : x) value -= 1;  // so that windows are below zero
  const Values dy = random_values(c.y().numel(), 2);
  Winners expected = test::max_pool(c, x);
  Sums dx(c.x().numel());
  for (size_t i = 0; i < dy.size(); ++i) {
    if (expected.value[i] > 0) {
      dx.add(expected.index[i], dy[i]);
    } else {
      expected.value[i] = 0;
      expected.tap[i] = c.pool.kernel.area();
    }
  }
  const Guarded<T> y(c.y()), dx_operand(c.x());
  const Positions<Position> position(c.y());
  run(kernels::MaxPool2dForward{.x = Guarded<T>(c.x(), x),
                                .y = y,
                                .position = position.tensor,
                                .pool = c.pool,
                                .activation = kernels::Activation::relu});
  EXPECT_EQ(y.values(), expected.value);
  EXPECT_EQ(position.values(), expected.tap);
  EXPECT_TRUE(y.guards_intact() && position.guards_intact());
  run(kernels::MaxPool2dBackward{
      .dy = Guarded<T>(c.y(), dy), .position = position.tensor, .dx = dx_operand, .pool = c.pool});
  expect_sums<T>(dx_operand.values(), dx, "backward behind relu");
}

template <class T>
void check_average_pool(const PoolCase& c) {
  const Values x = random_values(c.x().numel(), 1);
  const Values dy = random_values(c.y().numel(), 2);
  const Values divisors = test::pool_divisors(c);
  Sums y(c.y().numel()), dx(c.x().numel());
  test::for_each_tap(c, [&](int64_t iy, int64_t ix, int64_t) {
    y.add(iy, x[size_t(ix)] / divisors[size_t(iy)]);
    dx.add(ix, dy[size_t(iy)] / divisors[size_t(iy)]);
  });
  const Guarded<T> y_operand(c.y()), dx_operand(c.x());
  run(kernels::AvgPool2dForward{.x = Guarded<T>(c.x(), x), .y = y_operand, .pool = c.pool});
  expect_sums<T>(y_operand.values(), y, "forward");
  run(kernels::AvgPool2dBackward{.dy = Guarded<T>(c.y(), dy), .dx = dx_operand, .pool = c.pool});
  expect_sums<T>(dx_operand.values(), dx, "backward");
  EXPECT_TRUE(y_operand.guards_intact() && dx_operand.guards_intact());
}

class Pool : public ::testing::TestWithParam<PoolCase> {};

TEST_P(Pool, MaximaAndTheirPlacesEqualTheDefinition) {
  const PoolCase& c = GetParam();
  if (c.pool.kernel.area() <= 256) {
    check_max_pool<float, uint8_t>(c);
    check_max_pool_relu<float, uint8_t>(c);
    check_max_pool<double, uint8_t>(c);
    check_max_pool_relu<double, uint8_t>(c);
  } else {
    check_max_pool<float, int32_t>(c);
    check_max_pool_relu<float, int32_t>(c);
    check_max_pool<double, int32_t>(c);
    check_max_pool_relu<double, int32_t>(c);
  }
}

TEST_P(Pool, MeansEqualTheDefinition) {
  check_average_pool<float>(GetParam());
  check_average_pool<double>(GetParam());
}

TEST_P(Pool, BitsDoNotDependOnTheNumberOfThreads) {
  const PoolCase& c = GetParam();
  const Values dy = random_values(c.y().numel(), 2);
  expect_same_for_any_threads([&] {
    const Guarded<float> y(c.y()), max_dx(c.x()), average_dx(c.x()), dy_operand(c.y(), dy);
    const Positions<int32_t> position(c.y());
    run(kernels::MaxPool2dForward{.x = Guarded<float>(c.x(), values_with_ties(c.x().numel())),
                                  .y = y,
                                  .position = position.tensor,
                                  .pool = c.pool});
    run(kernels::MaxPool2dBackward{
        .dy = dy_operand, .position = position.tensor, .dx = max_dx, .pool = c.pool});
    run(kernels::AvgPool2dBackward{.dy = dy_operand, .dx = average_dx, .pool = c.pool});
    return std::vector{y.exact(), max_dx.exact(), average_dx.exact()};
  });
}

INSTANTIATE_TEST_SUITE_P(Kernels, Pool, ::testing::ValuesIn(pool_cases),
                         [](const auto& test) { return test.param.name; });

// apache/mxnet#2753, pytorch/pytorch#41294: padding never wins, however small the values.
TEST(MaxPool, PaddingNeverWins) {
  for (const double value : {-1.0, -HUGE_VAL}) {
    const Guarded<float> y({1, 4, 4, 3});
    const Positions<uint8_t> position({1, 4, 4, 3});
    run(kernels::MaxPool2dForward{.x = Guarded<float>({1, 4, 4, 3}, Values(48, value)),
                                  .y = y,
                                  .position = position.tensor,
                                  .pool = {.kernel = 3, .stride = 1, .padding = 1}});
    EXPECT_EQ(y.values(), Values(48, value));
    EXPECT_EQ(position.values()[0], 4);   // the corner's first element is the window's middle
    EXPECT_EQ(position.values()[15], 0);  // an inner window's is its first
  }
}

TEST(MaxPool, TheFirstNaNWins) {
  const Guarded<double> y({1, 1, 1, 1});
  const Positions<uint8_t> position({1, 1, 1, 1});
  run(kernels::MaxPool2dForward{
      .x = Guarded<double>({1, 2, 2, 1}, {5, NAN, 7, NAN}), .y = y, .position = position.tensor});
  EXPECT_TRUE(std::isnan(y.values()[0]));
  EXPECT_EQ(position.values()[0], 1);
}

// pytorch/pytorch#45357 and tracel-ai/burn#5791, values of torch.nn.functional.max_pool2d with
// ceil_mode (PyTorch 1.13).
TEST(MaxPool, ValuesOfPyTorchInCeilMode) {
  const Guarded<float> kernel_of_one({1, 3, 4, 1}), padded({1, 3, 3, 1});
  const Positions<uint8_t> position({1, 3, 3, 1});
  run(kernels::MaxPool2dForward{.x = Guarded<float>({1, 6, 7, 1}, eighths(42, 7, 3, 17)),
                                .y = kernel_of_one,
                                .pool = {.kernel = 1, .stride = 2}});
  EXPECT_EQ(kernel_of_one.values(), (Values{-0.625, -1.0, 0.75, 0.375, 1.0, 0.625, 0.25, -0.125,
                                            0.5, 0.125, -0.25, -0.625}));
  run(kernels::MaxPool2dForward{.x = Guarded<float>({1, 5, 5, 1}, eighths(25, 7, 3, 17)),
                                .y = padded,
                                .position = position.tensor,
                                .pool = {.kernel = 2, .stride = 2, .padding = 1}});
  EXPECT_EQ(padded.values(), (Values{-0.625, 0.25, 0.75, -0.375, 0.5, 1.0, -0.125, 0.75, 0.375}));
  std::vector<int64_t> indices;  // in the image, as PyTorch counts
  for (int64_t i = 0; i < 9; ++i) {
    const int64_t tap = position.values()[size_t(i)];
    indices.push_back((i / 3 * 2 - 1 + tap / 2) * 5 + i % 3 * 2 - 1 + tap % 2);
  }
  EXPECT_EQ(indices, (std::vector<int64_t>{0, 1, 4, 10, 11, 14, 20, 21, 23}));
}

// torch.nn.functional.avg_pool2d with ceil_mode (PyTorch 1.13): windows that reach beyond the
// padding are divided by what is inside it.
TEST(AvgPool, ValuesOfPyTorchInCeilMode) {
  const Guarded<double> x({1, 6, 6, 1}, eighths(36, 7, 3, 17)), y({1, 4, 4, 1});
  kernels::Pool2dParams pool{.kernel = 3, .stride = 2, .padding = 1};
  const auto expect = [&](const Values& expected) {
    run(kernels::AvgPool2dForward{.x = x, .y = y, .pool = pool});
    const Values actual = y.values();
    for (size_t i = 0; i < 16; ++i) EXPECT_DOUBLE_EQ(actual[i], expected[i]) << "element " << i;
  };
  expect({-0.09722222222222222, -0.09722222222222222, 0.125, 0.0, -0.20833333333333334,
          0.05555555555555555, 0.1527777777777778, 0.041666666666666664, -0.05555555555555555,
          0.16666666666666666, 0.027777777777777776, -0.020833333333333332, 0.1875,
          0.22916666666666666, 0.041666666666666664, 0.0625});
  pool.count_include_pad = false;
  expect({-0.21875, -0.14583333333333334, 0.1875, 0.0, -0.3125, 0.05555555555555555,
          0.1527777777777778, 0.08333333333333333, -0.08333333333333333, 0.16666666666666666,
          0.027777777777777776, -0.041666666666666664, 0.5625, 0.4583333333333333,
          0.08333333333333333, 0.25});
}

}  // namespace
}  // namespace adret
