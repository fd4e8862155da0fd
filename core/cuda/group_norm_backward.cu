// Gradients of layer norm and RMS norm: a team takes rows in turn, and keeps the sums for the
// parameters in registers.
#include <adret/core/cuda/group_norm.h>
#include <adret/core/cuda/kernels.h>
#include <adret/core/cuda/vectors.h>
#include <adret/core/cuda/workspace.h>

#include <optional>

namespace adret::cuda {
namespace {

// What a thread sums over its rows.
template <int n, int held, class A>
struct ParameterSums {
  A weight[held][n] = {}, bias[held][n] = {};
};

// Keeps the compiler from keeping in registers what it has made of x: made again, that takes half
// of them.
template <class T, int n>
__device__ void forget_widened(Vector<T, n>& x) {
  if constexpr (sizeof(x) == sizeof(uint4) && sizeof(T) == 2) {
    uint4 word;
    memcpy(&word, &x, sizeof(x));
    asm volatile("" : "+r"(word.x), "+r"(word.y), "+r"(word.z), "+r"(word.w));
    memcpy(&x, &word, sizeof(x));
  }
}

template <int n, int held, class T, class Team>
__device__ void differentiate_row(const SampleNormGradients<T>& f, int64_t row, int width,
                                  bool exists, const Team& team,
                                  ParameterSums<n, held, Accumulator<T>>& own) {
  using A = Accumulator<T>;
  const int vectors = exists ? width / n : 0;
  const int64_t at = row * width;
  Vector<T, n> x[held], dy[held], dsum[held];
#pragma unroll
  for (int k = 0; k < held; ++k) {
    const int v = team.rank() + k * team.size();
    if (v >= vectors) continue;
    x[k] = load<T, n>(f.x + at + v * n);
    dy[k] = load<T, n>(f.dy + at + v * n);
  }
  if (f.dsum) {
#pragma unroll
    for (int k = 0; k < held; ++k) {
      const int v = team.rank() + k * team.size();
      if (v < vectors) dsum[k] = load<T, n>(f.dsum + at + v * n);
    }
  }
  const A centre = f.centre(row), rstd = f.rstd[row];
  TwoSums<A> sums;
#pragma unroll
  for (int k = 0; k < held; ++k) {
    const int v = team.rank() + k * team.size();
    if (v >= vectors) continue;
    Group<A, n> weight = parameters<n>(f.weight, v * n, A(1));
    A values[n], gradients[n];
    widen(x[k], values);
    widen(dy[k], gradients);
#pragma unroll
    for (int i = 0; i < n; ++i) {
      const A centred = values[i] - centre, gradient = gradients[i];
      own.weight[k][i] += gradient * (centred * rstd);
      own.bias[k][i] += gradient;
      sums.a += gradient * weight[i];
      sums.b += gradient * weight[i] * centred;
    }
  }
  if (!f.dx) return;
#pragma unroll
  for (int k = 0; k < held; ++k) {
    forget_widened(x[k]);
    forget_widened(dy[k]);
  }
  const SampleSlopes<A> slopes(team.reduce(sums), A(width), f.centered, rstd);
#pragma unroll
  for (int k = 0; k < held; ++k) {
    const int v = team.rank() + k * team.size();
    if (v >= vectors) continue;
    Group<A, n> weight = parameters<n>(f.weight, v * n, A(1));
    A values[n], gradients[n], more[n];
    widen(x[k], values);
    widen(dy[k], gradients);
    if (f.dsum) widen(dsum[k], more);
#pragma unroll
    for (int i = 0; i < n; ++i) {
      values[i] = slopes.gradient(gradients[i] * weight[i], values[i] - centre);
      if (f.dsum) values[i] += more[i];
    }
    store<T, n>(f.dx + at + v * n, narrow<T>(values));
  }
}

// Adds up what the block's teams of `lanes` threads have, and leaves it in the block's part.
template <int threads, int n, int held, class A>
__device__ void store_part(const ParameterSums<n, held, A>& sums, int lanes, int width, A* parts) {
  __shared__ A shared[2][threads * n];
  A* const part = parts + int64_t(blockIdx.x) * 2 * width;
  const int own = int(threadIdx.x), teams = int(blockDim.x) / lanes, columns = lanes * n;
#pragma unroll
  for (int k = 0; k < held; ++k) {
#pragma unroll
    for (int i = 0; i < n; ++i) {
      shared[0][own * n + i] = sums.weight[k][i];
      shared[1][own * n + i] = sums.bias[k][i];
    }
    __syncthreads();
    for (int j = own; j < 2 * columns; j += int(blockDim.x)) {
      const int which = j / columns, column = j - which * columns, c = k * columns + column;
      A total = 0;
#pragma unroll 4
      for (int team = 0; team < teams; ++team) total += shared[which][team * columns + column];
      if (c < width) part[which * width + c] = total;
    }
    __syncthreads();
  }
}

// Fewer threads where the sums take more registers.
template <int held>
constexpr int lane_threads = held == 4 ? 384 : 256;
template <int held>
constexpr int lane_blocks = held == 4 ? 1 : 2;  // a multiprocessor

template <int n, int held, class T>
__global__ void __launch_bounds__(lane_threads<held>, lane_blocks<held>)
    differentiate_by_lanes(SampleNormGradients<T> f, int64_t rows, int width, int lanes) {
  begin_kernel();
  ParameterSums<n, held, Accumulator<T>> sums;
  const Lanes team(lanes);
  const int64_t teams = all_threads() / lanes, before = first_item() % 32 / lanes;
  for (int64_t first = first_item() / lanes - before; first < rows; first += teams) {
    const int64_t row = first + before;
    differentiate_row<n, held>(f, row < rows ? row : 0, width, row < rows, team, sums);
  }
  if (f.parts) store_part<lane_threads<held>, n, held>(sums, lanes, width, f.parts);
}

template <int n, class T>
__global__ void __launch_bounds__(most_row_threads)
    differentiate_by_block(SampleNormGradients<T> f, int64_t rows, int width) {
  begin_kernel();
  ParameterSums<n, 4, Accumulator<T>> sums;
  for (int64_t row = blockIdx.x; row < rows; row += gridDim.x) {
    differentiate_row<n, 4>(f, row, width, true, Block(), sums);
  }
  if (f.parts) store_part<most_row_threads, n, 4>(sums, int(blockDim.x), width, f.parts);
}

// The kernel for rows of this length, its threads, and how many blocks it has.
template <class T>
struct RowsLaunch {
  void (*by_lanes)(SampleNormGradients<T>, int64_t, int, int);  // null: by_block
  void (*by_block)(SampleNormGradients<T>, int64_t, int);
  int lanes;
  Grid grid;
};

template <int n, int held, class T>
RowsLaunch<T> launch_by_lanes(const Context& context, int64_t rows, int lanes) {
  const int64_t teams = lane_threads<held> / lanes;
  const int64_t most = int64_t(context.multiprocessors()) * lane_blocks<held>;
  return {.by_lanes = differentiate_by_lanes<n, held, T>,
          .by_block = nullptr,
          .lanes = lanes,
          .grid = {.blocks = unsigned(std::min(most, divide_up(rows, teams))),
                   .threads = unsigned(lane_threads<held>)}};
}

template <int n, class T>
RowsLaunch<T> launch_for(const Context& context, int64_t rows, int width) {
  const auto [lanes, held] = held_row(width / n);
  if (lanes > 32) {
    const int64_t most = int64_t(context.multiprocessors()) * std::max(1, 384 / lanes);
    return {.by_lanes = nullptr,
            .by_block = differentiate_by_block<n, T>,
            .lanes = lanes,
            .grid = {.blocks = unsigned(std::min(most, rows)), .threads = unsigned(lanes)}};
  }
  if (held == 1) return launch_by_lanes<n, 1, T>(context, rows, lanes);
  if (held == 3) return launch_by_lanes<n, 3, T>(context, rows, lanes);
  return launch_by_lanes<n, 4, T>(context, rows, lanes);
}

template <int n, class T>
void differentiate_rows(Context& context, SampleNormGradients<T> f,
                        const kernels::GroupNormBackward& call) {
  using A = Accumulator<T>;
  const int64_t rows = call.x.shape[0];
  const int width = int(call.x.shape[2]);
  const RowsLaunch<T> how = launch_for<n, T>(context, rows, width);
  const int64_t parts = how.grid.blocks.x;
  std::optional<Workspace> workspace;
  if (call.dweight.defined() || call.dbias.defined()) {
    workspace.emplace(context, size_t(parts * 2 * width) * sizeof(A));
    f.parts = workspace->as<A>();
  }
  if (how.by_lanes) {
    launch(context, how.by_lanes, how.grid, f, rows, width, how.lanes);
  } else {
    launch(context, how.by_block, how.grid, f, rows, width);
  }
  if (f.parts) add_parameter_parts(context, f.parts, parts, call);
}

// A column of the parts for each x of the block.
template <class A>
__global__ void __launch_bounds__(512)
    add_up_parts(const A* parts, int64_t count, int64_t channels, A* dweight, A* dbias) {
  begin_kernel();
  const int64_t column = int64_t(blockIdx.x) * blockDim.x + threadIdx.x;
  Total<double> total;
  if (column < 2 * channels) {
#pragma unroll 8
    for (int64_t i = threadIdx.y; i < count; i += blockDim.y) {
      total.value += double(parts[i * 2 * channels + column]);
    }
  }
  total = Column().reduce(total);
  if (threadIdx.y != 0 || column >= 2 * channels) return;
  A* const to = column < channels ? dweight : dbias;
  if (to) to[column % channels] = A(total.value);
}

}  // namespace

template <class A>
void add_parameter_parts(const Context& context, const A* parts, int64_t count,
                         const kernels::GroupNormBackward& call) {
  const int64_t channels = call.x.shape[2];
  launch(context, add_up_parts<A>,
         {.blocks = unsigned(divide_up(2 * channels, 32)), .threads = dim3(32, 16)}, parts, count,
         channels, call.dweight.as<A>(), call.dbias.as<A>());
}
template void add_parameter_parts(const Context&, const float*, int64_t,
                                  const kernels::GroupNormBackward&);
template void add_parameter_parts(const Context&, const double*, int64_t,
                                  const kernels::GroupNormBackward&);

void run(Context& context, const kernels::GroupNormBackward& call) {
  dispatch_float(call.x.dtype, call.name, [&](auto zero) {
    using T = decltype(zero);
    using A = Accumulator<T>;
    constexpr int n = sizeof(T) == 8 ? 1 : 16 / int(sizeof(T));  // f64 is for checks
    if (call.x.numel() == 0) {
      add_parameter_parts<A>(context, nullptr, 0, call);
    } else if (is_held_rows(call, n) && reads_vectors<T>(call)) {
      differentiate_rows<n>(context, operands_of<T>(call), call);
    } else if (is_held_rows(call, 1)) {
      differentiate_rows<1>(context, operands_of<T>(call), call);
    } else {
      differentiate_places(context, call);
    }
  });
}

}  // namespace adret::cuda
