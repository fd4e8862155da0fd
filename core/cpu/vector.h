// The widest vectors of the instruction set that the kernels are compiled for, as GCC's portable
// vector type: + * and comparisons work on them, also with a scalar on one side.
#pragma once

#include <cstdint>
#include <cstring>

namespace adret::cpu {

#if defined(__AVX512F__)
inline constexpr int vector_bytes = 64, vector_registers = 32;
#elif defined(__AVX__)
inline constexpr int vector_bytes = 32, vector_registers = 16;
#elif defined(__aarch64__)
inline constexpr int vector_bytes = 16, vector_registers = 32;
#else
inline constexpr int vector_bytes = 16, vector_registers = 16;
#endif

template <class T>
struct VectorOf {
  typedef T type __attribute__((vector_size(vector_bytes)));
};
template <class T>
using Vector = typename VectorOf<T>::type;

template <class T>
inline constexpr int lanes = vector_bytes / int(sizeof(T));

// A vector of N elements, for those that go with a Vector of wider or narrower ones.
template <class T, int N>
struct VectorOfLanes {
  typedef T type __attribute__((vector_size(N * sizeof(T))));
};

template <int BYTES>
struct SignedOf;
template <>
struct SignedOf<2> {
  using type = int16_t;
};
template <>
struct SignedOf<4> {
  using type = int32_t;
};
template <>
struct SignedOf<8> {
  using type = int64_t;
};

// Integers to another width, by halving or doubling: GCC 12 does longer steps element by element.
template <class To, int N, class From>
[[gnu::always_inline]] inline auto convert_lanes(typename VectorOfLanes<From, N>::type v) {
  constexpr int from = sizeof(From), to = sizeof(To);
  if constexpr (to > 2 * from || 2 * to < from) {
    using Step = typename SignedOf<(to > from ? 2 * from : from / 2)>::type;
    return convert_lanes<To, N, Step>(
        __builtin_convertvector(v, typename VectorOfLanes<Step, N>::type));
  } else {
    return __builtin_convertvector(v, typename VectorOfLanes<To, N>::type);
  }
}

// From and to memory without alignment. The type tells the compiler that only a T is touched.
template <class T>
struct UnalignedOf {
  typedef T type __attribute__((vector_size(vector_bytes), aligned(alignof(T))));
};
template <class T>
Vector<T> load(const T* from) {
  return *reinterpret_cast<const typename UnalignedOf<T>::type*>(from);
}
template <class T>
void store(T* to, Vector<T> v) {
  *reinterpret_cast<typename UnalignedOf<T>::type*>(to) = v;
}

// Copies `count` < 2 * PIECE elements in pieces of halving size: no loop, no call.
template <class T, int PIECE>
[[gnu::always_inline]] inline void copy_pieces(const T* from, T* to, int64_t count) {
  if constexpr (PIECE > 0) {
    const bool taken = count & PIECE;
    if (taken) std::memcpy(to, from, PIECE * sizeof(T));
    const int64_t step = taken ? PIECE : 0;
    copy_pieces<T, PIECE / 2>(from + step, to + step, count);
  }
}

// The first `count` < lanes lanes alone; the others are zero, or not written.
template <class T>
Vector<T> load_first(const T* from, int64_t count) {
  alignas(vector_bytes) T buffer[lanes<T>] = {};
  copy_pieces<T, lanes<T> / 2>(from, buffer, count);
  return load(buffer);
}
template <class T>
void store_first(T* to, Vector<T> v, int64_t count) {
  alignas(vector_bytes) T buffer[lanes<T>];
  store(buffer, v);
  copy_pieces<T, lanes<T> / 2>(buffer, to, count);
}

// The same, at full speed for a whole vector.
template <class T>
Vector<T> load_some(const T* from, int64_t count) {
  return count == lanes<T> ? load(from) : load_first(from, count);
}
template <class T>
void store_some(T* to, Vector<T> v, int64_t count) {
  if (count == lanes<T>) {
    store(to, v);
  } else {
    store_first(to, v, count);
  }
}

// A row of `count` elements, filled up with zeros to `width`, a multiple of the lanes: for rows too
// short for a call of memcpy.
template <class T>
void copy_row(const T* from, int64_t count, T* to, int64_t width) {
  for (int64_t i = 0; i < width; i += lanes<T>) {
    const int64_t left = count - i;
    store(to + i, left >= lanes<T> ? load(from + i)
                  : left > 0       ? load_first(from + i, left)
                                   : Vector<T>{});
  }
}

// f(first, count) for whole vectors of n elements, then for what is left.
template <class T, class F>
void each_vector(int64_t n, F f) {
  int64_t i = 0;
  for (; i + lanes<T> <= n; i += lanes<T>) f(i, int64_t(lanes<T>));
  if (i < n) f(i, n - i);
}

// 0, 1, 2, ...
template <class T>
Vector<T> lane_numbers() {
  Vector<T> v{};
  for (int i = 0; i < lanes<T>; ++i) v[i] = T(i);
  return v;
}

constexpr int64_t round_up(int64_t n, int64_t multiple) {
  return (n + multiple - 1) / multiple * multiple;
}

}  // namespace adret::cpu
