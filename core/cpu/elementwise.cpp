// Fills, copies, casts and functions of one operand.
#include <adret/core/cpu/dispatch.h>
#include <adret/core/cpu/grain.h>
#include <adret/core/cpu/kernels.h>
#include <adret/core/cpu/vector_math.h>
#include <adret/core/thread_pool.h>

#include <cstring>
#include <limits>
#include <type_traits>

namespace adret::cpu {

using kernels::UnaryOp;

namespace {

// Towards zero; beyond the range the nearest integer, and 0 for NaN, as CUDA converts.
template <class Int, class Float>
Int truncate(Float value) {
  constexpr Int lowest = std::numeric_limits<Int>::min(), largest = std::numeric_limits<Int>::max();
  constexpr Float limit = Float(largest / 2 + 1) * 2;  // largest + 1, exact
  if (value >= limit) return largest;
  if (value > Float(lowest)) return Int(value);
  return value <= Float(lowest) ? lowest : Int(0);
}

template <class To, class From>
To convert(From value) {
  if constexpr (std::is_same_v<From, bfloat16> || std::is_same_v<From, float16>) {
    return convert<To>(float(value));
  } else if constexpr (std::is_same_v<To, bool>) {
    return value != From(0);
  } else if constexpr (std::is_same_v<To, bfloat16> || std::is_same_v<To, float16>) {
    return To(float(value));
  } else if constexpr (std::is_floating_point_v<From> && std::is_integral_v<To>) {
    return truncate<To>(value);
  } else {
    return To(value);
  }
}

// y = f(x) at every place; y may be x.
template <class To, class From, class F>
void map(const TensorView& x, const TensorView& y, int64_t grain, F f) {
  const From* in = x.as<From>();
  To* out = y.as<To>();
  parallel_for(y.numel(), grain, [=](int64_t begin, int64_t end) {
#pragma GCC ivdep
    for (int64_t i = begin; i < end; ++i) out[i] = f(in[i]);
  });
}

// dx = f(saved, dy) at every place; dx may be either.
template <class T, class F>
void map_backward(const kernels::UnaryBackward& call, int64_t grain, F f) {
  const T *saved = call.saved.as<T>(), *dy = call.dy.as<T>();
  T* dx = call.dx.as<T>();
  parallel_for(call.dx.numel(), grain, [=](int64_t begin, int64_t end) {
#pragma GCC ivdep
    for (int64_t i = begin; i < end; ++i) dx[i] = f(saved[i], dy[i]);
  });
}

template <class T>
void run_power(const kernels::Unary& call) {
  const T alpha = T(call.alpha);
  if (alpha == T(2)) return map<T, T>(call.x, call.y, memory_grain, [](T x) { return x * x; });
  if (alpha == T(3)) return map<T, T>(call.x, call.y, memory_grain, [](T x) { return x * x * x; });
  map<T, T>(call.x, call.y, math_grain, [alpha](T x) { return std::pow(x, alpha); });
}

template <class T>
void run_unary(const kernels::Unary& call) {
  const auto light = [&](auto f) { map<T, T>(call.x, call.y, memory_grain, f); };
  const auto heavy = [&](auto f) { map<T, T>(call.x, call.y, math_grain, f); };
  const T alpha = T(call.alpha), beta = T(call.beta);
  switch (call.op) {
    case UnaryOp::affine: return light([=](T x) { return multiply_add(alpha, x, beta); });
    case UnaryOp::power: return run_power<T>(call);
    case UnaryOp::reciprocal: return light([=](T x) { return alpha / x; });
    case UnaryOp::exp: return heavy([](T x) { return cpu::exp(x); });
    case UnaryOp::log: return heavy([](T x) { return cpu::log(x); });
    case UnaryOp::sqrt: return light([](T x) { return std::sqrt(x); });
    case UnaryOp::abs: return light([](T x) { return std::fabs(x); });
    case UnaryOp::sign:
      return light([](T x) { return x > 0 ? T(1) : (x < 0 ? T(-1) : (x == x ? T(0) : x)); });
    case UnaryOp::relu: return light([](T x) { return x <= 0 ? T(0) : x; });  // keeps NaN
    case UnaryOp::relu6:
      return light([](T x) { return x <= 0 ? T(0) : (x >= 6 ? T(6) : x); });  // keeps NaN
    case UnaryOp::sigmoid: return heavy([](T x) { return cpu::sigmoid(x); });
    case UnaryOp::tanh: return heavy([](T x) { return cpu::tanh(x); });
    case UnaryOp::gelu: return heavy([](T x) { return x * normal_cdf(x); });
  }
}

template <class T>
void run_unary_backward(const kernels::UnaryBackward& call) {
  switch (call.op) {
    case UnaryOp::relu:
      return map_backward<T>(call, memory_grain, [](T y, T dy) { return y <= 0 ? T(0) : dy; });
    case UnaryOp::relu6:
      return map_backward<T>(call, memory_grain,
                             [](T y, T dy) { return y <= 0 || y >= 6 ? T(0) : dy; });
    case UnaryOp::sigmoid:
      return map_backward<T>(call, memory_grain, [](T y, T dy) { return dy * (y * (1 - y)); });
    case UnaryOp::tanh:
      return map_backward<T>(call, memory_grain, [](T y, T dy) { return dy * (1 - y * y); });
    case UnaryOp::gelu:
      return map_backward<T>(
          call, math_grain, [](T x, T dy) { return dy * (normal_cdf(x) + x * normal_density(x)); });
    default: throw Error("[unary_backward] has no " + std::string(to_string(call.op)));
  }
}

}  // namespace

void run(const kernels::Fill& call) {
  dispatch_all(call.y.dtype, [&](auto zero) {
    using T = decltype(zero);
    const T value = convert<T>(call.value);
    T* y = call.y.as<T>();
    parallel_for(call.y.numel(), memory_grain,
                 [=](int64_t begin, int64_t end) { std::fill(y + begin, y + end, value); });
  });
}

void run(const kernels::Copy& call) {
  const auto* x = call.x.as<std::byte>();
  auto* y = call.y.as<std::byte>();
  parallel_for(int64_t(call.y.bytes()), memory_grain * 4, [=](int64_t begin, int64_t end) {
    std::memcpy(y + begin, x + begin, size_t(end - begin));
  });
}

void run(const kernels::Cast& call) {
  dispatch_all(call.x.dtype, [&](auto from) {
    using From = decltype(from);
    dispatch_all(call.y.dtype, [&](auto to) {
      using To = decltype(to);
      map<To, From>(call.x, call.y, memory_grain, [](From x) { return convert<To>(x); });
    });
  });
}

void run(const kernels::Unary& call) {
  dispatch_float(call.x.dtype, call.name, [&](auto zero) { run_unary<decltype(zero)>(call); });
}

void run(const kernels::UnaryBackward& call) {
  dispatch_float(call.dx.dtype, call.name,
                 [&](auto zero) { run_unary_backward<decltype(zero)>(call); });
}

}  // namespace adret::cpu
