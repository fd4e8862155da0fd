// What a reduction keeps of the elements that it has seen.
#pragma once

#include <adret/core/cuda/device_math.h>
#include <adret/core/cuda/launch.h>
#include <adret/core/cuda/team.h>

#include <cmath>
#include <limits>
#include <type_traits>

namespace adret::cuda {

// What is kept of the elements seen so far; a sum is a Total.
template <class A>
struct ProductOf {
  A value = 1;
  __device__ void merge(const ProductOf& other) { value *= other.value; }
};
template <class A>
inline constexpr A smallest_of = std::numeric_limits<A>::has_infinity
                                     ? -std::numeric_limits<A>::infinity()
                                     : std::numeric_limits<A>::lowest();
template <class A>
inline constexpr A largest_of = std::numeric_limits<A>::has_infinity
                                    ? std::numeric_limits<A>::infinity()
                                    : std::numeric_limits<A>::max();
template <class A>
struct Largest {
  A value = smallest_of<A>;
  __device__ void merge(const Largest& other) { value = larger(value, other.value); }
};
template <class A>
struct Smallest {
  A value = largest_of<A>;
  __device__ void merge(const Smallest& other) { value = smaller(value, other.value); }
};

template <class A>
struct Squares {
  A value = 0;
  __device__ static Squares of(A x) { return {x * x}; }
  __device__ void merge(const Squares& other) { value += other.value; }
  __device__ A finish(A) const { return sqrt(value); }
};

__device__ inline float quotient(float a, float b) { return __fdividef(a, b); }
__device__ inline double quotient(double a, double b) { return a / b; }

// The mean of `count` elements and the sum of their squared distances from it (Chan, Golub and
// LeVeque 1979).
template <class A>
struct alignas(4 * sizeof(A)) Moments {
  A count = 0, mean = 0, squares = 0;

  template <class T, int n>
  __device__ void add(const Vector<T, n>& x) {
    Moments few;
    few.count = n;
#pragma unroll
    for (int i = 0; i < n; ++i) few.mean += widen<T>(x.at[i]);
    few.mean *= A(1) / n;
#pragma unroll
    for (int i = 0; i < n; ++i) {
      const A distance = widen<T>(x.at[i]) - few.mean;
      few.squares += distance * distance;
    }
    merge(few);
  }
  __device__ void merge(const Moments& other) {
    if (other.count == A(0)) return;
    if (count == A(0)) {
      *this = other;
      return;
    }
    const A all = count + other.count, share = quotient(other.count, all);
    const A step = other.mean - mean;
    mean += step * share;
    squares += other.squares + step * step * share * count;
    count = all;
  }
  __device__ A finish(A divisor) const { return squares / divisor; }
};

// Takes in an element of x, or what others kept.
template <class Kept, class T>
__device__ inline void take(Kept& kept, const T& value) {
  if constexpr (std::is_same_v<T, Kept>) {
    kept.merge(value);
  } else if constexpr (std::is_integral_v<T>) {
    kept.merge(Kept{decltype(kept.value)(value)});
  } else if constexpr (requires { Kept::of(widen(value)); }) {
    kept.merge(Kept::of(widen(value)));
  } else if constexpr (requires { kept.add(Vector<T, 1>{value}); }) {
    kept.add(Vector<T, 1>{value});
  } else {
    kept.merge(Kept{widen(value)});
  }
}

}  // namespace adret::cuda
