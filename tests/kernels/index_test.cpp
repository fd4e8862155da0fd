// Permutations and runs, element by element.
#include <adret/core/kernels/kernel.h>
#include <adret/core/tensor.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "tests/support/close.h"

namespace adret {
namespace {

using namespace test;

// 0, 1, 2, ... as T.
template <class T>
Tensor counting(const Shape& shape) {
  std::vector<T> values;
  for (int64_t i = 0; i < shape.numel(); ++i) values.push_back(T(float(i % 251)));
  return Tensor::from(values, shape);
}

template <class T>
void expect_permuted(const Shape& shape, const std::vector<int>& order) {
  const Tensor x = counting<T>(shape);
  std::vector<int64_t> sizes;
  for (int d : order) sizes.push_back(shape[d]);
  Tensor y = Tensor::empty(Shape(sizes), {.dtype = dtype_of<T>});
  kernels::Permute call{.x = x, .y = y};
  std::ranges::copy(order, call.order.begin());
  run(call);
  const std::vector<T> from = x.to_vector<T>(), to = y.to_vector<T>();
  for (int64_t i = 0; i < shape.numel(); ++i) {
    int64_t rest = i, place = 0;
    std::array<int64_t, Shape::max_rank> strides{};
    for (int64_t d = shape.rank() - 1, step = 1; d >= 0; --d) {
      strides[size_t(d)] = step;
      step *= shape[int(d)];
    }
    for (size_t d = order.size(); d-- > 0;) {
      place += rest % sizes[d] * strides[size_t(order[d])];
      rest /= sizes[d];
    }
    ASSERT_EQ(float(to[size_t(i)]), float(from[size_t(place)]))
        << to_string(shape) << " element " << i;
  }
}

TEST(Permute, MovesEveryDimensionOfAnyDtype) {
  std::vector<int> order{0, 1, 2, 3};
  do {
    expect_permuted<float>({2, 3, 4, 5}, order);
    expect_permuted<uint8_t>({3, 1, 2, 7}, order);
  } while (std::ranges::next_permutation(order).found);
  expect_permuted<double>({70, 90}, {1, 0});
  expect_permuted<bfloat16>({33, 65, 40}, {2, 0, 1});
  expect_permuted<float>({64, 25, 16}, {0, 2, 1});
  expect_permuted<float>({64, 9, 16, 2, 2}, {0, 3, 1, 4, 2});  // pixels spread over squares
  expect_permuted<bfloat16>({64, 2, 9, 2, 16}, {0, 2, 4, 1, 3});
  expect_permuted<int64_t>({1, 2, 3, 2, 3, 2}, {5, 4, 3, 2, 1, 0});
  expect_permuted<float>({}, {});
  expect_permuted<float>({0, 3}, {1, 0});
  expect_permuted<float>({300, 200}, {1, 0});
  expect_permuted<float>({5, 49, 33}, {0, 2, 1});          // images flattened
  expect_permuted<uint8_t>({3, 20, 2, 40}, {2, 3, 0, 1});  // matrices between others
  expect_permuted<float>({6, 7, 8}, {1, 0, 2});            // rows of 32 bytes
  expect_permuted<bfloat16>({5, 3, 6}, {1, 0, 2});         // rows of 12 bytes
}

// Channels to squares of pixels and back, in pieces of 16 bytes where the channels allow it.
// Whole squares of vectors, squares that overlap, and sides that are too short for one.
template <class T>
void expect_transposed() {
  for (const Shape& shape : {Shape{16, 80}, {80, 16}, {31, 47}, {65, 97}, {7, 300}, {300, 7}}) {
    expect_permuted<T>(shape, {1, 0});
    expect_permuted<T>({2, shape[0], shape[1]}, {0, 2, 1});
  }
}

TEST(Permute, TransposesSquaresOfAnySize) {
  expect_transposed<uint8_t>();
  expect_transposed<bfloat16>();
  expect_transposed<float>();
  expect_transposed<double>();
}

TEST(Permute, SpreadsBlocksOverLinesAndBack) {
  for (const int64_t factor : {2, 3, 4}) {
    for (const int64_t channels : {3, 4, 16}) {
      const std::vector<int> to{0, 1, 4, 2, 5, 3}, back{0, 1, 3, 5, 2, 4};
      expect_permuted<float>({2, 3, 5, channels, factor, factor}, to);
      expect_permuted<bfloat16>({2, 3, 5, channels, factor, factor}, to);
      expect_permuted<float>({2, 3, factor, 5, factor, channels}, back);
      expect_permuted<float16>({2, 3, factor, 5, factor, channels}, back);
    }
  }
  expect_permuted<float>({3, 40, 3}, {0, 2, 1});  // images to planes
  expect_permuted<float>({3, 2, 40}, {0, 2, 1});
  expect_permuted<bfloat16>({8, 64}, {1, 0});
}

TEST(CopyRuns, CopiesSlicesAndPlacesThem) {
  // Columns 1 and 2 of (3, 4) into columns 0 and 1 of (3, 3).
  const Tensor x = Tensor::from<float>({0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11}, {3, 4});
  Tensor y = Tensor::full({3, 3}, -1);
  run(kernels::CopyRuns{.x = x,
                        .y = y,
                        .count = 3,
                        .length = 2,
                        .x_offset = 1,
                        .x_stride = 4,
                        .y_offset = 0,
                        .y_stride = 3});
  EXPECT_EQ(y.to_vector<float>(), (std::vector<float>{1, 2, -1, 5, 6, -1, 9, 10, -1}));
  run(kernels::CopyRuns{.x = x, .y = y, .count = 0, .length = 2});
  run(kernels::CopyRuns{.x = x, .y = y, .count = 3, .length = 0});
  EXPECT_EQ(y.to_vector<float>(), (std::vector<float>{1, 2, -1, 5, 6, -1, 9, 10, -1}));
}

TEST(CopyRuns, CopiesManyRunsOfBytes) {
  const Tensor x = counting<uint8_t>({5000, 7});
  Tensor y = Tensor::zeros({5000, 10}, {.dtype = DType::u8});
  run(kernels::CopyRuns{
      .x = x, .y = y, .count = 5000, .length = 7, .x_stride = 7, .y_offset = 3, .y_stride = 10});
  const auto from = x.to_vector<uint8_t>(), to = y.to_vector<uint8_t>();
  for (size_t i = 0; i < to.size(); ++i) {
    ASSERT_EQ(to[i], i % 10 < 3 ? 0 : from[i / 10 * 7 + i % 10 - 3]) << i;
  }
}

TEST(CopyRuns, CopiesRunsOfAnyLengthAndAlignment) {
  for (int64_t length : {1, 2, 4, 6, 8, 16, 48, 100}) {
    for (int64_t gap : {0, 1, 4, 16}) {
      const int64_t count = 7, stride = length + gap;
      const Tensor x = counting<uint8_t>({count * stride});
      Tensor y = Tensor::zeros({count * length + 16}, {.dtype = DType::u8});
      run(kernels::CopyRuns{.x = x,
                            .y = y,
                            .count = count,
                            .length = length,
                            .x_offset = gap,
                            .x_stride = stride,
                            .y_offset = 16 - gap,
                            .y_stride = length});
      const auto from = x.to_vector<uint8_t>(), to = y.to_vector<uint8_t>();
      for (int64_t i = 0; i < int64_t(to.size()); ++i) {
        const int64_t at = i - (16 - gap);
        const bool inside = at >= 0 && at < count * length;
        ASSERT_EQ(to[size_t(i)],
                  inside ? from[size_t(at / length * stride + gap + at % length)] : 0)
            << length << " " << gap << " element " << i;
      }
    }
  }
}

}  // namespace
}  // namespace adret
