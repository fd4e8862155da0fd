// A height and a width: kernel sizes, strides, paddings of images.
#pragma once

#include <cstdint>
#include <string>

namespace adret {

struct Size2 {
  int64_t h = 0, w = 0;

  constexpr Size2() = default;
  constexpr Size2(int64_t both) : h(both), w(both) {}  // implicit: {.stride = 2}
  constexpr Size2(int64_t height, int64_t width) : h(height), w(width) {}
  constexpr int64_t area() const { return h * w; }
  bool operator==(const Size2&) const = default;
};

inline std::string to_string(Size2 size) {
  return std::to_string(size.h) + "x" + std::to_string(size.w);
}

}  // namespace adret
