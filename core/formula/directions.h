// A formula, its derivative and its second derivative as functions of plain numbers, and their
// loops on the CPU.
#pragma once

#include <adret/core/formula/functions.h>
#include <adret/core/formula/vector_level.h>

#include <array>
#include <cstdint>
#include <tuple>
#include <utility>

namespace adret::formula {
inline namespace ADRET_FORMULA_COMPILER {

template <class X, size_t>
using Repeated = X;

// What a formula returns for N operands X.
template <class F, class X, class I>
struct ResultOf;
template <class F, class X, size_t... I>
struct ResultOf<F, X, std::index_sequence<I...>> {
  using type = decltype(std::declval<const F&>()(std::declval<Repeated<X, I>>()...));
};
template <class F, int N, class X = Number<float>>
using Result = typename ResultOf<F, X, std::make_index_sequence<N>>::type;

template <class R>
concept Tuple = requires {
  std::tuple_size<R>::value;
};

template <class R>
inline constexpr int output_count = 1;
template <Tuple R>
inline constexpr int output_count<R> = int(std::tuple_size_v<R>);

// Output k of what a formula returned. Constants are outputs too.
template <class X, size_t k, class R>
ADRET_FN X output(const R& result) {
  if constexpr (Tuple<R>) {
    return std::get<k>(result);
  } else {
    return result;
  }
}

// Each direction is called with arrays of its inputs and outputs.
template <class F, int N>
struct Forward {
  static constexpr int results = output_count<Result<F, N>>;
  static constexpr int inputs = N, outputs = results;
  static constexpr bool is_rare = false;  // not worth code of its own for vectors on a GPU
  F f;

  template <class X>
  ADRET_FN void operator()(const X (&x)[inputs], X (&y)[outputs]) const {
    call(x, y, std::make_index_sequence<N>(), std::make_index_sequence<results>());
  }

 private:
  template <class X, size_t... I, size_t... K>
  ADRET_FN void call(const X* x, X* y, std::index_sequence<I...>, std::index_sequence<K...>) const {
    const auto result = f(x[I]...);
    ((y[K] = output<X, K>(result)), ...);
  }
};

// From the operands and a gradient for each result, the operands' gradients.
template <class F, int N>
struct Backward {
  static constexpr int results = output_count<Result<F, N>>;
  static constexpr int inputs = N + results, outputs = N;
  static constexpr bool is_rare = false;
  F f;

  template <class X>
  ADRET_FN void operator()(const X (&x)[inputs], X (&dx)[outputs]) const {
    call(x, x + N, dx, std::make_index_sequence<N>(), std::make_index_sequence<results>());
  }

 private:
  template <class X, size_t... I, size_t... K>
  ADRET_FN void call(const X* x, const X* dy, X* dx, std::index_sequence<I...>,
                     std::index_sequence<K...>) const {
    using D = Dual<X, N>;
    const auto result = f(D(x[I], [](int i) { return X(i == int(I)); })...);
    const D y[] = {output<D, K>(result)...};
    // Beside others, the gradient of one that nobody used is 0.
    const auto part = [&](const X& slope, const X& dy) {
      return results == 1 ? slope * dy : times(slope, dy);
    };
    const auto gradient = [&](size_t i) { return (part(y[K].slope[i], dy[K]) + ...); };
    ((dx[I] = gradient(I)), ...);
  }
};

// From these and a gradient u for each of the operands' gradients, what reaches the operands and
// the results' gradients: a derivative along u, and its derivatives.
template <class F, int N>
struct SecondBackward {
  static constexpr int results = output_count<Result<F, N>>;
  static constexpr int inputs = 2 * N + results, outputs = N + results;
  static constexpr bool is_rare = true;
  F f;

  template <class X>
  ADRET_FN void operator()(const X (&x)[inputs], X (&dx)[outputs]) const {
    call(x, x + N, x + N + results, dx, dx + N, std::make_index_sequence<N>(),
         std::make_index_sequence<results>());
  }

 private:
  template <class X, size_t... I, size_t... K>
  ADRET_FN void call(const X* x, const X* dy, const X* u, X* dx, X* ddy, std::index_sequence<I...>,
                     std::index_sequence<K...>) const {
    using Along = Dual<X, 1>;
    using D = Dual<Along, N>;
    const auto result =
        f(D(Along(x[I], [&](int) { return u[I]; }), [](int i) { return Along(i == int(I)); })...);
    const D y[] = {output<D, K>(result)...};
    const auto gradient = [&](size_t i) { return (times(y[K].slope[i].slope[0], dy[K]) + ...); };
    ((dx[I] = gradient(I)), ...);
    ((ddy[K] = y[K].value.slope[0]), ...);
  }
};

// -- loops on the CPU ----------------------------------------------------------------------------

template <class Direction, class T, size_t... I, size_t... K>
void loop_over(const Direction& direction, const T* const* in, T* const* out, int64_t steps,
               std::index_sequence<I...>, std::index_sequence<K...>) {
  const T* const x[] = {in[I]...};
  T* const y[] = {out[K]...};
#pragma GCC ivdep
  for (int64_t i = 0; i < steps * step; ++i) {
    const Number<T> numbers[] = {x[I][i]...};
    Number<T> results[sizeof...(K)];
    direction(numbers, results);
    ((y[K][i] = results[K].value), ...);
  }
}

template <class F, class Direction, class T>
void run_loop(const void* formula, const T* const* in, T* const* out, int64_t steps) {
  const auto loop = [&] {
    const Direction direction{*static_cast<const F*>(formula)};
    loop_over(direction, in, out, steps, std::make_index_sequence<size_t(Direction::inputs)>(),
              std::make_index_sequence<size_t(Direction::outputs)>());
  };
  if constexpr (std::is_same_v<T, float>) {
    run_for_processor(loop);
  } else {
    run_for_all(loop);  // f64 calls the C library, and is for checks
  }
}

}  // namespace ADRET_FORMULA_COMPILER
}  // namespace adret::formula
