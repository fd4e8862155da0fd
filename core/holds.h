// Which numbers a dtype holds.
#pragma once

#include <adret/core/dtype.h>

namespace adret {

// Throws ShapeError "[function] value 300 does not fit u8, ..." for a number that elements of
// `dtype` would not be: in integers a fraction, NaN and what is beyond their range, in booleans all
// but 0 and 1, in floats what is finite and would be infinite there.
void check_holds(const char* function, double value, DType dtype);

// Whether integers of `dtype` end before the number; false for NaN, and for floats.
bool is_out_of_range(double value, DType dtype);

}  // namespace adret
