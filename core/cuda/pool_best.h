// The largest element of a window and its tap, for each channel of a vector: NaN wins, and the
// first of equals.
#pragma once

#include <adret/core/cuda/launch.h>

#include <cmath>
#include <cstdint>
#include <type_traits>

namespace adret::cuda {

// Takes the elements in ascending order of taps.
template <class T, int n>
class Best {
 public:
  // `tap` is the first one that will be taken.
  __device__ explicit Best(int32_t tap) {
    for (int i = 0; i < n; ++i) {
      value_[i] = Accumulator<T>(-INFINITY);
      tap_[i] = tap;
    }
  }
  __device__ void take(const Vector<T, n>& elements, int32_t tap) {
#pragma unroll
    for (int i = 0; i < n; ++i) {
      const Accumulator<T> value = widen(elements.at[i]);
      const bool wins = !(value <= value_[i]) && value_[i] == value_[i];
      value_[i] = wins ? value : value_[i];
      tap_[i] = wins ? tap : tap_[i];
    }
  }
  // ReLU; where its gradient is zero the tap is `none`.
  __device__ void rectify(int32_t none) {
    for (int i = 0; i < n; ++i) {
      const bool zero = value_[i] <= 0;
      value_[i] = zero ? Accumulator<T>(0) : value_[i];
      tap_[i] = zero ? none : tap_[i];
    }
  }
  __device__ Vector<T, n> values() const {
    Vector<T, n> values;
    for (int i = 0; i < n; ++i) values.at[i] = narrow<T>(value_[i]);
    return values;
  }
  template <class Position>
  __device__ Vector<Position, n> taps() const {
    Vector<Position, n> taps;
    for (int i = 0; i < n; ++i) taps.at[i] = Position(tap_[i]);
    return taps;
  }

 private:
  Accumulator<T> value_[n];
  int32_t tap_[n];
};

template <class T, int n>
constexpr bool in_pairs = sizeof(T) == 2 && n % 2 == 0;

// Two channels in a register, for elements of two bytes: half the instructions of f32, which the
// multiprocessors would not do in the time that the memory needs. Taps are below 2^16.
template <class T, int n>
requires in_pairs<T, n>
class Best<T, n> {
  using Pair = std::conditional_t<std::is_same_v<T, __half>, __half2, __nv_bfloat162>;
  static_assert(sizeof(Pair) == sizeof(uint32_t));
  struct alignas(Vector<T, n>) Words {
    uint32_t at[n / 2];
  };

 public:
  __device__ explicit Best(int32_t tap) {
    const Vector<T, 2> lowest = {narrow<T>(-INFINITY), narrow<T>(-INFINITY)};
    for (int i = 0; i < n / 2; ++i) {
      value_.at[i] = reinterpret_cast<const uint32_t&>(lowest);
      tap_.at[i] = both(tap);
    }
  }
  __device__ void take(const Vector<T, n>& elements, int32_t tap) {
    const Words& words = reinterpret_cast<const Words&>(elements);
#pragma unroll
    for (int i = 0; i < n / 2; ++i) {
      const Pair value = pair(words.at[i]), best = pair(value_.at[i]);
      // Larger or one of them NaN, and the best so far is none.
      const uint32_t wins = __hgtu2_mask(value, best) & __heq2_mask(best, best);
      value_.at[i] = (words.at[i] & wins) | (value_.at[i] & ~wins);
      tap_.at[i] = (both(tap) & wins) | (tap_.at[i] & ~wins);
    }
  }
  __device__ void rectify(int32_t none) {
    const Vector<T, 2> zeros = {narrow<T>(0), narrow<T>(0)};
    const Pair zero = pair(reinterpret_cast<const uint32_t&>(zeros));
    for (int i = 0; i < n / 2; ++i) {
      const uint32_t is_zero = __hle2_mask(pair(value_.at[i]), zero);
      value_.at[i] &= ~is_zero;
      tap_.at[i] = (both(none) & is_zero) | (tap_.at[i] & ~is_zero);
    }
  }
  __device__ Vector<T, n> values() const { return reinterpret_cast<const Vector<T, n>&>(value_); }
  template <class Position>
  __device__ Vector<Position, n> taps() const {
    Vector<Position, n> taps;
    for (int i = 0; i < n; ++i) taps.at[i] = Position(tap_.at[i / 2] >> (i % 2 * 16) & 0xffff);
    return taps;
  }

 private:
  __device__ static uint32_t both(int32_t tap) { return uint32_t(tap) * 0x10001u; }
  __device__ static Pair pair(const uint32_t& word) { return reinterpret_cast<const Pair&>(word); }

  Words value_, tap_;
};

// One channel, merged from parts of a window that were taken apart.
template <class A>
struct MergedBest {
  A value;
  int32_t tap;

  __device__ static MergedBest none() { return {A(-INFINITY), INT32_MAX}; }
  __device__ void take(A other, int32_t other_tap) { merge({other, other_tap}); }
  __device__ void merge(const MergedBest& other) {
    const bool is_nan = value != value, other_is_nan = other.value != other.value;
    const bool equal = is_nan ? other_is_nan : other.value == value;
    const bool larger = !is_nan && (other_is_nan || other.value > value);
    if (larger || (equal && other.tap < tap)) *this = other;
  }
};

}  // namespace adret::cuda
