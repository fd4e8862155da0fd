// Kernels that only move elements.
#include <adret/core/cuda/elementwise.h>
#include <adret/core/cuda/index_places.h>
#include <adret/core/cuda/index_strided.h>
#include <adret/core/cuda/kernels.h>

namespace adret::cuda {
namespace {

// -- permutations --------------------------------------------------------------------------------

constexpr int tile = 32, tile_rows = 8;

// y[i * y_step + j] = x[i + j * x_step] for `rows` i and `columns` j, in many places.
struct Transpose {
  NestOffsets<2> places;  // offsets of each matrix in x and y
  FastDivisor tiles_per_matrix, column_tiles;
  int64_t rows, columns, x_step, y_step;
  uint32_t tiles;
};

// A block moves tiles through shared memory, so that both sides are read and written in runs.
template <class T>
__global__ void transpose(const T* x, T* y, const __grid_constant__ Transpose shape) {
  begin_kernel();
  __shared__ T shared[tile][tile + 1];
  const int lane = int(threadIdx.x), line = int(threadIdx.y);
  for (uint32_t at = blockIdx.x; at < shape.tiles; at += gridDim.x) {
    const uint32_t matrix = shape.tiles_per_matrix.quotient(at);
    const uint32_t within = at - matrix * shape.tiles_per_matrix.divisor();
    const uint32_t row_tile = shape.column_tiles.quotient(within);
    const int64_t first_row = int64_t(row_tile) * tile;
    const int64_t first_column = int64_t(within - row_tile * shape.column_tiles.divisor()) * tile;
    const auto place = shape.places(matrix);
#pragma unroll
    for (int k = 0; k < tile; k += tile_rows) {
      const int64_t i = first_row + lane, j = first_column + line + k;
      if (i < shape.rows && j < shape.columns) {
        shared[line + k][lane] = x[place.at[0] + i + j * shape.x_step];
      }
    }
    __syncthreads();
#pragma unroll
    for (int k = 0; k < tile; k += tile_rows) {
      const int64_t i = first_row + line + k, j = first_column + lane;
      if (i < shape.rows && j < shape.columns) {
        y[place.at[1] + i * shape.y_step + j] = shared[lane][line + k];
      }
    }
    __syncthreads();
  }
}

// y's dimensions with the strides in x.
LoopNest<1> nest_of(const kernels::Permute& call) {
  std::array<int64_t, Shape::max_rank> strides{};
  int64_t stride = 1;
  for (int d = call.x.shape.rank() - 1; d >= 0; --d) {
    strides[size_t(d)] = stride;
    stride *= call.x.shape[d];
  }
  LoopNest<1> nest;
  for (int d = 0; d < call.y.shape.rank(); ++d) {
    nest.add(call.y.shape[d], {strides[size_t(call.order[size_t(d)])]});
  }
  return nest;
}

// The last dimension of y and the one along which x is dense make the matrices. Says no, and does
// nothing, when those are too small for tiles.
bool transpose_by_tiles(const Context& context, const LoopNest<1>& nest,
                        const kernels::Permute& call) {
  const int last = nest.rank() - 1;
  int dense = 0;
  while (nest.stride(dense, 0) != 1) ++dense;
  Transpose shape{
      .rows = nest.size(dense), .columns = nest.inner_size(), .x_step = nest.inner_stride(0)};
  const int64_t column_tiles = divide_up(shape.columns, tile),
                tiles_per_matrix = divide_up(shape.rows, tile) * column_tiles,
                tiles = nest.total() / (shape.rows * shape.columns) * tiles_per_matrix;
  constexpr int64_t least = tile / 2;
  if (shape.rows < least || shape.columns < least || tiles > INT32_MAX) return false;

  std::array<int64_t, Shape::max_rank> y_strides{};
  int64_t stride = 1;
  for (int d = last; d >= 0; --d) {
    y_strides[size_t(d)] = stride;
    stride *= nest.size(d);
  }
  LoopNest<2> matrices;
  for (int d = 0; d < last; ++d) {
    if (d != dense) matrices.add(nest.size(d), {nest.stride(d, 0), y_strides[size_t(d)]});
  }
  shape.places = matrices.offsets();
  shape.tiles_per_matrix = FastDivisor(uint32_t(tiles_per_matrix));
  shape.column_tiles = FastDivisor(uint32_t(column_tiles));
  shape.y_step = y_strides[size_t(dense)];
  shape.tiles = uint32_t(tiles);

  Grid grid = grid_for(context, tiles * tile * tile_rows);
  grid.threads = dim3(tile, tile_rows);
  dispatch_size(call.y.dtype, [&](auto zero) {
    using T = decltype(zero);
    launch(context, transpose<T>, grid, call.x.as<T>(), call.y.as<T>(), shape);
  });
  return true;
}

// -- runs and rows -------------------------------------------------------------------------------

// Steps from run to run, in elements of T.
template <class T, class Divisor>
__global__ void copy_runs(const T* x, int64_t x_step, T* y, int64_t y_step, Divisor length,
                          typename Divisor::Index count) {
  begin_kernel();
  using Index = typename Divisor::Index;
  const auto place = [=](Index i, int64_t step) {
    const Index run = length.quotient(i);
    return int64_t(run) * step + int64_t(i - run * length.divisor());
  };
  move_items<T>(
      count, [=](Index i) { return y + place(i, y_step); },
      [=](Index i) { return x + place(i, x_step); });
}

// How a gather reads: element i of y, (outer, length, inner), from x, (outer, size, inner). A place
// outside x gives `absent`.
template <class T, class Divisor>
struct Gathering {
  using Index = typename Divisor::Index;
  const T* x;
  Indices indices;
  Divisor inner, length;
  int64_t size;
  bool alike;  // one index for all elements at a place of y
  T absent;

  __device__ T operator()(Index i) const {
    const Index row = inner.quotient(i), outer = length.quotient(row);
    const int64_t index = indices[alike ? row - outer * length.divisor() : i];
    if (index < 0 || index >= size) return absent;
    const int64_t from = (int64_t(outer) * size + index) * int64_t(inner.divisor());
    return x[from + int64_t(i - row * inner.divisor())];
  }
};

template <class T, class Divisor>
__global__ void gather(const __grid_constant__ Gathering<T, Divisor> from, T* y,
                       typename Divisor::Index count) {
  begin_kernel();
  using Index = typename Divisor::Index;
  const Index step = Index(all_threads());
  Index i = Index(first_item());
  for (; i + (move_unroll - 1) * step < count; i += move_unroll * step) {
    T loaded[move_unroll];
#pragma unroll
    for (int u = 0; u < move_unroll; ++u) loaded[u] = from(i + u * step);
#pragma unroll
    for (int u = 0; u < move_unroll; ++u) y[i + u * step] = loaded[u];
  }
  for (; i < count; i += step) y[i] = from(i);
}

}  // namespace

void run(Context& context, const kernels::Permute& call) {
  if (call.y.numel() == 0) return;
  const LoopNest<1> nest = nest_of(call);
  if (nest.rank() <= 1) return run(context, kernels::Copy{.x = call.x, .y = call.y});
  if (nest.inner_stride(0) != 1 && transpose_by_tiles(context, nest, call)) return;
  if (permute_blocks(context, nest, call.x, call.y)) return;
  copy_strided(context, nest, call.x, call.y);
}

void run(Context& context, const kernels::CopyRuns& call) {
  const int64_t size = int64_t(size_of(call.y.dtype)), bytes = call.length * size;
  if (call.count == 0 || bytes == 0) return;
  const std::byte* const x = call.x.as<std::byte>() + call.x_offset * size;
  std::byte* const y = call.y.as<std::byte>() + call.y_offset * size;
  const bool steps = call.count > 1;
  const int64_t x_step = steps ? call.x_stride * size : 0,
                y_step = steps ? call.y_stride * size : 0;
  const int64_t unit = int64_t(common_unit(uintptr_t(x), uintptr_t(y), bytes, x_step, y_step));
  const int64_t length = bytes / unit, count = call.count * length;
  dispatch_unit(size_t(unit), [&](auto zero) {
    using T = decltype(zero);
    with_divisor(length, count, [&](auto divisor) {
      using Divisor = decltype(divisor);
      launch(context, copy_runs<T, Divisor>, grid_unrolled(context, count, move_unroll),
             reinterpret_cast<const T*>(x), x_step / unit, reinterpret_cast<T*>(y), y_step / unit,
             divisor, typename Divisor::Index(count));
    });
  });
}

void run(Context& context, const kernels::Gather& call) {
  if (call.y.numel() == 0) return;
  const bool alike = call.indices.shape.rank() == 1;
  const int64_t size = int64_t(size_of(call.y.dtype)), inner = inner_size(call.y.shape, call.dim);
  const int64_t unit =
      alike ? int64_t(common_unit(uintptr_t(call.x.data), uintptr_t(call.y.data), inner * size))
            : size;
  const int64_t count = int64_t(call.y.bytes()) / unit;
  dispatch_unit(size_t(unit), [&](auto zero) {
    using T = decltype(zero);
    with_divisor(inner * size / unit, count, [&](auto divisor) {
      using Divisor = decltype(divisor);
      using Index = typename Divisor::Index;
      const Gathering<T, Divisor> from{.x = call.x.as<T>(),
                                       .indices = indices_of(call.indices),
                                       .inner = divisor,
                                       .length = Divisor(Index(call.y.shape[call.dim])),
                                       .size = call.x.shape[call.dim],
                                       .alike = alike,
                                       .absent = repeated<T>(absent_bits(call.y.dtype))};
      launch(context, gather<T, Divisor>, grid_unrolled(context, count, move_unroll), from,
             call.y.as<T>(), Index(count));
    });
  });
}

}  // namespace adret::cuda
