// What the kernels that normalise each sample by itself share: operands, statistics, and which of
// them takes a call.
#pragma once

#include <adret/core/cuda/group.h>
#include <adret/core/cuda/launch.h>
#include <adret/core/cuda/team.h>
#include <adret/core/kernels/group_norm.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>

namespace adret::cuda {

// Note [Normalising samples on CUDA]
// Layer norm and RMS norm have one place and one group: x is rows. While a row fits into the
// registers of a few neighbouring lanes, a warp or a block, these read it once. Backward, a team
// takes many rows and keeps the sums of the parameters' gradients in registers; its block leaves
// them in memory, and a second kernel adds up those of all blocks. All else, group and instance
// norm and the longest rows, is read once for each sum, in slices that stay in the L2
// (group_norm_places.cu).

// Null where absent.
template <class T>
struct SampleNorm {
  using A = Accumulator<T>;
  const T *x, *added;
  const A *weight, *bias;
  T *sum, *y;
  A *mean, *rstd;
  A epsilon;
  bool centered;
};

template <class T>
SampleNorm<T> operands_of(const kernels::GroupNormForward& call) {
  using A = Accumulator<T>;
  return {.x = call.x.as<T>(),
          .added = call.added.as<T>(),
          .weight = call.weight.as<A>(),
          .bias = call.bias.as<A>(),
          .sum = call.sum.as<T>(),
          .y = call.y.as<T>(),
          .mean = call.mean.as<A>(),
          .rstd = call.rstd.as<A>(),
          .epsilon = A(call.epsilon),
          .centered = call.centered};
}

template <class T>
struct SampleNormGradients {
  using A = Accumulator<T>;
  const T *x, *dy, *dsum;
  const A *weight, *mean, *rstd;
  T* dx;
  A* parts;  // (blocks, 2, C): a block's sums for dweight and dbias
  bool centered;

  __device__ A centre(int64_t group) const { return centered ? mean[group] : A(0); }
};

template <class T>
SampleNormGradients<T> operands_of(const kernels::GroupNormBackward& call) {
  using A = Accumulator<T>;
  return {.x = call.x.as<T>(),
          .dy = call.dy.as<T>(),
          .dsum = call.dsum.as<T>(),
          .weight = call.weight.as<A>(),
          .mean = call.mean.as<A>(),
          .rstd = call.rstd.as<A>(),
          .dx = call.dx.as<T>(),
          .parts = nullptr,
          .centered = call.centered};
}

template <class A>
struct TwoSums {
  A a = 0, b = 0;
  __device__ void merge(const TwoSums& other) {
    a += other.a;
    b += other.b;
  }
};

// From the sums of the deviations from `centre`, which is close to the mean, and of their squares:
// so a large mean costs no precision. The mean is centre + lost.
template <class A>
struct SampleStatistics {
  A centre, lost, rstd;

  __device__ SampleStatistics(A centre, const TwoSums<A>& sums, A count, bool centered, A epsilon)
      : centre(centre), lost(centered ? sums.a / count : A(0)) {
    const A variance = sums.b / count - lost * lost;
    rstd = A(1) / sqrt((variance < 0 ? A(0) : variance) + epsilon);  // fmax would hide a NaN
  }
  template <class T>
  __device__ void keep(const SampleNorm<T>& call, int64_t group) const {
    if (call.mean) call.mean[group] = centre + lost;
    if (call.rstd) call.rstd[group] = rstd;
  }
};

// dx = rstd * (dy * weight - offset - centred x * slope) (Ba et al. 2016), from the sums over a
// group of g = dy * weight and of g times the centred x.
template <class A>
struct SampleSlopes {
  A rstd, offset, slope;

  __device__ SampleSlopes(const TwoSums<A>& sums, A count, bool centered, A rstd)
      : rstd(rstd), offset(centered ? sums.a / count : A(0)), slope(sums.b / count * rstd * rstd) {}
  __device__ A gradient(A g, A centred) const { return rstd * (g - offset - centred * slope); }
};

// n channels' of weight or bias, or `otherwise` where that is absent.
template <int n, class A>
__device__ Group<A, n> parameters(const A* of, int64_t at, A otherwise) {
  Group<A, n> values;
  if (of) {
    values.load(of + at, n, true);
  } else {
#pragma unroll
    for (int i = 0; i < n; ++i) values[i] = otherwise;
  }
  return values;
}

// -- who takes what ------------------------------------------------------------------------------

// How a row of some vectors is held: `held` vectors by each of `lanes` neighbours; more than 32
// are a block of that many threads, with 4 vectors each.
struct HeldRow {
  int lanes, held;
};
inline constexpr int most_row_threads = 256;
inline constexpr int most_row_vectors = most_row_threads * 4;

inline HeldRow held_row(int64_t vectors) {
  if (vectors <= 8) return {int(std::bit_ceil(uint64_t(vectors))), 1};
  for (const HeldRow& row : {HeldRow{16, 1}, {8, 3}, {8, 4}, {16, 3}, {16, 4}, {32, 3}, {32, 4}}) {
    if (row.lanes * row.held >= vectors) return row;
  }
  return {int(divide_up(vectors, 4 * 32)) * 32, 4};
}

// Rows that the registers hold, n elements a vector.
template <class Call>
bool is_held_rows(const Call& call, int n) {
  const int64_t width = call.x.shape[2];
  return call.x.shape[1] == 1 && call.groups == 1 && width % n == 0 &&
         width / n <= most_row_vectors;
}

// Whether operands of T may be read 16 bytes at a time, where vectors of n do not cross groups.
template <class T>
bool reads_vectors(const kernels::GroupNormForward& call) {
  return (call.x.shape[2] / call.groups) % (16 / int(sizeof(T))) == 0 &&
         aligned_16(call.x.data, call.added.data, call.weight.data, call.bias.data, call.sum.data,
                    call.y.data);
}
template <class T>
bool reads_vectors(const kernels::GroupNormBackward& call) {
  return (call.x.shape[2] / call.groups) % (16 / int(sizeof(T))) == 0 &&
         aligned_16(call.x.data, call.dy.data, call.dsum.data, call.weight.data, call.dx.data);
}

// Of any shape.
void normalise_places(Context& context, const kernels::GroupNormForward& call);
void differentiate_places(Context& context, const kernels::GroupNormBackward& call);

// dweight and dbias from `count` parts, in f64 and in their order.
template <class A>
void add_parameter_parts(const Context& context, const A* parts, int64_t count,
                         const kernels::GroupNormBackward& call);

}  // namespace adret::cuda
