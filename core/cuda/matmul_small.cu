// Matrix products too small to fill the device: one launch, depth split over the warps of a block.
#include <adret/core/cuda/launch.h>
#include <adret/core/cuda/matmul_epilogue.h>
#include <adret/core/cuda/matmul_plan.h>

namespace adret::cuda {
namespace {

constexpr int tile = 16;    // outputs of a block in either direction
constexpr int chunk = 128;  // of the depth that is in shared memory at once
constexpr int threads = 256, warps = threads / 32;
constexpr int loads = tile * chunk / threads;  // elements of an operand that a thread brings in
constexpr int row_length = chunk + 4;          // so that eight rows begin in different banks

template <class T>
struct Arguments {
  const T *a, *b;
  T *y, *beside;  // `beside` may be null
  int rows, columns, depth;
  Epilogue epilogue;
  bool accumulate;
};

// Element i of a thread's share of a tile: which line of the operand, and where in the depth.
// Neighbouring threads read neighbouring elements.
template <bool along_depth>
struct Place {
  int line, k;
  __device__ explicit Place(int i) {
    const int element = i * threads + int(threadIdx.x);
    line = along_depth ? element / chunk : element % tile;
    k = along_depth ? element % chunk : element / tile;
  }
};

// A share of the tile at `line`, `k` of an operand with `lines` rows or columns, which lie along
// the depth or across it; zero outside.
template <bool along_depth, class T>
__device__ void load(T (&held)[loads], const T* from, int line, int lines, int k, int depth) {
#pragma unroll
  for (int i = 0; i < loads; ++i) {
    const Place<along_depth> place(i);
    const int l = line + place.line, d = k + place.k;
    const bool inside = l < lines && d < depth;
    held[i] = inside ? from[along_depth ? l * depth + d : d * lines + l] : narrow<T>(0);
  }
}

template <class A>
using Tile = A[tile][row_length];

template <bool along_depth, class T>
__device__ void store(const T (&held)[loads], Tile<Accumulator<T>>& to) {
#pragma unroll
  for (int i = 0; i < loads; ++i) {
    const Place<along_depth> place(i);
    to[place.line][place.k] = widen(held[i]);
  }
}

// The sums of a lane: rows lane / 4 and 8 beyond, columns lane % 4 and every fourth.
template <class A>
struct Sums {
  A at[2][4] = {};
  static __device__ int row(int lane, int i) { return lane / 4 + 8 * i; }
  static __device__ int column(int lane, int j) { return lane % 4 + 4 * j; }

  // Adds the products over k..k + 3.
  __device__ void add(const Tile<A>& a, const Tile<A>& b, int lane, int k) {
    Vector<A, 4> left[2], right[4];
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      left[i] = *reinterpret_cast<const Vector<A, 4>*>(&a[row(lane, i)][k]);
    }
#pragma unroll
    for (int j = 0; j < 4; ++j) {
      right[j] = *reinterpret_cast<const Vector<A, 4>*>(&b[column(lane, j)][k]);
    }
#pragma unroll
    for (int q = 0; q < 4; ++q) {
#pragma unroll
      for (int i = 0; i < 2; ++i) {
#pragma unroll
        for (int j = 0; j < 4; ++j) at[i][j] += left[i].at[q] * right[j].at[q];
      }
    }
  }
};

// Sums the warps' parts in their order, applies the epilogue, and writes.
template <class T>
__device__ void finish(const Arguments<T>& p, const Sums<Accumulator<T>>& sums,
                       Accumulator<T> (&parts)[warps][tile][tile + 1], int row, int column, T* y) {
  using A = Accumulator<T>;
  const int warp = int(threadIdx.x) / 32, lane = int(threadIdx.x) % 32;
  for (int i = 0; i < 2; ++i) {
    for (int j = 0; j < 4; ++j) {
      parts[warp][sums.row(lane, i)][sums.column(lane, j)] = sums.at[i][j];
    }
  }
  __syncthreads();
  const int r = int(threadIdx.x) / tile, c = int(threadIdx.x) % tile;
  if (row + r >= p.rows || column + c >= p.columns) return;
  A value = 0;
  for (int w = 0; w < warps; ++w) value += parts[w][r][c];
  T& to = y[(row + r) * p.columns + column + c];
  if (p.accumulate) value += widen(to);
  const A beside = beside_at(p.epilogue, p.beside, row + r, column + c, p.columns);
  to = narrow<T>(after(p.epilogue, value, beside));
}

template <class T, bool transpose_a, bool transpose_b>
__global__ void __launch_bounds__(threads) multiply_tile(Arguments<T> p) {
  begin_kernel();
  using A = Accumulator<T>;
  union Shared {
    struct {
      Tile<A> a, b;
    } tiles;
    A parts[warps][tile][tile + 1];
    A column_sums[threads / tile][tile];
  };
  alignas(32) __shared__ unsigned char memory[sizeof(Shared)];
  Shared& shared = *reinterpret_cast<Shared*>(memory);

  const int column = int(blockIdx.x) * tile, row = int(blockIdx.y) * tile;
  const int64_t item = blockIdx.z;
  const T* const a = p.a + item * p.rows * p.depth;
  const T* const b = p.b + item * p.depth * p.columns;
  const int warp = int(threadIdx.x) / 32, lane = int(threadIdx.x) % 32;
  Sums<A> sums;
  T held_a[loads], held_b[loads];
  // Each thread brings elements of one row of op(a), when that lies across the depth.
  const bool sums_a = transpose_a && p.epilogue == Epilogue::bias_gradient && blockIdx.x == 0;
  A sum_of_row = 0;

  load<!transpose_a>(held_a, a, row, p.rows, 0, p.depth);
  load<transpose_b>(held_b, b, column, p.columns, 0, p.depth);
  for (int k = 0; k < p.depth; k += chunk) {
    __syncthreads();  // the chunk before has been used
    store<!transpose_a>(held_a, shared.tiles.a);
    store<transpose_b>(held_b, shared.tiles.b);
    __syncthreads();
    if (sums_a) {
      for (int i = 0; i < loads; ++i) sum_of_row += widen(held_a[i]);
    }
    const int left = p.depth - k;
    if (left > chunk) {  // comes in while this one is used
      load<!transpose_a>(held_a, a, row, p.rows, k + chunk, p.depth);
      load<transpose_b>(held_b, b, column, p.columns, k + chunk, p.depth);
    }
    // A warp's share, in fours; the tiles are zero beyond the depth.
    const int share = ((left < chunk ? left : chunk) + 4 * warps - 1) / (4 * warps) * 4;
    for (int i = warp * share; i < (warp + 1) * share; i += 4) {
      sums.add(shared.tiles.a, shared.tiles.b, lane, i);
    }
  }

  __syncthreads();
  if (sums_a) {
    shared.column_sums[threadIdx.x / tile][threadIdx.x % tile] = sum_of_row;
    __syncthreads();
    if (threadIdx.x < tile && row + int(threadIdx.x) < p.rows) {
      A total = 0;
      for (int i = 0; i < threads / tile; ++i) total += shared.column_sums[i][threadIdx.x];
      p.beside[row + threadIdx.x] = narrow<T>(total);
    }
    __syncthreads();
  }
  finish(p, sums, shared.parts, row, column, p.y + item * p.rows * p.columns);
}

template <class T>
void multiply_as(Context& context, const Product& p, const ProductOperands& operands) {
  const Arguments<T> arguments{.a = operands.a.as<const T>(),
                               .b = operands.b.as<const T>(),
                               .y = operands.y.as<T>(),
                               .beside = operands.beside.as<T>(),
                               .rows = int(p.rows),
                               .columns = int(p.columns),
                               .depth = int(p.depth),
                               .epilogue = p.epilogue,
                               .accumulate = p.accumulate};
  const Grid grid{.blocks = dim3(unsigned(divide_up(p.columns, tile)),
                                 unsigned(divide_up(p.rows, tile)), unsigned(p.batch)),
                  .threads = threads};
  if (p.transpose_a) {
    launch(context, p.transpose_b ? multiply_tile<T, true, true> : multiply_tile<T, true, false>,
           grid, arguments);
  } else {
    launch(context, p.transpose_b ? multiply_tile<T, false, true> : multiply_tile<T, false, false>,
           grid, arguments);
  }
}

}  // namespace

void multiply_small(Context& context, const Product& product, const ProductOperands& operands) {
  dispatch_float(operands.y.dtype, "matmul",
                 [&](auto zero) { multiply_as<decltype(zero)>(context, product, operands); });
}

}  // namespace adret::cuda
