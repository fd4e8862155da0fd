// Orthonormal vectors out of any, on the CPU.
#pragma once

#include <cstdint>

namespace adret {

// Makes `count` independent vectors of `length` >= count, one behind the other, orthonormal in
// their order (Gram and Schmidt, modified, twice): to f64's rounding, unless they are dependent to
// it.
void orthonormalize(double* vectors, int64_t count, int64_t length);

}  // namespace adret
