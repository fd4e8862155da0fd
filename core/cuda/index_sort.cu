// Lines put in order: short ones by a warp each, else all elements at once, by their line and then
// their value.
#include <adret/core/cuda/elementwise.h>
#include <adret/core/cuda/index_order.h>
#include <adret/core/cuda/index_places.h>
#include <adret/core/cuda/index_sort_lines.h>
#include <adret/core/cuda/kernels.h>

#include <string>
#include <type_traits>

namespace adret::cuda {
namespace {

// -- keys ----------------------------------------------------------------------------------------

// Unsigned integers in the order of the values, of so many bits: NaN is the largest, and 0 equals
// -0.
template <class T>
struct ValueKey {  // boolean and u8
  static constexpr int bits = 8;
  static __device__ uint64_t of(T value) { return uint64_t(value); }
};
template <class T>
__device__ uint64_t key_of_integer(T value) {
  using Bits = std::make_unsigned_t<T>;
  return uint64_t(Bits(value) ^ (Bits(1) << (8 * sizeof(T) - 1)));
}
template <>
struct ValueKey<int32_t> {
  static constexpr int bits = 32;
  static __device__ uint64_t of(int32_t value) { return key_of_integer(value); }
};
template <>
struct ValueKey<int64_t> {
  static constexpr int bits = 64;
  static __device__ uint64_t of(int64_t value) { return key_of_integer(value); }
};
// Floats below 0 have the reverse order of their bits.
template <class Bits>
__device__ uint64_t key_of_float(Bits value) {
  constexpr Bits sign = Bits(1) << (8 * sizeof(Bits) - 1);
  return value & sign ? Bits(~value) : Bits(value | sign);
}
template <>
struct ValueKey<float> {
  static constexpr int bits = 32;
  static __device__ uint64_t of(float value) {
    if (value != value) return ~0u;
    return key_of_float(value == 0 ? 0u : __float_as_uint(value));
  }
};
template <>
struct ValueKey<double> {
  static constexpr int bits = 64;
  static __device__ uint64_t of(double value) {
    if (value != value) return ~uint64_t(0);
    return key_of_float(value == 0 ? uint64_t(0) : uint64_t(__double_as_longlong(value)));
  }
};
template <>
struct ValueKey<__nv_bfloat16> : ValueKey<float> {
  static __device__ uint64_t of(__nv_bfloat16 value) { return ValueKey<float>::of(float(value)); }
};
template <>
struct ValueKey<__half> : ValueKey<float> {
  static __device__ uint64_t of(__half value) { return ValueKey<float>::of(float(value)); }
};

// -- lines ---------------------------------------------------------------------------------------

// Of a tensor (outer, length, inner) along `length`.
struct Lines {
  FastDivisor block, inner, length;  // block: length * inner

  __device__ uint32_t line_of(uint32_t element) const {
    const uint32_t outer = block.quotient(element);
    const uint32_t column = element - inner.quotient(element) * inner.divisor();
    return outer * inner.divisor() + column;
  }
  __device__ uint32_t place_of(uint32_t element) const {
    const uint32_t row = inner.quotient(element);
    return row - length.quotient(row) * length.divisor();
  }
};

Lines lines_of(int64_t length, int64_t inner) {
  return {FastDivisor(uint32_t(length * inner)), FastDivisor(uint32_t(inner)),
          FastDivisor(uint32_t(length))};
}

template <class T>
__global__ void write_keys(const T* x, uint64_t* keys, uint32_t* places,
                           const __grid_constant__ Lines lines, bool descending, bool with_line,
                           uint32_t count) {
  begin_kernel();
  constexpr int bits = ValueKey<T>::bits;
  constexpr uint64_t mask = ~uint64_t(0) >> (64 - bits);
  for (int64_t i = first_item(); i < count; i += all_threads()) {
    uint64_t key = ValueKey<T>::of(x[i]);
    if (descending) key = ~key & mask;
    if constexpr (bits < 64) {
      if (with_line) key |= uint64_t(lines.line_of(uint32_t(i))) << bits;
    }
    keys[i] = key;
    places[i] = uint32_t(i);
  }
}

__global__ void write_line_keys(uint64_t* keys, const uint32_t* places,
                                const __grid_constant__ Lines lines, uint32_t count) {
  begin_kernel();
  for (int64_t i = first_item(); i < count; i += all_threads()) keys[i] = lines.line_of(places[i]);
}

// places: of x's elements, line after line in order; y has the first ones of each line.
template <class T>
__global__ void write_sorted(const T* x, const uint32_t* places, T* y, int64_t* indices,
                             const __grid_constant__ Lines x_lines,
                             const __grid_constant__ Lines y_lines, uint32_t count) {
  begin_kernel();
  for (int64_t i = first_item(); i < count; i += all_threads()) {
    const uint32_t to = uint32_t(i), line = y_lines.line_of(to);
    const uint32_t from = places[line * x_lines.length.divisor() + y_lines.place_of(to)];
    y[to] = x[from];
    if (indices) indices[to] = x_lines.place_of(from);
  }
}

template <class T>
void sort(Context& context, const kernels::Sort& call) {
  const int64_t count = call.x.numel(), length = call.x.shape[call.dim],
                inner = inner_size(call.x.shape, call.dim);
  const Lines lines = lines_of(length, inner), y_lines = lines_of(call.y.shape[call.dim], inner);
  const int bits = ValueKey<T>::bits, line_bits = bits_of(uint64_t(count / length - 1));
  const bool at_once = bits < 64;
  const Grid grid = grid_for(context, count);
  OrderedPairs pairs(context, count);
  launch(context, write_keys<T>, grid, call.x.as<T>(), pairs.keys(), pairs.places(), lines,
         call.descending, at_once, uint32_t(count));
  pairs.sort(at_once ? bits + line_bits : bits);
  if (!at_once && line_bits > 0) {
    launch(context, write_line_keys, grid, pairs.keys(), pairs.places(), lines, uint32_t(count));
    pairs.sort(line_bits);
  }
  launch(context, write_sorted<T>, grid_for(context, call.y.numel()), call.x.as<T>(),
         pairs.places(), call.y.as<T>(), call.indices.as<int64_t>(), lines, y_lines,
         uint32_t(call.y.numel()));
}

}  // namespace

void run(Context& context, const kernels::Sort& call) {
  if (call.y.numel() == 0) return;
  if (can_sort_lines(call)) return sort_lines(context, call);
  if (call.x.numel() > INT32_MAX) {
    throw ShapeError("[sort] takes up to 2^31 - 1 elements on CUDA, got " +
                     std::to_string(call.x.numel()));
  }
  dispatch_all(call.x.dtype, [&](auto zero) { sort<decltype(zero)>(context, call); });
}

}  // namespace adret::cuda
