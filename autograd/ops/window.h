// Sizes of windows in two or three directions, for checks that are written once for both.
#pragma once

#include <adret/autograd/ops/check.h>
#include <adret/core/size3.h>
#include <fmt/core.h>

#include <algorithm>
#include <array>

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
  if (at_least(1, input) && at_least(1, size)) return;
  check::refuse(function, fmt::format("images of {} cannot become {}; wanted at least {}",
                                      to_string(input), to_string(size), to_string(Size(1))));
}

}  // namespace adret
