// Activation functions and their derivatives.
#include <adret/core/cpu/elementwise.h>
#include <adret/core/cpu/kernels.h>
#include <adret/core/vector_math.h>
#include <adret/core/wide_math.h>

#include <algorithm>
#include <bit>
#include <cstdint>
#include <numbers>

namespace adret::cpu {

using kernels::UnaryOp;

namespace {

// Note [Limits of activations]
// At the infinities, and where powers of x overflow, products as x sigmoid(x) would be infinity
// times 0. So a factor that grows with x is moved to where the other has become 0 or 1 in T. For
// the vectorised f32 that is one operation: as unsigned numbers the bits of floats below 0 are in
// the order of their magnitudes and above all others, as signed ones below these. NaN may be moved,
// too, as the other factor keeps it.

// exp(-far) is 0 in T, and so is a gelu_tanh below -gelu_far.
template <class T>
inline constexpr T far = sizeof(T) == 4 ? T(110) : T(750);
template <class T>
inline constexpr T gelu_far = sizeof(T) == 4 ? T(11) : T(22);

// The limit is below 0.
inline float at_least(float x, float limit) {
  return std::bit_cast<float>(std::min(std::bit_cast<uint32_t>(x), std::bit_cast<uint32_t>(limit)));
}
inline double at_least(double x, double limit) { return x < limit ? limit : x; }
// The limit is above 0.
inline float at_most(float x, float limit) {
  return std::bit_cast<float>(std::min(std::bit_cast<int32_t>(x), std::bit_cast<int32_t>(limit)));
}
inline double at_most(double x, double limit) { return x > limit ? limit : x; }
template <class T>
T within(T x, T limit) {
  return at_most(at_least(x, -limit), limit);
}

template <class T>
T silu(T x) {
  return at_least(x, -far<T>) * cpu::sigmoid(x);
}
template <class T>
T silu_slope(T x) {
  const T s = cpu::sigmoid(x);
  return multiply_add(s * (1 - s), within(x, far<T>), s);
}

// The approximation of gelu is x sigmoid(2u), with 2u = x (linear + cubic x^2).
template <class T>
inline constexpr T gelu_linear = T(2 * std::numbers::sqrt2 * std::numbers::inv_sqrtpi);
template <class T>
inline constexpr T gelu_cubic = gelu_linear<T>* T(0.044715);
template <class T>
T gelu_tanh(T x) {
  const T s = cpu::sigmoid(x * multiply_add(gelu_cubic<T>, x * x, gelu_linear<T>));
  return at_least(x, -gelu_far<T>) * s;
}
template <class T>
T gelu_tanh_slope(T x) {
  const T square = x * x, s = cpu::sigmoid(x * multiply_add(gelu_cubic<T>, square, gelu_linear<T>));
  const T inner = x * multiply_add(3 * gelu_cubic<T>, square, gelu_linear<T>);
  return multiply_add(s * (1 - s), within(inner, T(4000)), s);  // s is 0 or 1 from 3000 on
}

// exp(x) for x from -120 to 40 in f32.
inline float exp_near(float x) { return exp_within(split_exponent(x)); }
inline double exp_near(double x) { return std::exp(x); }

// tanh of softplus is w / (w + 2) with w = e (e + 2), e = exp(x); from 20 on that is 1.
template <class T>
T mish_exp(T x) {
  return exp_near(x < -far<T> ? -far<T> : (x > 20 ? T(20) : x));  // keeps NaN
}
template <class T>
T mish(T x) {
  const T e = mish_exp(x), w = e * (e + 2);
  return at_least(x, -far<T>) * (w / (w + 2));
}
template <class T>
T mish_slope(T x) {
  const T e = mish_exp(x), w = e * (e + 2);
  const T t = w / (w + 2), rest = 2 / (w + 2);  // rest = 1 - t
  const T near = at_most(at_least(x, -far<T>), T(20));
  return multiply_add(near * (e / (1 + e)), rest * (1 + t), t);
}

template <class T>
T softplus(T x, T alpha, T threshold) {
  const T z = alpha * x;
  const T value = ((z > 0 ? z : T(0)) + cpu::log1p(exp_down(-std::fabs(z)))) / alpha;
  return z > threshold ? x : (x == x ? value : x);
}
template <class T>
T softplus_slope(T x, T alpha, T threshold) {
  return alpha * x > threshold ? T(1) : cpu::sigmoid(alpha * x);
}

template <class T>
T hardsigmoid(T x) {
  const T y = multiply_add(x, T(1) / 6, T(0.5));
  return y < 0 ? T(0) : (y > 1 ? T(1) : y);
}
template <class T>
T hardswish(T x) {
  return at_least(x, T(-4)) * hardsigmoid(x);
}
template <class T>
T hardswish_slope(T x) {
  return x <= -3 ? T(0) : (x >= 3 ? T(1) : multiply_add(x, T(1) / 3, T(0.5)));
}

template <class T>
T softsign(T x) {
  constexpr T limit = T(0x1p60);                                 // 1 + 2^60 is 2^60
  const T near = x < -limit ? -limit : (x > limit ? limit : x);  // keeps NaN
  return near / (1 + std::fabs(near));
}

template <class T>
void run_in(const kernels::Unary& call) {
  const auto light = [&](auto f) { map<T, T>(call.x, call.y, memory_grain, f); };
  const auto heavy = [&](auto f) { map<T, T>(call.x, call.y, math_grain, f); };
  const T alpha = T(call.alpha), beta = T(call.beta);
  switch (call.op) {
    case UnaryOp::relu: return light([](T x) { return x <= 0 ? T(0) : x; });  // keeps NaN
    case UnaryOp::relu6:
      return light([](T x) { return x <= 0 ? T(0) : (x >= 6 ? T(6) : x); });  // keeps NaN
    case UnaryOp::sigmoid: return heavy([](T x) { return cpu::sigmoid(x); });
    case UnaryOp::tanh: return heavy([](T x) { return cpu::tanh(x); });
    case UnaryOp::gelu: return heavy([](T x) { return cpu::gelu(x); });
    case UnaryOp::gelu_tanh: return heavy([](T x) { return gelu_tanh(x); });
    case UnaryOp::silu: return heavy([](T x) { return silu(x); });
    case UnaryOp::mish: return heavy([](T x) { return mish(x); });
    case UnaryOp::softplus: return heavy([=](T x) { return softplus(x, alpha, beta); });
    case UnaryOp::elu:
      return heavy(
          [=](T x) { return beta * choose(x > 0, x, alpha * expm1_down(x > 0 ? T(0) : x)); });
    case UnaryOp::leaky_relu: return light([=](T x) { return choose(x > 0, x, alpha * x); });
    case UnaryOp::hardsigmoid: return light([](T x) { return hardsigmoid(x); });
    case UnaryOp::hardswish: return light([](T x) { return hardswish(x); });
    case UnaryOp::softsign: return light([](T x) { return softsign(x); });
    default: return;  // other families
  }
}

template <class T>
void run_backward_in(const kernels::UnaryBackward& call) {
  const auto light = [&](auto f) { map_backward<T>(call, memory_grain, f); };
  // dy times the slope at x.
  const auto slope = [&](auto f) {
    map_backward<T>(call, math_grain, [f](T x, T dy) { return dy * f(x); });
  };
  const T alpha = T(call.alpha), beta = T(call.beta);
  switch (call.op) {
    case UnaryOp::clamp: return light([=](T x, T dy) { return x < alpha || x > beta ? T(0) : dy; });
    case UnaryOp::relu: return light([](T y, T dy) { return y <= 0 ? T(0) : dy; });
    case UnaryOp::relu6: return light([](T y, T dy) { return y <= 0 || y >= 6 ? T(0) : dy; });
    case UnaryOp::sigmoid: return light([](T y, T dy) { return dy * (y * (1 - y)); });
    case UnaryOp::tanh: return light([](T y, T dy) { return dy * (1 - y * y); });
    case UnaryOp::gelu: return slope([](T x) { return gelu_slope(x); });
    case UnaryOp::gelu_tanh: return slope([](T x) { return gelu_tanh_slope(x); });
    case UnaryOp::silu: return slope([](T x) { return silu_slope(x); });
    case UnaryOp::mish: return slope([](T x) { return mish_slope(x); });
    case UnaryOp::softplus: return slope([=](T x) { return softplus_slope(x, alpha, beta); });
    case UnaryOp::elu:
      return slope(
          [=](T x) { return beta * choose(x > 0, T(1), alpha * exp_down(x > 0 ? T(0) : x)); });
    case UnaryOp::leaky_relu:
      return light([=](T x, T dy) { return choose(x > 0, dy, alpha * dy); });
    case UnaryOp::hardsigmoid:
      return light([](T x, T dy) { return x <= -3 || x >= 3 ? T(0) : dy * (T(1) / 6); });
    case UnaryOp::hardswish: return slope([](T x) { return hardswish_slope(x); });
    case UnaryOp::softsign:
      return light([](T x, T dy) {
        const T below = 1 + std::fabs(x);
        return dy / (below * below);
      });
    default: throw Error("[unary_backward] has no " + std::string(to_string(call.op)));
  }
}

}  // namespace

void run_activation(const kernels::Unary& call) {
  dispatch_float(call.x.dtype, call.name, [&](auto zero) { run_in<decltype(zero)>(call); });
}

void run(const kernels::UnaryBackward& call) {
  dispatch_float(call.dx.dtype, call.name,
                 [&](auto zero) { run_backward_in<decltype(zero)>(call); });
}

}  // namespace adret::cpu
