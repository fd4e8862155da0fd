// Names of the dtypes and the rounding conversions of the 16-bit floats.
#include <adret/core/dtype.h>

#include <cmath>
#include <ostream>

namespace adret {

bfloat16::bfloat16(float value) {
  const uint32_t word = std::bit_cast<uint32_t>(value);
  if (std::isnan(value)) {
    bits = uint16_t((word >> 16) | 0x40);  // keep it quiet: rounding could carry it to infinity
  } else {
    bits = uint16_t((word + 0x7fff + ((word >> 16) & 1)) >> 16);
  }
}

float16::float16(float value) {
  const uint32_t word = std::bit_cast<uint32_t>(value);
  const uint16_t sign = uint16_t((word >> 16) & 0x8000);
  const float magnitude = std::fabs(value);
  if (std::isnan(value)) {
    bits = uint16_t(sign | 0x7e00);
  } else if (magnitude >= 65520.0f) {  // halfway between the largest finite value and the next step
    bits = uint16_t(sign | 0x7c00);
  } else if (magnitude < 0x1p-14f) {  // subnormal: count units of 2^-24
    bits = uint16_t(sign | uint16_t(std::nearbyint(magnitude * 0x1p24f)));
  } else {
    const uint32_t m = std::bit_cast<uint32_t>(magnitude);
    bits = uint16_t(sign | ((m + 0xfff + ((m >> 13) & 1) - (112u << 23)) >> 13));
  }
}

float16::operator float() const {
  const uint32_t sign = uint32_t(bits & 0x8000) << 16;
  const uint32_t exponent = (bits >> 10) & 0x1f, fraction = bits & 0x3ff;
  if (exponent == 0x1f) return std::bit_cast<float>(sign | 0x7f800000u | (fraction << 13));
  if (exponent == 0) {
    const float value = float(fraction) * 0x1p-24f;
    return sign ? -value : value;
  }
  return std::bit_cast<float>(sign | ((exponent + 112) << 23) | (fraction << 13));
}

const char* name(DType dtype) {
  switch (dtype) {
    case DType::f32: return "f32";
    case DType::bf16: return "bf16";
    case DType::f16: return "f16";
    case DType::f64: return "f64";
    case DType::i32: return "i32";
    case DType::i64: return "i64";
    case DType::u8: return "u8";
    case DType::boolean: return "boolean";
  }
  return "?";
}

std::ostream& operator<<(std::ostream& out, DType dtype) { return out << name(dtype); }

}  // namespace adret
