// How large the images may be that the kernels make.
#pragma once

#include <adret/core/error.h>
#include <adret/core/size2.h>
#include <fmt/core.h>

#include <cstdint>

namespace adret {

// Throws ShapeError for 2^31 elements an image or more (kernels::AugmentImages). Sides and channels
// are at most 2^20.
inline void check_elements(const char* function, Size2 size, int64_t channels) {
  if (size.area() <= INT32_MAX / channels) return;
  throw ShapeError(fmt::format("[{}] images of {} with {} channels are too large", function,
                               to_string(size), channels));
}

}  // namespace adret
