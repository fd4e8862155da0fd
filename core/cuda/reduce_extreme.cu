// The largest or smallest element of each line, and its place.
#include <adret/core/cuda/kernels.h>
#include <adret/core/cuda/lines.h>

#include <type_traits>

namespace adret::cuda {
namespace {

// The best element so far and its place in the line; a place below 0: none yet. Of equal ones, and
// of NaNs, the first stays.
template <bool largest, class V>
struct Best {
  V value = 0;
  int64_t place = -1;

  __device__ void merge(const Best& other) {
    if (other.place >= 0 && (place < 0 || loses_to(other))) *this = other;
  }

 private:
  __device__ bool loses_to(const Best& other) const {
    const bool is_nan = value != value, other_is_nan = other.value != other.value;
    const bool is_earlier = other.place < place;
    if (is_nan || other_is_nan) return other_is_nan && (!is_nan || is_earlier);
    if (value == other.value) return is_earlier;
    return largest ? other.value > value : other.value < value;
  }
};

template <bool largest, class T>
struct FindExtreme {
  using V = std::conditional_t<std::is_integral_v<T>, T, Accumulator<T>>;
  const T* x;
  T* values;  // may be null, as indices
  int64_t* indices;

  template <int n, class Team>
  __device__ void run(int64_t at, Line line, const Team& team) const {
    const T* const from[] = {x + at};
    Best<largest, V> best;
    for_vectors<n>(from, line, team, [&](int64_t place, const Vector<T, n>(&in)[1]) {
#pragma unroll
      for (int k = 0; k < n; ++k) best.merge({V(in[0].at[k]), place + k});
    });
    best = team.reduce(best);
    if (line.length == 0 || team.rank() != 0) return;
    const int64_t outer = at / (line.length * line.stride);
    const int64_t to = at - outer * (line.length - 1) * line.stride;
    if (values) values[to] = T(best.value);
    if (indices) indices[to] = best.place / line.stride;
  }
};

template <class T>
void run_in(const Context& context, const kernels::Extreme& call) {
  const T* const x = call.x.as<T>();
  T* const values = call.values.as<T>();
  int64_t* const indices = call.indices.as<int64_t>();
  const auto with = [&](const auto& find) {
    run_lines<T>(context, find, call.x.shape, call.dim, aligned_16(x));
  };
  call.largest ? with(FindExtreme<true, T>{x, values, indices})
               : with(FindExtreme<false, T>{x, values, indices});
}

}  // namespace

void run(Context& context, const kernels::Extreme& call) {
  switch (call.x.dtype) {
    case DType::i32: return run_in<int32_t>(context, call);
    case DType::i64: return run_in<int64_t>(context, call);
    default:
      dispatch_float(call.x.dtype, call.name,
                     [&](auto zero) { run_in<decltype(zero)>(context, call); });
  }
}

}  // namespace adret::cuda
