// Fills, copies, casts and arithmetic of one operand.
#include <adret/core/cpu/elementwise.h>
#include <adret/core/cpu/kernels.h>
#include <adret/core/vector_math.h>

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

template <class T>
void run_power(const kernels::Unary& call) {
  const T alpha = T(call.alpha);
  if (alpha == T(2)) return map<T, T>(call.x, call.y, memory_grain, [](T x) { return x * x; });
  if (alpha == T(3)) return map<T, T>(call.x, call.y, memory_grain, [](T x) { return x * x * x; });
  map<T, T>(call.x, call.y, math_grain, [alpha](T x) { return std::pow(x, alpha); });
}

template <class T>
void run_arithmetic(const kernels::Unary& call) {
  const auto with = [&](auto f) { map<T, T>(call.x, call.y, memory_grain, f); };
  const T alpha = T(call.alpha), beta = T(call.beta);
  switch (call.op) {
    case UnaryOp::affine: return with([=](T x) { return multiply_add(alpha, x, beta); });
    case UnaryOp::power: return run_power<T>(call);
    case UnaryOp::reciprocal: return with([=](T x) { return alpha / x; });
    case UnaryOp::divide: return with([=](T x) { return x / alpha; });
    case UnaryOp::abs: return with([](T x) { return std::fabs(x); });
    case UnaryOp::sign:
      return with([](T x) { return x > 0 ? T(1) : (x < 0 ? T(-1) : (x == x ? T(0) : x)); });
    case UnaryOp::clamp:  // keeps NaN
      return with([=](T x) { return x < alpha ? alpha : (x > beta ? beta : x); });
    case UnaryOp::floor: return with([](T x) { return std::floor(x); });
    case UnaryOp::ceil: return with([](T x) { return std::ceil(x); });
    case UnaryOp::round: return with([](T x) { return std::nearbyint(x); });
    case UnaryOp::trunc: return with([](T x) { return std::trunc(x); });
    default: throw Error("[unary] has no " + std::string(to_string(call.op)));
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

// Both halves from their ends, rounded once.
void run(const kernels::Arange& call) {
  const int64_t n = call.y.numel();
  const double first = call.first, step = call.step, last = call.last;
  dispatch_all(call.y.dtype, [&](auto zero) {
    using T = decltype(zero);
    T* y = call.y.as<T>();
    parallel_for(n, memory_grain, [=](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) {
        y[i] = convert<T>(2 * i < n ? std::fma(double(i), step, first)
                                    : std::fma(-double(n - 1 - i), step, last));
      }
    });
  });
}

void run(const kernels::Unary& call) {
  if (is_exponential(call.op)) return run_exponential(call);
  if (is_trigonometric(call.op)) return run_trigonometric(call);
  if (is_activation(call.op)) return run_activation(call);
  dispatch_float(call.x.dtype, call.name, [&](auto zero) { run_arithmetic<decltype(zero)>(call); });
}

}  // namespace adret::cpu
