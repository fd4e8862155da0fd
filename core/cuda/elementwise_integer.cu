// Arithmetic of integers that broadcast.
#include <adret/core/cuda/device_math.h>
#include <adret/core/cuda/elementwise_binary.h>

namespace adret::cuda {

using kernels::BinaryOp;

namespace {

template <class Int>
using Unsigned = std::make_unsigned_t<Int>;

// The long ones are called rather than repeated for each element of a vector.

// Exponentiation by squaring, modulo 2^bits; negative exponents truncate the fraction.
template <class Int>
__device__ __noinline__ Int integer_power(Int base, Int exponent) {
  if (std::is_signed_v<Int> && exponent < 0) {
    if (base == 1) return 1;
    if (base == Int(-1)) return Int(exponent % 2 ? -1 : 1);
    return 0;
  }
  Unsigned<Int> result = 1, square = Unsigned<Int>(base);
  for (; exponent; exponent >>= 1, square *= square) {
    if (exponent & 1) result *= square;
  }
  return Int(result);
}

// The lowest value by -1 overflows.
template <class Int>
__device__ bool is_minus_one(Int b) {
  return std::is_signed_v<Int> && b == Int(-1);
}
template <class Int>
__device__ __noinline__ Int integer_fmod(Int a, Int b) {
  return b == 0 || is_minus_one(b) ? Int(0) : Int(a % b);
}
template <class Int>
__device__ bool has_other_sign(Int rest, Int b) {
  return rest != 0 && (rest ^ b) < 0;
}
template <class Int>
__device__ Int integer_remainder(Int a, Int b) {
  const Int rest = integer_fmod(a, b);
  return has_other_sign(rest, b) ? Int(rest + b) : rest;
}
// Rounded down.
template <class Int>
__device__ __noinline__ Int integer_quotient(Int a, Int b) {
  if (b == 0) return 0;
  if (is_minus_one(b)) return Int(0 - Unsigned<Int>(a));
  return Int(a / b - has_other_sign(Int(a % b), b));
}

template <class T>
void run_in(const Context& context, const BinaryLoops& loops) {
  using U = Unsigned<T>;  // wraps
  const auto with = [&](auto f) { loops.zip<T, T>(context, f); };
  switch (loops.call.op) {
    case BinaryOp::add: return with([] __device__(T a, T b) { return T(U(a) + U(b)); });
    case BinaryOp::subtract: return with([] __device__(T a, T b) { return T(U(a) - U(b)); });
    case BinaryOp::multiply: return with([] __device__(T a, T b) { return T(U(a) * U(b)); });
    case BinaryOp::divide: return with([] __device__(T a, T b) { return integer_quotient(a, b); });
    case BinaryOp::maximum: return with([] __device__(T a, T b) { return larger(a, b); });
    case BinaryOp::minimum: return with([] __device__(T a, T b) { return smaller(a, b); });
    case BinaryOp::power: return with([] __device__(T a, T b) { return integer_power(a, b); });
    case BinaryOp::fmod: return with([] __device__(T a, T b) { return integer_fmod(a, b); });
    case BinaryOp::remainder:
      return with([] __device__(T a, T b) { return integer_remainder(a, b); });
    default: throw ShapeError("[binary] atan2 and hypot run in floating dtypes");
  }
}

}  // namespace

void run_integer_arithmetic(const Context& context, const BinaryLoops& loops) {
  switch (loops.call.a.dtype) {
    case DType::i32: return run_in<int32_t>(context, loops);
    case DType::i64: return run_in<int64_t>(context, loops);
    case DType::u8: return run_in<uint8_t>(context, loops);
    default:
      throw ShapeError(std::string("[") + loops.call.name + "] has no arithmetic in " +
                       adret::name(loops.call.a.dtype) + "; convert with to(DType::i32)");
  }
}

}  // namespace adret::cuda
