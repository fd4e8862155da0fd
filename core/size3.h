// A depth, a height and a width: kernel sizes, strides, paddings of volumes.
#pragma once

#include <adret/core/size2.h>

namespace adret {

struct Size3 {
  int64_t d = 0, h = 0, w = 0;

  constexpr Size3() = default;
  constexpr Size3(int64_t all) : d(all), h(all), w(all) {}  // implicit: {.stride = 2}
  constexpr Size3(int64_t depth, int64_t height, int64_t width) : d(depth), h(height), w(width) {}
  constexpr Size2 plane() const { return {h, w}; }
  bool operator==(const Size3&) const = default;
};

inline std::string to_string(Size3 size) {
  return std::to_string(size.d) + "x" + to_string(size.plane());
}

}  // namespace adret
