// Layer norm and RMS norm: rows that a team of threads holds in registers.
#include <adret/core/cuda/group_norm.h>
#include <adret/core/cuda/kernels.h>
#include <adret/core/cuda/vectors.h>

namespace adret::cuda {
namespace {

// A thread's elements of x + added, as numbers. `vectors` is 0 for a row that does not exist.
template <int n, int held, class T, class Team>
__device__ void load_row(const SampleNorm<T>& f, int64_t at, int vectors, const Team& team,
                         Accumulator<T> (&s)[held][n]) {
  Vector<T, n> x[held], added[held];
#pragma unroll
  for (int k = 0; k < held; ++k) {
    const int v = team.rank() + k * team.size();
    if (v < vectors) x[k] = load<T, n>(f.x + at + v * n);
  }
  if (f.added) {
#pragma unroll
    for (int k = 0; k < held; ++k) {
      const int v = team.rank() + k * team.size();
      if (v < vectors) added[k] = load<T, n>(f.added + at + v * n);
    }
  }
#pragma unroll
  for (int k = 0; k < held; ++k) {
    widen(x[k], s[k]);
    if (!f.added) continue;
    Accumulator<T> more[n];
    widen(added[k], more);
#pragma unroll
    for (int i = 0; i < n; ++i) s[k][i] += more[i];
  }
}

template <int n, int held, class T, class Team>
__device__ void store_sum(const SampleNorm<T>& f, int64_t at, int vectors, const Team& team,
                          const Accumulator<T> (&s)[held][n]) {
#pragma unroll
  for (int k = 0; k < held; ++k) {
    const int v = team.rank() + k * team.size();
    if (v < vectors) store<T, n>(f.sum + at + v * n, narrow<T>(s[k]));
  }
}

template <int n, int held, class T, class Team>
__device__ void normalise_row(const SampleNorm<T>& f, int64_t row, int width, bool exists,
                              const Team& team) {
  using A = Accumulator<T>;
  const int vectors = exists ? width / n : 0;
  const int64_t at = row * width;
  A s[held][n];
  load_row<n, held>(f, at, vectors, team, s);
  if (f.sum) store_sum<n, held>(f, at, vectors, team, s);

  Total<A> total;
  if (f.centered) {
#pragma unroll
    for (int k = 0; k < held; ++k) {
      if (team.rank() + k * team.size() >= vectors) continue;
#pragma unroll
      for (int i = 0; i < n; ++i) total.value += s[k][i];
    }
    total = team.reduce(total);
  }
  const A centre = total.value / A(width);
  TwoSums<A> sums;
#pragma unroll
  for (int k = 0; k < held; ++k) {
    if (team.rank() + k * team.size() >= vectors) continue;
#pragma unroll
    for (int i = 0; i < n; ++i) {
      s[k][i] -= centre;
      sums.a += s[k][i];
      sums.b += s[k][i] * s[k][i];
    }
  }
  const SampleStatistics<A> statistics(centre, team.reduce(sums), A(width), f.centered, f.epsilon);
  if (team.rank() == 0 && exists) statistics.keep(f, row);
#pragma unroll
  for (int k = 0; k < held; ++k) {
    const int v = team.rank() + k * team.size();
    if (v >= vectors) continue;
    Group<A, n> weight = parameters<n>(f.weight, v * n, A(1));
    Group<A, n> bias = parameters<n>(f.bias, v * n, A(0));
#pragma unroll
    for (int i = 0; i < n; ++i) {
      s[k][i] = (s[k][i] - statistics.lost) * statistics.rstd * weight[i] + bias[i];
    }
    store<T, n>(f.y + at + v * n, narrow<T>(s[k]));
  }
}

// A row for each team. A warp stays together: lanes beyond the last row reduce nothing.
template <int n, int held, class T>
__global__ void __launch_bounds__(128, held == 4 ? 5 : 6)
    normalise_by_lanes(SampleNorm<T> f, int64_t rows, int width, int lanes) {
  begin_kernel();
  const int64_t row = first_item() / lanes;
  normalise_row<n, held>(f, row < rows ? row : 0, width, row < rows, Lanes(lanes));
}

template <int n, class T>
__global__ void __launch_bounds__(most_row_threads) normalise_by_block(SampleNorm<T> f, int width) {
  begin_kernel();
  normalise_row<n, 4>(f, blockIdx.x, width, true, Block());
}

template <int n, class T>
void normalise_rows(Context& context, const SampleNorm<T>& f, int64_t rows, int width) {
  const auto [lanes, held] = held_row(width / n);
  if (lanes > 32) {
    launch(context, normalise_by_block<n, T>,
           {.blocks = unsigned(rows), .threads = unsigned(lanes)}, f, width);
    return;
  }
  const auto kernel = held == 1   ? normalise_by_lanes<n, 1, T>
                      : held == 3 ? normalise_by_lanes<n, 3, T>
                                  : normalise_by_lanes<n, 4, T>;
  launch(context, kernel, {.blocks = unsigned(divide_up(rows * lanes, 128)), .threads = 128}, f,
         rows, width, lanes);
}

}  // namespace

void run(Context& context, const kernels::GroupNormForward& call) {
  if (call.x.numel() == 0) return;
  dispatch_float(call.x.dtype, call.name, [&](auto zero) {
    using T = decltype(zero);
    constexpr int n = sizeof(T) == 8 ? 1 : 16 / int(sizeof(T));  // f64 is for checks
    const int64_t rows = call.x.shape[0];
    const int width = int(std::min<int64_t>(call.x.shape[2], INT32_MAX));
    if (is_held_rows(call, n) && reads_vectors<T>(call)) {
      normalise_rows<n>(context, operands_of<T>(call), rows, width);
    } else if (is_held_rows(call, 1)) {
      normalise_rows<1>(context, operands_of<T>(call), rows, width);
    } else {
      normalise_places(context, call);
    }
  });
}

}  // namespace adret::cuda
