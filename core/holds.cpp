// The ranges of the dtypes.
#include <adret/core/error.h>
#include <adret/core/failing_function.h>
#include <adret/core/holds.h>
#include <fmt/core.h>

#include <cmath>
#include <cstdint>
#include <limits>
#include <string>

namespace adret {
namespace {

// Of a dtype of integers.
struct Range {
  int64_t low, high;

  // The largest i64 is no f64, so bounds are compared with the next number, which is one.
  bool is_below(double value) const { return value >= double(high / 2 + 1) * 2; }
  bool is_above(double value) const { return value < double(low); }
};

template <class T>
Range range_of_type() {
  return {std::numeric_limits<T>::min(), std::numeric_limits<T>::max()};
}

Range range_of(DType dtype) {
  switch (dtype) {
    case DType::i32: return range_of_type<int32_t>();
    case DType::i64: return range_of_type<int64_t>();
    case DType::u8: return range_of_type<uint8_t>();
    default: return {0, 1};
  }
}

double largest_of(DType dtype) {
  switch (dtype) {
    case DType::f32: return std::numeric_limits<float>::max();
    case DType::bf16: return 0x1.fep127;
    case DType::f16: return 65504;
    default: return std::numeric_limits<double>::max();
  }
}

bool is_held(double value, DType dtype) {
  switch (dtype) {
    case DType::f64: return true;
    case DType::f32: return std::isinf(value) || !std::isinf(float(value));
    case DType::bf16: return std::isinf(value) || !std::isinf(float(bfloat16(float(value))));
    case DType::f16: return std::isinf(value) || !std::isinf(float(float16(float(value))));
    default: break;
  }
  return value == std::trunc(value) && !is_out_of_range(value, dtype);
}

}  // namespace

void check_holds(const char* function, double value, DType dtype) {
  if (is_held(value, dtype)) return;
  const auto [low, high] = range_of(dtype);
  const std::string held = is_floating(dtype) ? fmt::format("numbers up to {}", largest_of(dtype))
                           : dtype == DType::boolean ? "0 and 1"
                                                     : fmt::format("integers {}..{}", low, high);
  throw ShapeError(fmt::format("[{}] value {} does not fit {}, which holds {}",
                               failing_function(function), value, name(dtype), held));
}

bool is_out_of_range(double value, DType dtype) {
  if (is_floating(dtype)) return false;
  const Range range = range_of(dtype);
  return range.is_below(value) || range.is_above(value);
}

}  // namespace adret
