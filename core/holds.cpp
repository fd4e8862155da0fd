// The ranges of the dtypes.
#include <adret/core/error.h>
#include <adret/core/failing_function.h>
#include <adret/core/holds.h>
#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <string>

namespace adret {
namespace {

struct Range {
  double low, high;
};

template <class T>
Range range_of_type() {
  return {double(std::numeric_limits<T>::lowest()), double(std::numeric_limits<T>::max())};
}

// The largest i64 is no f64; the next one, 2^63, stands for it, as in conversions.
Range range_of(DType dtype) {
  switch (dtype) {
    case DType::f32: return range_of_type<float>();
    case DType::f64: return range_of_type<double>();
    case DType::bf16: return {-0x1.fep127, 0x1.fep127};
    case DType::f16: return {-65504, 65504};
    case DType::i32: return range_of_type<int32_t>();
    case DType::i64: return range_of_type<int64_t>();
    case DType::u8: return range_of_type<uint8_t>();
    case DType::boolean: return {0, 1};
  }
  return {};
}

bool is_held(double value, DType dtype) {
  switch (dtype) {
    case DType::f64: return true;
    case DType::f32: return std::isinf(value) || !std::isinf(float(value));
    case DType::bf16: return std::isinf(value) || !std::isinf(float(bfloat16(float(value))));
    case DType::f16: return std::isinf(value) || !std::isinf(float(float16(float(value))));
    default: break;
  }
  const auto [low, high] = range_of(dtype);
  return value >= low && value <= high && value == std::trunc(value);
}

}  // namespace

void check_holds(const char* function, double value, DType dtype) {
  if (is_held(value, dtype)) return;
  const auto [low, high] = range_of(dtype);
  const std::string held = is_floating(dtype)        ? fmt::format("numbers up to {}", high)
                           : dtype == DType::boolean ? "0 and 1"
                                                     : fmt::format("integers {}..{}", low, high);
  throw ShapeError(fmt::format("[{}] value {} does not fit {}, which holds {}",
                               failing_function(function), value, name(dtype), held));
}

double within_range(double value, DType dtype) {
  if (is_floating(dtype) || std::isnan(value)) return value;
  const auto [low, high] = range_of(dtype);
  return std::clamp(value, low, high);
}

}  // namespace adret
