// A block's sums of products over its part of the depth, in registers: chunks come in, tensor cores
// use them.
#pragma once

#include <adret/core/cuda/matmul_tensor_tile.h>

namespace adret::cuda {

// Note [Small products on tensor cores]
// What bounds a small product is latency, so its work is spread over many multiprocessors, and much
// of what it reads is under way at once. A block computes a square tile of y. Its warps form a grid
// over the tile and over the depth: each chunk of the depth, brought in `stages` - 1 chunks ahead,
// is shared out among `warps_k` of them step by step. Their sums are added in shared memory, in
// their order. With more than one split, the blocks of a cluster have one tile, and each a part of
// the depth; a block then sends each of its peers the sums of those outputs that the peer is to
// finish, and the peer adds them in the blocks' order. So the same tiling gives the same bits.

// warps_m x warps_n warps over a tile, warps_k over the depth of a chunk of `chunk_bytes` a line.
template <int tile_, int warps_m_, int warps_n_, int warps_k_, int chunk_bytes_>
struct TensorShape {
  static constexpr int tile = tile_, warps_m = warps_m_, warps_n = warps_n_, warps_k = warps_k_;
  static constexpr int chunk_bytes = chunk_bytes_, stages = 4;
  static constexpr int threads = 32 * warps_m * warps_n * warps_k;
  static constexpr int warp_rows = tile / warps_m, warp_columns = tile / warps_n;

  // Where the warp is in the tile, and among those that share the depth.
  static __device__ int warp() { return int(threadIdx.x) / 32; }
  static __device__ int warp_k() { return warp() % warps_k; }
  static __device__ int warp_row() { return warp() / warps_k % warps_m * warp_rows; }
  static __device__ int warp_column() { return warp() / (warps_k * warps_m) * warp_columns; }
};

template <class T>
struct TensorArguments {
  const T *a, *b;
  T *y, *beside;  // `beside` as in ProductOperands, may be null
  int rows, columns, depth;
  int share, log_splits;           // of the depth for one block; logarithm of how many blocks share
  int log_vector_a, log_vector_b;  // logarithms of the bytes that are copied at once
  Epilogue epilogue;
  bool accumulate;
};

// What a block has of the work.
struct TensorPart {
  int rank, row, column;  // in the cluster; of the tile's first output
  int begin, end;         // of the depth
  bool sums_rows;         // of op(a), for the bias's gradient: one column of tiles does

  template <class T>
  __device__ TensorPart(const TensorArguments<T>& p, int tile)
      : rank(int(blockIdx.x) & ((1 << p.log_splits) - 1)),
        row(int(blockIdx.y) * tile),
        column(int(blockIdx.x >> p.log_splits) * tile),
        begin(rank * p.share),
        end(min(p.depth, begin + p.share)),
        sums_rows(p.epilogue == Epilogue::bias_gradient && column == 0) {}
};

// Its member functions are called by all threads of the block.
template <class T, class Shape, bool transpose_a, bool transpose_b>
class TileSums {
  static constexpr int tile = Shape::tile, threads = Shape::threads, stages = Shape::stages;
  static constexpr int warps_k = Shape::warps_k;
  static constexpr int chunk = Shape::chunk_bytes / int(sizeof(T));
  using A = OperandTile<T, !transpose_a, tile, chunk, threads>;
  using B = OperandTile<T, transpose_b, tile, chunk, threads>;

 public:
  static constexpr int stage_bytes = A::bytes + B::bytes;

  // `shared` has room for `stages` chunks, or for all that there are.
  __device__ TileSums(const TensorArguments<T>& arguments, const TensorPart& part, char* shared)
      : p(arguments), part_(part), shared_(shared) {
    chunks_ = (part.end - part.begin + chunk - 1) / chunk;
  }

  // The first chunks are on their way.
  __device__ void begin() {
#pragma unroll 1
    for (int i = 0; i < stages - 1; ++i) start(i);
  }

  // Shared memory may be used for something else behind it.
  __device__ void run() {
    for (int i = 0; i < chunks_; ++i) {
      wait_for_copies<stages - 2>();
      __syncthreads();  // chunk i is there; chunk i - 1, whose place the next one takes, is used
      start(i + stages - 1);
      multiply(i);
      if (transpose_a && part_.sums_rows) add_rows(i);
    }
    wait_for_copies<0>();
    __syncthreads();
  }

  // Of the warp's 16 x 8 parts of the tile, as multiply_add has them; and of a row of op(a), the
  // thread's number modulo the tile's size, as far as the thread had it.
  float of_warp[Shape::warp_rows / 16][Shape::warp_columns / 8][4] = {};
  float of_row = 0;

 private:
  // A part of an operand that has `lines` in all, `line` on and `k` on in the depth.
  template <bool along_depth>
  __device__ TilePart part(const T* operand, int line, int lines, int k) const {
    constexpr int size = int(sizeof(T));
    const int64_t width = along_depth ? p.depth : lines;
    const int row = along_depth ? line : k, column = along_depth ? k : line;
    return {.at = reinterpret_cast<const char*>(operand + row * width + column),
            .pitch = width * size,
            .rows_left = (along_depth ? lines : part_.end) - row,
            .bytes_left = ((along_depth ? part_.end : lines) - column) * size};
  }

  __device__ char* stage(int i) const { return shared_ + unsigned(i) % stages * stage_bytes; }

  // Starts the copies of chunk i, if there is one.
  __device__ void start(int i) {
    if (i < chunks_) {
      const int k = part_.begin + i * chunk;
      const int64_t item = blockIdx.z;
      A::copy(stage(i), part<!transpose_a>(p.a + item * p.rows * p.depth, part_.row, p.rows, k),
              p.log_vector_a);
      B::copy(stage(i) + A::bytes,
              part<transpose_b>(p.b + item * p.depth * p.columns, part_.column, p.columns, k),
              p.log_vector_b);
    }
    commit_copies();
  }

  // Adds the warp's share of chunk i.
  __device__ void multiply(int i) {
    const int left = (part_.end - part_.begin - i * chunk) * int(sizeof(T));
#pragma unroll
    for (int s = 0; s < Shape::chunk_bytes / tensor_step_bytes / warps_k; ++s) {
      const int step = s * warps_k + Shape::warp_k();
      if (step * tensor_step_bytes >= left) break;
      uint32_t a[Shape::warp_rows / 16][4], b[Shape::warp_columns / 16][4];
#pragma unroll
      for (int m = 0; m < Shape::warp_rows / 16; ++m) {
        A::load_fragment(a[m], stage(i), Shape::warp_row() + m * 16, step);
      }
#pragma unroll
      for (int n = 0; n < Shape::warp_columns / 16; ++n) {
        B::load_fragment(b[n], stage(i) + A::bytes, Shape::warp_column() + n * 16, step);
      }
#pragma unroll
      for (int m = 0; m < Shape::warp_rows / 16; ++m) {
#pragma unroll
        for (int n = 0; n < Shape::warp_columns / 16; ++n) {
          multiply_add<T>(of_warp[m][2 * n], a[m], b[n][0], b[n][2]);
          multiply_add<T>(of_warp[m][2 * n + 1], a[m], b[n][1], b[n][3]);
        }
      }
    }
  }

  // Adds chunk i to the sums of rows of op(a); the tile is zero beyond the depth.
  __device__ void add_rows(int i) {
    for (int k = int(threadIdx.x) / tile; k < chunk; k += threads / tile) {
      of_row += A::at(stage(i), int(threadIdx.x) % tile, k);
    }
  }

  const TensorArguments<T>& p;
  const TensorPart& part_;
  char* const shared_;
  int chunks_;
};

}  // namespace adret::cuda
