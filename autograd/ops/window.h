// Sizes of windows in two or three directions, for checks that are written once for both.
#pragma once

#include <adret/autograd/ops/check.h>
#include <adret/core/size3.h>
#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <initializer_list>
#include <utility>

namespace adret {

inline std::array<int64_t, 2> along(Size2 size) { return {size.h, size.w}; }
inline std::array<int64_t, 3> along(Size3 size) { return {size.d, size.h, size.w}; }

inline Size2 from_directions(std::array<int64_t, 2> sizes) { return {sizes[0], sizes[1]}; }
inline Size3 from_directions(std::array<int64_t, 3> sizes) {
  return {sizes[0], sizes[1], sizes[2]};
}

// f(one direction of each of the sizes), for each direction.
template <class F, class Size, class... Sizes>
Size each_direction(F f, const Size& first, const Sizes&... others) {
  auto result = along(first);
  for (size_t i = 0; i < result.size(); ++i) result[i] = f(result[i], along(others)[i]...);
  return from_directions(result);
}

template <class Size>
bool at_least(int64_t least, const Size& size) {
  return std::ranges::all_of(along(size), [=](int64_t one) { return one >= least; });
}

// What kernels, strides, paddings and dilations may be, so that what they cover is counted in 64
// bits.
inline constexpr int64_t largest_step = (int64_t(1) << 31) - 1;

template <class Size>
bool at_most(int64_t most, const Size& size) {
  return std::ranges::all_of(along(size), [=](int64_t one) { return one <= most; });
}

// Throws ShapeError for one above largest_step: check_steps("conv2d", {{"stride", stride}, ...}).
template <class Size>
void check_steps(const char* function, std::initializer_list<std::pair<const char*, Size>> sizes) {
  for (const auto& [name, size] : sizes) {
    if (at_most(largest_step, size)) continue;
    check::refuse(function,
                  fmt::format("{} {}, wanted at most {}", name, to_string(size), largest_step));
  }
}

// Those of (N, H, W, C) or (O, KH, KW, I), and with D.
template <class Size>
Size inner_sizes(const Shape& shape) {
  auto result = along(Size());
  for (size_t i = 0; i < result.size(); ++i) result[i] = shape[int(i) + 1];
  return from_directions(result);
}

// (first, sizes, last).
template <class Size>
Shape around(int64_t first, const Size& sizes, int64_t last) {
  Shape shape{first, last};
  for (size_t i = 0; i < along(sizes).size(); ++i)
    shape = shape.inserted(int(i) + 1, along(sizes)[i]);
  return shape;
}

// x (N, ..., C) is of floats and has places, and so will have what it becomes.
template <class Size>
void check_resizable(const char* function, const Tensor& x, const Size& size) {
  check::floating(function, {"x", x});
  const Size input = inner_sizes<Size>(x.shape());
  check_steps<Size>(function, {{"size", size}});
  if (at_least(1, input) && at_least(1, size)) return;
  check::refuse(function, fmt::format("images of {} cannot become {}; wanted at least {}",
                                      to_string(input), to_string(size), to_string(Size(1))));
}

}  // namespace adret
