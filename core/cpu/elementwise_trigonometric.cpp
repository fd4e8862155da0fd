// Functions of angles, their inverses and the hyperbolic ones.
#include <adret/core/cpu/elementwise.h>
#include <adret/core/wide_math.h>

#include <algorithm>
#include <type_traits>

namespace adret::cpu {

using kernels::UnaryOp;

namespace {

constexpr int64_t block = 256;  // elements that are looked at together

bool all_near(const float* x, int64_t n) {
  bool near = true;
  for (int64_t i = 0; i < n; ++i) near &= !(std::fabs(x[i]) > largest_angle);
  return near;
}

// y = f(x), but far(x) beyond largest_angle: blocks without such an element are loops that
// vectorise. An element's result does not depend on the others.
template <class F, class Far>
void map_angles(const kernels::Unary& call, F f, Far far) {
  const float* in = call.x.as<float>();
  float* out = call.y.as<float>();
  parallel_for(call.y.numel(), math_grain, [=](int64_t begin, int64_t end) {
    for (int64_t first = begin; first < end; first += block) {
      const int64_t n = std::min(block, end - first);
      const float* x = in + first;
      float* y = out + first;
      if (all_near(x, n)) {
#pragma GCC ivdep
        for (int64_t i = 0; i < n; ++i) y[i] = f(x[i]);
      } else {
        for (int64_t i = 0; i < n; ++i)
          y[i] = std::fabs(x[i]) > largest_angle ? far(x[i]) : f(x[i]);
      }
    }
  });
}

void run_angles(const kernels::Unary& call) {
  switch (call.op) {
    case UnaryOp::sin:
      return map_angles(
          call, [](float x) { return near_sin(x); }, [](float x) { return std::sin(x); });
    case UnaryOp::cos:
      return map_angles(
          call, [](float x) { return near_cos(x); }, [](float x) { return std::cos(x); });
    default:
      return map_angles(
          call, [](float x) { return near_tan(x); }, [](float x) { return std::tan(x); });
  }
}

template <class T>
void run_in(const kernels::Unary& call) {
  constexpr bool is_wide = std::is_same_v<T, double>;
  const auto with = [&](auto f) { map<T, T>(call.x, call.y, math_grain, f); };
  switch (call.op) {
    case UnaryOp::sin:
      if constexpr (is_wide) return with([](T x) { return std::sin(x); });
      return run_angles(call);
    case UnaryOp::cos:
      if constexpr (is_wide) return with([](T x) { return std::cos(x); });
      return run_angles(call);
    case UnaryOp::tan:
      if constexpr (is_wide) return with([](T x) { return std::tan(x); });
      return run_angles(call);
    case UnaryOp::asin: return with([](T x) { return cpu::asin(x); });
    case UnaryOp::acos: return with([](T x) { return cpu::acos(x); });
    case UnaryOp::atan: return with([](T x) { return cpu::atan(x); });
    case UnaryOp::sinh: return with([](T x) { return cpu::sinh(x); });
    case UnaryOp::cosh: return with([](T x) { return cpu::cosh(x); });
    default: return;  // other families
  }
}

}  // namespace

void run_trigonometric(const kernels::Unary& call) {
  dispatch_float(call.x.dtype, call.name, [&](auto zero) { run_in<decltype(zero)>(call); });
}

}  // namespace adret::cpu
