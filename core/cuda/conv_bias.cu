// Sums over the rows of a matrix: the gradient of a bias, and the last stage of other sums.
#include <adret/core/backend.h>
#include <adret/core/cuda/conv_direct.h>
#include <adret/core/cuda/launch.h>
#include <adret/core/cuda/team.h>
#include <adret/core/cuda/workspace.h>

#include <algorithm>
#include <optional>

namespace adret::cuda {
namespace {

constexpr int threads = 256, most_tiles = 1024;

// Blocks of each tile, for each lane; zero between launches.
__device__ unsigned arrived[GraphOrder::lanes][most_tiles];

// The threads of a block are `lanes` rows of `width` columns of vectors: for few columns
// neighbours in memory, whatever their number.
template <class T, int n>
__device__ void add_rows(Accumulator<T> (&sums)[n], const Vector<T, n>* data, int64_t first,
                         int64_t rows, int64_t step, int64_t columns) {
  constexpr int in_flight = 4;
  int64_t row = first;
  for (; row + (in_flight - 1) * step < rows; row += in_flight * step) {
    Vector<T, n> loaded[in_flight];
#pragma unroll
    for (int i = 0; i < in_flight; ++i) loaded[i] = data[(row + i * step) * columns];
#pragma unroll
    for (int i = 0; i < in_flight; ++i) {
#pragma unroll
      for (int j = 0; j < n; ++j) sums[j] += widen(loaded[i].at[j]);
    }
  }
  for (; row < rows; row += step) {
    const Vector<T, n> loaded = data[row * columns];
#pragma unroll
    for (int j = 0; j < n; ++j) sums[j] += widen(loaded.at[j]);
  }
}

// Leaves the sum over the lanes in those of lane 0. All threads of the block call it.
template <class A, int n>
__device__ void reduce_lanes(A (&sums)[n], int width, int lanes, int column, int lane) {
  __shared__ A shared[threads][n];
  const int at = lane * width + column;
  for (int left = lanes; left > 1; left = (left + 1) / 2) {
    const int half = (left + 1) / 2;
    if (lane >= half && lane < left) {
#pragma unroll
      for (int j = 0; j < n; ++j) shared[at][j] = sums[j];
    }
    __syncthreads();
    if (lane < left - half) {
#pragma unroll
      for (int j = 0; j < n; ++j) sums[j] += shared[at + half * width][j];
    }
    __syncthreads();  // before the next use
  }
}

// sums (columns) of data (rows, columns), both in vectors of n. A block sums a part of the rows of
// one tile of `width` columns into `partial` (parts, columns), and the last of a tile adds up the
// parts.
template <class T, class Out, int n>
__global__ void sum_columns(const Vector<T, n>* data, Vector<Out, n>* sums,
                            Vector<Accumulator<T>, n>* partial, int64_t rows, int64_t columns,
                            int width, int counters) {
  begin_kernel();
  using A = Accumulator<T>;
  const int lanes = threads / width;
  const int column = int(threadIdx.x) % width, lane = int(threadIdx.x) / width;
  const int64_t at = int64_t(blockIdx.x) * width + column;
  const bool works = lane < lanes && at < columns;
  const int part = int(blockIdx.y), parts = int(gridDim.y);

  A total[n] = {};
  if (works) {
    add_rows(total, data + at, int64_t(part) * lanes + lane, rows, int64_t(parts) * lanes, columns);
  }
  reduce_lanes(total, width, lanes, column, lane);
  if (parts > 1) {
    if (works && lane == 0) {
      Vector<A, n> sum;
#pragma unroll
      for (int j = 0; j < n; ++j) sum.at[j] = total[j];
      partial[part * columns + at] = sum;
    }
    if (!is_last_block(&arrived[counters][blockIdx.x], unsigned(parts))) return;
#pragma unroll
    for (int j = 0; j < n; ++j) total[j] = 0;
    if (works) add_rows<A>(total, partial + at, lane, parts, lanes, columns);
    reduce_lanes(total, width, lanes, column, lane);
  }
  if (works && lane == 0) {
    Vector<Out, n> sum;
#pragma unroll
    for (int j = 0; j < n; ++j) sum.at[j] = narrow<Out>(total[j]);
    sums[at] = sum;
  }
}

template <class T, class Out, int n>
void sum_by(const Context& context, const T* data, Out* sums, int64_t rows, int64_t columns) {
  using A = Accumulator<T>;
  const int64_t vectors = columns / n;
  int width = int(std::min<int64_t>(vectors, 32));
  // Few rows: more blocks side by side instead of more parts.
  while (rows <= 2048 && width > 8 && divide_up(vectors, width) < context.multiprocessors()) {
    width = (width + 1) / 2;
  }
  const int64_t tiles = divide_up(vectors, width), lanes = threads / width;
  int64_t parts = 1;
  if (tiles <= most_tiles) {
    const int64_t useful = divide_up(rows, lanes * 16);
    parts =
        std::clamp<int64_t>(2 * context.multiprocessors() / tiles, 1, std::max<int64_t>(useful, 1));
  }
  std::optional<Workspace> partial;
  if (parts > 1) partial.emplace(context, size_t(parts * columns) * sizeof(A));
  launch(context, sum_columns<T, Out, n>,
         {.blocks = dim3(unsigned(tiles), unsigned(parts)), .threads = threads},
         reinterpret_cast<const Vector<T, n>*>(data), reinterpret_cast<Vector<Out, n>*>(sums),
         partial ? partial->template as<Vector<A, n>>() : nullptr, rows, vectors, width,
         context.lane);
}

}  // namespace

void column_sums(const Context& context, DType dtype, const void* data, void* sums, int64_t rows,
                 int64_t columns) {
  if (columns == 0) return;
  dispatch_float(dtype, "column_sums", [&](auto zero) {
    using T = decltype(zero);
    constexpr int n = 16 / int(sizeof(T));
    const T* const from = static_cast<const T*>(data);
    T* const to = static_cast<T*>(sums);
    if (columns % n == 0 && aligned_16(data, sums)) {
      sum_by<T, T, n>(context, from, to, rows, columns);
    } else {
      sum_by<T, T, 1>(context, from, to, rows, columns);
    }
  });
}

void column_sums_of_parts(const Context& context, DType dtype, const void* parts, void* sums,
                          int64_t rows, int64_t columns) {
  dispatch_float(dtype, "column_sums", [&](auto zero) {
    using T = decltype(zero);
    using A = Accumulator<T>;
    sum_by<A, T, 1>(context, static_cast<const A*>(parts), static_cast<T*>(sums), rows, columns);
  });
}

}  // namespace adret::cuda
