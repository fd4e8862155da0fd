// Functions of two operands that broadcast, the choice between two, and the broadcast by itself.
#include <adret/core/cpu/elementwise.h>
#include <adret/core/cpu/kernels.h>
#include <adret/core/cpu/loop_nest.h>
#include <adret/core/cpu/two_floats.h>
#include <adret/core/vector_math.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <type_traits>

namespace adret::cpu {

using kernels::BinaryOp;

namespace {

// y = f(a, b) over one run; y may be a or b.
template <class T, class R, class F>
void binary_run(const T* a, int64_t a_stride, const T* b, int64_t b_stride, R* y, int64_t n, F f) {
  // Only floats are worth the copies of the loop that vectorise.
  if constexpr (std::is_floating_point_v<T> && std::is_same_v<T, R>) {
    if (a_stride == 1 && b_stride == 1) return map_run(n, y, f, a, b);
    if (a_stride == 1 && b_stride == 0) {
      return map_run(
          n, y, [f, value = *b](T x) { return f(x, value); }, a);
    }
    if (a_stride == 0 && b_stride == 1) {
      return map_run(
          n, y, [f, value = *a](T x) { return f(value, x); }, b);
    }
  }
  for (int64_t i = 0; i < n; ++i) y[i] = f(a[i * a_stride], b[i * b_stride]);
}

// f(a, its stride, b, its stride, y, length) for every run.
template <class T, class R, class F>
void each_run(const kernels::Binary& call, int64_t grain, F f) {
  const auto nest = broadcast_nest<2>(call.y.shape, {call.a.shape, call.b.shape});
  const auto strides = nest.inner_strides();
  const T *a = call.a.as<T>(), *b = call.b.as<T>();
  R* y = call.y.as<R>();
  nest.parallel_runs(grain, [&](int64_t first, const auto& offsets, int64_t length) {
    f(a + offsets[0], strides[0], b + offsets[1], strides[1], y + first, length);
  });
}

template <class T, class R, class F>
void binary(const kernels::Binary& call, F f, int64_t grain = memory_grain) {
  each_run<T, R>(call, grain,
                 [=](const T* a, int64_t a_stride, const T* b, int64_t b_stride, R* y, int64_t n) {
                   binary_run(a, a_stride, b, b_stride, y, n, f);
                 });
}

template <class Int>
using Unsigned = std::make_unsigned_t<Int>;

// Exponentiation by squaring, modulo 2^bits; negative exponents truncate the fraction.
template <class Int>
Int integer_power(Int base, Int exponent) {
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

// The lowest value by -1 would trap.
template <class Int>
constexpr bool is_minus_one(Int b) {
  return std::is_signed_v<Int> && b == Int(-1);
}
template <class Int>
Int integer_fmod(Int a, Int b) {
  return b == 0 || is_minus_one(b) ? Int(0) : Int(a % b);
}
template <class Int>
bool has_other_sign(Int rest, Int b) {
  return rest != 0 && (rest ^ b) < 0;
}
template <class Int>
Int integer_remainder(Int a, Int b) {
  const Int rest = integer_fmod(a, b);
  return has_other_sign(rest, b) ? Int(rest + b) : rest;
}
// Rounded down.
template <class Int>
Int integer_quotient(Int a, Int b) {
  if (b == 0) return 0;
  if (is_minus_one(b)) return Int(0 - Unsigned<Int>(a));
  return Int(a / b - has_other_sign(Int(a % b), b));
}

// The rests of a run are computed in pieces by `in_short`, which has NaN where its way is too
// short; those are left to `in_full`.
template <class T, class Short, class Full>
void rest_run(const T* a, int64_t a_stride, const T* b, int64_t b_stride, T* y, int64_t n,
              Short in_short, Full in_full) {
  constexpr int64_t piece = 512;
  T rest[piece];  // y may be a or b
  for (int64_t begin = 0; begin < n; begin += piece, y += piece) {
    const int64_t count = std::min(piece, n - begin);
    binary_run(a, a_stride, b, b_stride, rest, count, in_short);
    if (has_nan(rest, count)) {
      for (int64_t i = 0; i < count; ++i) {
        if (std::isnan(rest[i])) rest[i] = in_full(a[i * a_stride], b[i * b_stride]);
      }
    }
    std::copy_n(rest, count, y);
    a += count * a_stride;
    b += count * b_stride;
  }
}

template <class T>
void run_rests(const kernels::Binary& call) {
  const auto with = [&](auto in_short, auto in_full) {
    each_run<T, T>(call, memory_grain,
                   [=](const T* a, int64_t a_stride, const T* b, int64_t b_stride, T* y,
                       int64_t n) { rest_run(a, a_stride, b, b_stride, y, n, in_short, in_full); });
  };
  if (call.op == BinaryOp::fmod) {
    with([](T a, T b) { return short_fmod(a, b); }, [](T a, T b) { return std::fmod(a, b); });
  } else {
    with([](T a, T b) { return with_sign_of(b, short_fmod(a, b)); },
         [](T a, T b) { return with_sign_of(b, std::fmod(a, b)); });
  }
}

template <class T>
void run_arithmetic(const kernels::Binary& call) {
  constexpr bool is_float = std::is_floating_point_v<T>;
  // Integers wrap, which is defined for unsigned types only.
  using W =
      typename std::conditional_t<is_float, std::type_identity<T>, std::make_unsigned<T>>::type;
  switch (call.op) {
    case BinaryOp::add: return binary<T, T>(call, [](T a, T b) { return T(W(a) + W(b)); });
    case BinaryOp::subtract: return binary<T, T>(call, [](T a, T b) { return T(W(a) - W(b)); });
    case BinaryOp::multiply: return binary<T, T>(call, [](T a, T b) { return T(W(a) * W(b)); });
    case BinaryOp::divide:
      return binary<T, T>(call, [](T a, T b) {
        if constexpr (is_float) {
          return a / b;
        } else {
          return integer_quotient(a, b);
        }
      });
    case BinaryOp::maximum: return binary<T, T>(call, [](T a, T b) { return larger(a, b); });
    case BinaryOp::minimum: return binary<T, T>(call, [](T a, T b) { return smaller(a, b); });
    case BinaryOp::power:
      return binary<T, T>(call, [](T a, T b) {
        if constexpr (is_float) {
          return std::pow(a, b);
        } else {
          return integer_power(a, b);
        }
      });
    case BinaryOp::fmod:
      if constexpr (is_float) {
        return run_rests<T>(call);
      } else {
        return binary<T, T>(call, [](T a, T b) { return integer_fmod(a, b); });
      }
    case BinaryOp::remainder:
      if constexpr (is_float) {
        return run_rests<T>(call);
      } else {
        return binary<T, T>(call, [](T a, T b) { return integer_remainder(a, b); });
      }
    case BinaryOp::atan2:
      if constexpr (is_float) {
        return binary<T, T>(
            call, [](T a, T b) { return cpu::atan2(a, b); }, math_grain);
      }
      throw_not_floating(call.a.dtype, call.name);
    case BinaryOp::hypot:
      if constexpr (is_float) {
        return binary<T, T>(call, [](T a, T b) { return cpu::hypot(a, b); });
      }
      throw_not_floating(call.a.dtype, call.name);
    default: return;  // comparisons
  }
}

template <class T>
void run_comparison(const kernels::Binary& call) {
  switch (call.op) {
    case BinaryOp::equal: return binary<T, bool>(call, [](T a, T b) { return a == b; });
    case BinaryOp::not_equal: return binary<T, bool>(call, [](T a, T b) { return a != b; });
    case BinaryOp::less: return binary<T, bool>(call, [](T a, T b) { return a < b; });
    case BinaryOp::less_equal: return binary<T, bool>(call, [](T a, T b) { return a <= b; });
    case BinaryOp::greater: return binary<T, bool>(call, [](T a, T b) { return a > b; });
    case BinaryOp::greater_equal: return binary<T, bool>(call, [](T a, T b) { return a >= b; });
    default: return;  // arithmetic
  }
}

}  // namespace

void run(const kernels::Binary& call) {
  if (is_comparison(call.op)) {
    return dispatch_all(call.a.dtype, [&](auto zero) { run_comparison<decltype(zero)>(call); });
  }
  switch (call.a.dtype) {
    case DType::i32: return run_arithmetic<int32_t>(call);
    case DType::i64: return run_arithmetic<int64_t>(call);
    case DType::u8: return run_arithmetic<uint8_t>(call);
    default:
      dispatch_float(call.a.dtype, call.name,
                     [&](auto zero) { run_arithmetic<decltype(zero)>(call); });
  }
}

namespace {

// chosen ? a : b of unsigned integers, without a branch.
template <class T>
T select(uint8_t chosen, T a, T b) {
  const T mask = T(0 - T(chosen));
  return T((a & mask) | (b & T(~mask)));
}

// y = chosen ? a : b over one run, for strides of 0 and 1; y may be a or b.
template <class T>
void select_run(const uint8_t* chosen, int64_t chosen_stride, const T* a, int64_t a_stride,
                const T* b, int64_t b_stride, T* y, int64_t n) {
  if (chosen_stride == 0) {
    const T* from = *chosen ? a : b;
    if ((*chosen ? a_stride : b_stride) == 0) {
      std::fill_n(y, n, *from);
    } else if (from != y) {
      std::memmove(y, from, size_t(n) * sizeof(T));
    }
  } else if (a_stride == 1 && b_stride == 1) {
    map_run(
        n, y, [](uint8_t c, T v, T w) { return select(c, v, w); }, chosen, a, b);
  } else if (a_stride == 1) {
    map_run(
        n, y, [w = *b](uint8_t c, T v) { return select(c, v, w); }, chosen, a);
  } else if (b_stride == 1) {
    map_run(
        n, y, [v = *a](uint8_t c, T w) { return select(c, v, w); }, chosen, b);
  } else {
    map_run(
        n, y, [v = *a, w = *b](uint8_t c) { return select(c, v, w); }, chosen);
  }
}

}  // namespace

void run(const kernels::Select& call) {
  const auto nest =
      broadcast_nest<3>(call.y.shape, {call.condition.shape, call.a.shape, call.b.shape});
  const auto strides = nest.inner_strides();
  const auto* condition = reinterpret_cast<const uint8_t*>(call.condition.as<bool>());  // 0 or 1
  dispatch_size(call.y.dtype, [&](auto zero) {
    using T = decltype(zero);
    const T *a = call.a.as<T>(), *b = call.b.as<T>();
    T* y = call.y.as<T>();
    nest.parallel_runs(memory_grain, [&](int64_t first, const auto& offsets, int64_t length) {
      select_run(condition + offsets[0], strides[0], a + offsets[1], strides[1], b + offsets[2],
                 strides[2], y + first, length);
    });
  });
}

void run(const kernels::Broadcast& call) {
  const auto nest = broadcast_nest<1>(call.y.shape, {call.x.shape});
  const bool repeats = nest.inner_strides()[0] == 0;
  dispatch_size(call.y.dtype, [&](auto zero) {
    using T = decltype(zero);
    const T* x = call.x.as<T>();
    T* y = call.y.as<T>();
    nest.parallel_runs(memory_grain, [&](int64_t first, const auto& offsets, int64_t length) {
      if (repeats) {
        std::fill_n(y + first, length, x[offsets[0]]);
      } else {
        std::copy_n(x + offsets[0], length, y + first);
      }
    });
  });
}

}  // namespace adret::cpu
