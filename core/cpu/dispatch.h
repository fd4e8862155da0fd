// From a run-time dtype to a template instance.
#pragma once

#include <adret/core/dtype.h>
#include <adret/core/error.h>

#include <cstdint>
#include <string>
#include <type_traits>

namespace adret::cpu {

[[noreturn]] inline void throw_not_floating(DType dtype, const char* kernel) {
  throw ShapeError(std::string("[") + kernel + "] runs in floating dtypes, not in " +
                   adret::name(dtype) + "; convert with to(DType::f32)");
}

// Calls f with a value of the dtype's C++ type (f32 or f64; calls in 16 bits come as such in f32,
// see widened.h): dispatch_float(x.dtype, name, [&](auto zero) { using T = decltype(zero); ... }).
// Throws ShapeError naming the kernel for other dtypes.
template <class F>
void dispatch_float(DType dtype, const char* kernel, F&& f) {
  switch (dtype) {
    case DType::f32: return f(float{});
    case DType::f64: return f(double{});
    default: throw_not_floating(dtype, kernel);
  }
}

// The same with the 16-bit floats, for kernels that widen their elements themselves.
template <class F>
void dispatch_all_floats(DType dtype, const char* kernel, F&& f) {
  switch (dtype) {
    case DType::f32: return f(float{});
    case DType::f64: return f(double{});
    case DType::bf16: return f(bfloat16{});
    case DType::f16: return f(float16{});
    default: throw_not_floating(dtype, kernel);
  }
}

// What elements of T are computed in.
template <class T>
using Computed = std::conditional_t<sizeof(T) == 2, float, T>;

// The same for every dtype.
template <class F>
void dispatch_all(DType dtype, F&& f) {
  switch (dtype) {
    case DType::f32: return f(float{});
    case DType::f64: return f(double{});
    case DType::bf16: return f(bfloat16{});
    case DType::f16: return f(float16{});
    case DType::i32: return f(int32_t{});
    case DType::i64: return f(int64_t{});
    case DType::u8: return f(uint8_t{});
    case DType::boolean: return f(bool{});
  }
}

// The same for kernels that only move elements: f gets an unsigned integer of the dtype's size.
template <class F>
void dispatch_size(DType dtype, F&& f) {
  switch (size_of(dtype)) {
    case 1: return f(uint8_t{});
    case 2: return f(uint16_t{});
    case 4: return f(uint32_t{});
    default: return f(uint64_t{});
  }
}

}  // namespace adret::cpu
