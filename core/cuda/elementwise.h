// Kernels that compute each element of the output from those at the same place, or broadcast to it.
#pragma once

#include <adret/core/cuda/launch.h>
#include <adret/core/cuda/loop_nest.h>

#include <algorithm>
#include <type_traits>

namespace adret::cuda {

// What elements of T are computed in: integers in themselves, floats in their accumulator.
template <class T>
using Computed = std::conditional_t<std::is_integral_v<T>, T, Accumulator<T>>;

// As many elements as the wider of two types has in 16 bytes.
template <class A, class B>
inline constexpr int vector_size = 16 / int(std::max(sizeof(A), sizeof(B)));

template <class T>
bool is_aligned(const T* pointer, size_t elements) {
  return reinterpret_cast<uintptr_t>(pointer) % (elements * sizeof(T)) == 0;
}

// A thread for each item while the device holds them all at once, then up to `unroll` items for
// each, and a loop over the rest.
inline Grid grid_unrolled(const Context& context, int64_t items, int unroll) {
  constexpr int threads = 256;
  const int64_t wave = int64_t(context.multiprocessors()) * (2048 / threads);
  const int64_t blocks = divide_up(items, threads);
  const int64_t fewer =
      std::clamp(divide_up(items, int64_t(threads) * unroll), std::min(blocks, wave), 8 * wave);
  return {.blocks = dim3(unsigned(fewer)), .threads = dim3(threads)};
}

inline constexpr int move_unroll = 4;

// *to(i) = *from(i) for the items i, elements of T, with several loads in flight.
template <class T, class Index, class To, class From>
__device__ inline void move_items(Index count, To to, From from) {
  const Index step = Index(all_threads());
  Index i = Index(first_item());
  for (; i + (move_unroll - 1) * step < count; i += move_unroll * step) {
    T loaded[move_unroll];
#pragma unroll
    for (int u = 0; u < move_unroll; ++u) loaded[u] = *from(i + u * step);
#pragma unroll
    for (int u = 0; u < move_unroll; ++u) *to(i + u * step) = loaded[u];
  }
  for (; i < count; i += step) *to(i) = *from(i);
}

// -- one operand ---------------------------------------------------------------------------------

inline constexpr int map_unroll = 4;

// The first `vectors` * n elements as vectors, the others up to `count` one by one.
template <int unroll, class To, class From, class F>
__global__ void map_elements(const From* x, To* y, int64_t vectors, int64_t count, F f) {
  begin_kernel();
  constexpr int n = vector_size<To, From>;
  const auto* in = reinterpret_cast<const Vector<From, n>*>(x);
  auto* out = reinterpret_cast<Vector<To, n>*>(y);
  const int64_t step = all_threads();
  int64_t i = first_item();
  if constexpr (unroll > 1) {
    for (; i + (unroll - 1) * step < vectors; i += unroll * step) {
      Vector<From, n> loaded[unroll];
#pragma unroll
      for (int u = 0; u < unroll; ++u) loaded[u] = in[i + u * step];
#pragma unroll
      for (int u = 0; u < unroll; ++u) {
        Vector<To, n> result;
#pragma unroll
        for (int k = 0; k < n; ++k) result.at[k] = f(loaded[u].at[k]);
        out[i + u * step] = result;
      }
    }
  }
  for (; i < vectors; i += step) {
    const Vector<From, n> loaded = in[i];
    Vector<To, n> result;
#pragma unroll
    for (int k = 0; k < n; ++k) result.at[k] = f(loaded.at[k]);
    out[i] = result;
  }
  for (i = vectors * n + first_item(); i < count; i += step) y[i] = f(x[i]);
}

// y = f(x) at every place, f from From to To; y may be x. Without unrolling an f of long code stays
// small, and computes for longer than it waits.
template <int unroll = map_unroll, class To, class From, class F>
void map(const Context& context, const From* x, To* y, int64_t count, F f) {
  constexpr int n = vector_size<To, From>;
  const int64_t vectors = is_aligned(x, n) && is_aligned(y, n) ? count / n : 0;
  const int64_t items = vectors ? vectors : count;
  launch(context, map_elements<unroll, To, From, F>, grid_unrolled(context, items, unroll), x, y,
         vectors, count, f);
}

// -- two operands --------------------------------------------------------------------------------

// The first `vectors` * n elements as vectors, the others up to `count` one by one.
template <class T, class F>
__global__ void map_pair_elements(const T* a, const T* b, T* y, int64_t vectors, int64_t count,
                                  F f) {
  begin_kernel();
  constexpr int n = vector_size<T, T>;
  for (int64_t i = first_item(); i < vectors; i += all_threads()) {
    const auto from_a = reinterpret_cast<const Vector<T, n>*>(a)[i];
    const auto from_b = reinterpret_cast<const Vector<T, n>*>(b)[i];
    Vector<T, n> result;
#pragma unroll
    for (int k = 0; k < n; ++k) result.at[k] = f(from_a.at[k], from_b.at[k]);
    reinterpret_cast<Vector<T, n>*>(y)[i] = result;
  }
  for (int64_t i = vectors * n + first_item(); i < count; i += all_threads()) y[i] = f(a[i], b[i]);
}

// y = f(a, b) at every place; y may be an operand. Compiled a few times only, for f of long code.
template <class T, class F>
void map_pairs(const Context& context, const T* a, const T* b, T* y, int64_t count, F f) {
  const int64_t vectors = aligned_16(a, b, y) ? count / vector_size<T, T> : 0;
  launch(context, map_pair_elements<T, F>, grid_for(context, vectors ? vectors : count), a, b, y,
         vectors, count, f);
}

inline constexpr int zip_unroll = 2;

// n elements of which the first is `at`, or n times that one.
template <class T, int n>
__device__ inline Vector<T, n> load_run(const T* at, bool repeats) {
  if (!repeats) return *reinterpret_cast<const Vector<T, n>*>(at);
  Vector<T, n> vector;
  const T value = *at;
#pragma unroll
  for (int k = 0; k < n; ++k) vector.at[k] = value;
  return vector;
}

template <int n, class R, class T, class F>
__device__ inline void zip_vectors(const Vector<T, n>& a, const Vector<T, n>& b, R* y, F f) {
  Vector<R, n> result;
#pragma unroll
  for (int k = 0; k < n; ++k) result.at[k] = f(a.at[k], b.at[k]);
  *reinterpret_cast<Vector<R, n>*>(y) = result;
}

// The first `vectors` * n elements of y as vectors, each within a run of the innermost dimension,
// then `tail` elements one by one.
template <int n, class R, class T, class F>
__global__ void zip_elements(const T* a, const T* b, R* y,
                             const __grid_constant__ NestOffsets<2> offsets, bool a_repeats,
                             bool b_repeats, uint32_t vectors, uint32_t tail, F f) {
  begin_kernel();
  const uint32_t first = uint32_t(first_item()), step = uint32_t(all_threads());
  uint32_t i = first;
  for (; i + (zip_unroll - 1) * step < vectors; i += zip_unroll * step) {
    Vector<T, n> from_a[zip_unroll], from_b[zip_unroll];
#pragma unroll
    for (int u = 0; u < zip_unroll; ++u) {
      const auto places = offsets((i + u * step) * n);
      from_a[u] = load_run<T, n>(a + places.at[0], a_repeats);
      from_b[u] = load_run<T, n>(b + places.at[1], b_repeats);
    }
#pragma unroll
    for (int u = 0; u < zip_unroll; ++u) {
      zip_vectors<n>(from_a[u], from_b[u], y + size_t(i + u * step) * n, f);
    }
  }
  for (; i < vectors; i += step) {
    const auto places = offsets(i * n);
    zip_vectors<n>(load_run<T, n>(a + places.at[0], a_repeats),
                   load_run<T, n>(b + places.at[1], b_repeats), y + size_t(i) * n, f);
  }
  if (first < tail) {
    const uint32_t place = vectors * n + first;
    const auto places = offsets(place);
    y[place] = f(a[places.at[0]], b[places.at[1]]);
  }
}

// y = f(a, b), f from T and T to R, over the nest of a and b; y may be an operand of its own shape.
template <class R, class T, class F>
void zip(const Context& context, const LoopNest<2>& nest, const T* a, const T* b, R* y, F f) {
  nest.for_parts([&](const LoopNest<2>& part, int64_t first, const auto& place) {
    constexpr int n = vector_size<T, R>;
    const T *const from_a = a + place[0], *const from_b = b + place[1];
    R* const to = y + first;
    const bool a_repeats = part.inner_stride(0) == 0, b_repeats = part.inner_stride(1) == 0;
    const bool in_vectors =
        is_aligned(to, n) && (part.rank() <= 1 || part.inner_size() % n == 0) &&
        (a_repeats || (is_aligned(from_a, n) && part.outer_strides_divide_by(n, 0))) &&
        (b_repeats || (is_aligned(from_b, n) && part.outer_strides_divide_by(n, 1)));
    const uint32_t total = uint32_t(part.total());
    const uint32_t vectors = in_vectors ? total / n : total;
    const uint32_t tail = in_vectors ? total % n : 0;
    launch(context, in_vectors ? zip_elements<n, R, T, F> : zip_elements<1, R, T, F>,
           grid_unrolled(context, std::max(vectors, tail), zip_unroll), from_a, from_b, to,
           part.offsets(), a_repeats, b_repeats, vectors, tail, f);
  });
}

}  // namespace adret::cuda
