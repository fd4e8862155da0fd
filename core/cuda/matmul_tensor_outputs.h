// From the sums of a block's warps, and of a cluster's blocks, to outputs.
#pragma once

#include <adret/core/cuda/cluster.h>
#include <adret/core/cuda/matmul_epilogue.h>
#include <adret/core/cuda/matmul_tensor_sums.h>

#include <bit>

namespace adret::cuda {

// Its member functions are called by all threads of the block, in this order: load_beside, gather,
// finish.
template <class T, class Shape>
class TileOutputs {
  static constexpr int tile = Shape::tile, threads = Shape::threads, warps_k = Shape::warps_k;
  static constexpr int groups = threads / tile;          // of threads with sums of the same rows
  static constexpr int outputs = tile * tile / threads;  // of a thread, some of them at once
  static constexpr int at_once = outputs < 4 ? outputs : 4;

 public:
  // The block's own sums. Rows begin 8 or 24 banks apart, for pairs of neighbours that 4 lanes of
  // each of 4 rows write at once.
  struct Parts {
    float of_warps[warps_k][tile][tile + 8];
    float of_rows[groups][tile];
  };
  // What the blocks of a cluster send: each of its sums of the outputs that this block finishes,
  // one block's behind the other's, and to the first block the sums of rows.
  struct Inbox {
    float outputs[tile * tile];
    float of_rows[most_tensor_splits][tile];
  };

  __device__ TileOutputs(const TensorArguments<T>& arguments, const TensorPart& part, Parts& parts,
                         Inbox& inbox)
      : p(arguments), part_(part), parts_(parts), inbox_(inbox) {
    if (p.log_splits > 0) cluster_arrive();  // before a peer is sent anything, it must have begun
  }

  // What is beside the first outputs, or what they are added to, ahead of its use.
  __device__ void load_beside() { load_beside_from(0); }

  // Adds up the warps' sums, and sends them to those blocks that need them.
  template <class Sums>
  __device__ void gather(const Sums& sums) {
    store(sums);
    __syncthreads();
    if (p.log_splits == 0) return;
    cluster_wait();
    send();
    cluster_arrive();
    cluster_wait();
  }

  __device__ void finish() {
#pragma unroll 1
    for (int first = 0; first < outputs; first += at_once) {
      float beside[at_once];
#pragma unroll
      for (int o = 0; o < at_once; ++o) beside[o] = beside_[o];
      if (first + at_once < outputs) load_beside_from(first + at_once);
      for_outputs(first, [&](int o, int mine, int row, int column) {
        const float sum = sum_of_output(mine);
        y(row, column) =
            narrow<T>(p.accumulate ? sum + beside[o] : after(p.epilogue, sum, beside[o]));
      });
    }
    const int line = int(threadIdx.x);
    if (part_.sums_rows && part_.rank == 0 && line < tile && part_.row + line < p.rows) {
      p.beside[part_.row + line] = narrow<T>(sum_of_row(line));
    }
  }

 private:
  template <class Sums>
  __device__ void store(const Sums& sums) {
    const int lane = int(threadIdx.x) % 32;
#pragma unroll
    for (int m = 0; m < Shape::warp_rows / 16; ++m) {
#pragma unroll
      for (int n = 0; n < Shape::warp_columns / 8; ++n) {
#pragma unroll
        for (int half = 0; half < 2; ++half) {
          const int r = Shape::warp_row() + m * 16 + half * 8 + lane / 4;
          const int c = Shape::warp_column() + n * 8 + lane % 4 * 2;
          const float* const pair = &sums.of_warp[m][n][2 * half];
          *reinterpret_cast<float2*>(&parts_.of_warps[Shape::warp_k()][r][c]) =
              make_float2(pair[0], pair[1]);
        }
      }
    }
    if (part_.sums_rows) parts_.of_rows[threadIdx.x / tile][threadIdx.x % tile] = sums.of_row;
  }

  // The block's sum of the tile's output i, and of row `line` of op(a).
  __device__ float sum_of_warps(int i) const {
    float sum = 0;
#pragma unroll
    for (int w = 0; w < warps_k; ++w) sum += parts_.of_warps[w][i / tile][i % tile];
    return sum;
  }
  __device__ float sum_of_groups(int line) const {
    float sum = 0;
    for (int g = 0; g < groups; ++g) sum += parts_.of_rows[g][line];
    return sum;
  }

  // How many of the tile's outputs a block of the cluster finishes: a power of two.
  __device__ int log_owned() const {
    return std::countr_zero(unsigned(tile * tile)) - p.log_splits;
  }
  __device__ int owned() const { return 1 << log_owned(); }

  __device__ void send() {
    for (int i = int(threadIdx.x); i < tile * tile; i += threads) {
      float* const to = &inbox_.outputs[part_.rank * owned() + (i & (owned() - 1))];
      store_in_block(to, i >> log_owned(), sum_of_warps(i));
    }
    if (part_.sums_rows && threadIdx.x < tile) {
      store_in_block(&inbox_.of_rows[part_.rank][threadIdx.x], 0, sum_of_groups(int(threadIdx.x)));
    }
  }

  // The whole sum of the block's output number `mine`, and of row `line` of op(a) in the first
  // block.
  __device__ float sum_of_output(int mine) const {
    if (p.log_splits == 0) return sum_of_warps(mine);
    float sum = 0;
    for (int r = 0; r < 1 << p.log_splits; ++r) sum += inbox_.outputs[r * owned() + mine];
    return sum;
  }
  __device__ float sum_of_row(int line) const {
    if (p.log_splits == 0) return sum_of_groups(line);
    float sum = 0;
    for (int r = 0; r < 1 << p.log_splits; ++r) sum += inbox_.of_rows[r][line];
    return sum;
  }

  // f(o, number among the block's, row, column) for the thread's outputs from number `first` on
  // that lie in y.
  template <class F>
  __device__ void for_outputs(int first, F f) const {
#pragma unroll
    for (int o = 0; o < at_once; ++o) {
      const int mine = (first + o) * threads + int(threadIdx.x), i = part_.rank * owned() + mine;
      const int row = part_.row + i / tile, column = part_.column + i % tile;
      if (mine < owned() && row < p.rows && column < p.columns) f(o, mine, row, column);
    }
  }

  __device__ void load_beside_from(int first) {
    for_outputs(first, [&](int o, int, int row, int column) {
      beside_[o] = p.accumulate ? widen(y(row, column))
                                : beside_at(p.epilogue, p.beside, row, column, p.columns);
    });
  }

  __device__ T& y(int row, int column) const {
    return p.y[(int64_t(blockIdx.z) * p.rows + row) * p.columns + column];
  }

  const TensorArguments<T>& p;
  const TensorPart& part_;
  Parts& parts_;
  Inbox& inbox_;
  float beside_[at_once];
};

}  // namespace adret::cuda
