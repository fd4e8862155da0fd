// Fills, ranges, copies and casts.
#include <adret/core/cuda/elementwise.h>
#include <adret/core/cuda/kernels.h>

#include <limits>

namespace adret::cuda {
namespace {

// Towards zero; beyond the range the nearest integer, and 0 for NaN.
template <class Int, class Float>
__host__ __device__ Int truncate(Float value) {
  constexpr Int lowest = std::numeric_limits<Int>::min(), largest = std::numeric_limits<Int>::max();
  constexpr Float limit = Float(largest / 2 + 1) * 2;  // largest + 1, exact
  if (value >= limit) return largest;
  if (value > Float(lowest)) return Int(value);
  return value <= Float(lowest) ? lowest : Int(0);
}

template <class T>
inline constexpr bool is_16_bit_float =
    std::is_same_v<T, __nv_bfloat16> || std::is_same_v<T, __half>;

template <class To, class From>
__host__ __device__ To convert(From value) {
  if constexpr (is_16_bit_float<From>) {
    return convert<To>(float(value));
  } else if constexpr (std::is_same_v<To, bool>) {
    return value != From(0);
  } else if constexpr (is_16_bit_float<To>) {
    return To(float(value));
  } else if constexpr (std::is_floating_point_v<From> && std::is_integral_v<To>) {
    return truncate<To>(value);
  } else {
    return To(value);
  }
}

template <class T>
__global__ void fill(T* y, int64_t vectors, int64_t count, T value) {
  begin_kernel();
  constexpr int n = vector_size<T, T>;
  Vector<T, n> vector;
#pragma unroll
  for (int k = 0; k < n; ++k) vector.at[k] = value;
  for (int64_t i = first_item(); i < vectors; i += all_threads()) {
    reinterpret_cast<Vector<T, n>*>(y)[i] = vector;
  }
  for (int64_t i = vectors * n + first_item(); i < count; i += all_threads()) y[i] = value;
}

// Both halves from their ends.
template <class T>
__global__ void arange(T* y, int64_t count, double first, double step, double last) {
  begin_kernel();
  for (int64_t i = first_item(); i < count; i += all_threads()) {
    y[i] = convert<T>(2 * i < count ? fma(double(i), step, first)
                                    : fma(-double(count - 1 - i), step, last));
  }
}

template <class To>
struct Convert {
  template <class From>
  __device__ To operator()(From value) const {
    return convert<To>(value);
  }
};

template <class From>
void cast_from(const Context& context, const kernels::Cast& call) {
  dispatch_all(call.y.dtype, [&](auto to) {
    using To = decltype(to);
    if constexpr (!std::is_same_v<To, From>) {  // those are copies
      map(context, call.x.as<From>(), call.y.as<To>(), call.y.numel(), Convert<To>());
    }
  });
}

}  // namespace

void run(Context& context, const kernels::Fill& call) {
  dispatch_all(call.y.dtype, [&](auto zero) {
    using T = decltype(zero);
    T* const y = call.y.as<T>();
    constexpr int n = vector_size<T, T>;
    const int64_t count = call.y.numel(), vectors = is_aligned(y, n) ? count / n : 0;
    launch(context, fill<T>, grid_for(context, vectors ? vectors : count), y, vectors, count,
           convert<T>(call.value));
  });
}

void run(Context& context, const kernels::Arange& call) {
  dispatch_all(call.y.dtype, [&](auto zero) {
    using T = decltype(zero);
    launch(context, arange<T>, grid_for(context, call.y.numel()), call.y.as<T>(), call.y.numel(),
           call.first, call.step, call.last);
  });
}

void run(Context& context, const kernels::Copy& call) {
  dispatch_size(call.y.dtype, [&](auto zero) {
    using T = decltype(zero);
    map(context, call.x.as<T>(), call.y.as<T>(), call.y.numel(), Convert<T>());
  });
}

void run(Context& context, const kernels::Cast& call) {
  // A boolean is a byte of 0 or 1.
  const bool is_byte = call.x.dtype == DType::boolean && call.y.dtype == DType::u8;
  if (is_byte || call.x.dtype == call.y.dtype) {
    return run(context, kernels::Copy{.x = call.x, .y = call.y});
  }
  switch (call.x.dtype) {
    case DType::u8:
    case DType::boolean: return cast_from<uint8_t>(context, call);
    case DType::i32: return cast_from<int32_t>(context, call);
    case DType::i64: return cast_from<int64_t>(context, call);
    default:
      dispatch_float(call.x.dtype, call.name,
                     [&](auto from) { cast_from<decltype(from)>(context, call); });
  }
}

}  // namespace adret::cuda
