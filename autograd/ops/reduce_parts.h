// What the functions that reduce dimensions share.
#pragma once

#include <adret/core/shape.h>

#include <cstdint>
#include <vector>

namespace adret {

// What a reduction does to a shape.
struct Reduced {
  uint32_t dims = 0;  // bit i: dimension i is reduced
  Shape kept;         // reduced dimensions have size 1
  Shape squeezed;     // reduced dimensions are gone
  int64_t count = 1;  // elements behind each result

  // Over the named dimensions, all if none is; throws ShapeError for one that is named twice.
  static Reduced of(const char* function, const Shape& shape, const std::vector<int>& dims);
};

}  // namespace adret
