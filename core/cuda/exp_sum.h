// The largest of some numbers and the sum of their exponentials, in one pass (Milakov and
// Gimelshein 2018).
#pragma once

#include <adret/core/cuda/device_math.h>
#include <adret/core/cuda/launch.h>

#include <cmath>

namespace adret::cuda {

// sum is that of exp(x - pivot()). Infinities and NaN end up in it as in the plain formula; with
// `infinite`, an infinite element makes the sum infinite instead of NaN.
template <class A, bool infinite = false>
struct ExpSum {
  A largest = -INFINITY;
  A sum = 0;

  // Nothing larger than -inf yet: its exponentials are taken as they are, namely zero.
  __device__ A pivot() const {
    const bool none = largest == A(-INFINITY) || (infinite && largest == A(INFINITY));
    return none ? A(0) : largest;
  }
  // The logarithm of the sum of exp(x).
  __device__ A finish(A) const { return log(sum) + pivot(); }

  template <class T, int n>
  __device__ void add(const Vector<T, n>& x) {
    A most = largest;
#pragma unroll
    for (int i = 0; i < n; ++i) most = fmax(most, widen<T>(x.at[i]));
    raise(most);
#pragma unroll
    for (int i = 0; i < n; ++i) sum += exp_of<T>(widen<T>(x.at[i]) - pivot());
  }
  __device__ void merge(const ExpSum& other) {
    raise(fmax(largest, other.largest));
    if (other.sum != A(0)) sum += other.sum * exp(other.pivot() - pivot());
  }

 private:
  __device__ void raise(A most) {
    if (most == largest) return;
    const A before = pivot();
    largest = most;
    if (sum != A(0)) sum *= exp(before - pivot());  // after -inf alone, exp may be infinite
  }
};

}  // namespace adret::cuda
