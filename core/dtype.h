// Element types of tensors, and the 16-bit floats as C++ types.
#pragma once

#include <bit>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <iosfwd>
#include <string>

namespace adret {

enum class DType : uint8_t { f32, bf16, f16, f64, i32, i64, u8, boolean };

// bfloat16: the upper half of an f32. Conversion rounds to nearest, ties to even; NaN stays NaN.
struct bfloat16 {
  uint16_t bits = 0;
  bfloat16() = default;
  explicit bfloat16(float value);
  operator float() const { return std::bit_cast<float>(uint32_t(bits) << 16); }
};

// IEEE 754 binary16, rounded to nearest, ties to even; overflow gives infinity.
struct float16 {
  uint16_t bits = 0;
  float16() = default;
  explicit float16(float value);
  operator float() const;
};

// Size of one element in bytes.
constexpr size_t size_of(DType dtype) {
  switch (dtype) {
    case DType::f64:
    case DType::i64: return 8;
    case DType::f32:
    case DType::i32: return 4;
    case DType::bf16:
    case DType::f16: return 2;
    case DType::u8:
    case DType::boolean: return 1;
  }
  return 0;
}

constexpr bool is_floating(DType dtype) {
  return dtype == DType::f32 || dtype == DType::f64 || dtype == DType::bf16 || dtype == DType::f16;
}

const char* name(DType dtype);
inline std::string to_string(DType dtype) { return name(dtype); }
std::ostream& operator<<(std::ostream& out, DType dtype);

// The dtype that stores a C++ type: dtype_of<float> is f32.
template <class T>
inline constexpr DType dtype_of = [] {
  if constexpr (std::same_as<T, float>)
    return DType::f32;
  else if constexpr (std::same_as<T, double>)
    return DType::f64;
  else if constexpr (std::same_as<T, bfloat16>)
    return DType::bf16;
  else if constexpr (std::same_as<T, float16>)
    return DType::f16;
  else if constexpr (std::same_as<T, int32_t>)
    return DType::i32;
  else if constexpr (std::same_as<T, int64_t>)
    return DType::i64;
  else if constexpr (std::same_as<T, uint8_t>)
    return DType::u8;
  else if constexpr (std::same_as<T, bool>)
    return DType::boolean;
  else
    static_assert(!sizeof(T), "no tensor dtype stores this type");
}();

}  // namespace adret
