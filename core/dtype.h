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

// Conversions of the 16-bit floats round to nearest, ties to even; NaN stays NaN. They are without
// branches, so that loops over them vectorise.

// The upper half of an f32.
struct bfloat16 {
  uint16_t bits = 0;
  bfloat16() = default;
  explicit bfloat16(float value) {
    const uint32_t word = std::bit_cast<uint32_t>(value);
    const uint32_t rounded = (word + 0x7fff + ((word >> 16) & 1)) >> 16;
    const uint32_t quiet = (word >> 16) | 0x40;  // of a NaN, which rounding could make infinite
    bits = uint16_t((word & 0x7fffffff) > 0x7f800000 ? quiet : rounded);
  }
  operator float() const { return std::bit_cast<float>(uint32_t(bits) << 16); }
};

// IEEE 754 binary16; overflow gives infinity.
struct float16 {
  uint16_t bits = 0;
  float16() = default;
  explicit float16(float value) {
    const uint32_t word = std::bit_cast<uint32_t>(value), magnitude = word & 0x7fffffff;
    uint32_t half = (magnitude + 0xfff + ((magnitude >> 13) & 1) - (112u << 23)) >> 13;
    // Below 2^-14: beside 0.5 a unit in the last place is 2^-24, as in binary16.
    const float beside = std::bit_cast<float>(magnitude) + 0.5f;
    half = magnitude < 113u << 23 ? std::bit_cast<uint32_t>(beside) - (126u << 23) : half;
    half = magnitude >= 0x477ff000 ? 0x7c00 : half;  // 65520, halfway beyond the largest
    half = magnitude > 0x7f800000 ? 0x7e00 : half;
    bits = uint16_t((word >> 16 & 0x8000) | half);
  }
  operator float() const {
    const uint32_t exponent = bits & 0x7c00, magnitude = bits & 0x7fff;
    const uint32_t subnormal = std::bit_cast<uint32_t>(float(int32_t(magnitude)) * 0x1p-24f);
    const uint32_t offset = exponent == 0x7c00 ? 224u << 23 : 112u << 23;
    const uint32_t word = exponent == 0 ? subnormal : (magnitude << 13) + offset;
    return std::bit_cast<float>(uint32_t(bits & 0x8000) << 16 | word);
  }
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
