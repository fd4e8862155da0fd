// A part of an operand in shared memory: how it gets there, and from there into fragments.
#pragma once

#include <adret/core/cuda/matmul_tensor.h>
#include <adret/core/cuda/tensor_core.h>

namespace adret::cuda {

// A part of an operand in global memory, row by row.
struct TilePart {
  const char* at;
  int64_t pitch;              // bytes from one row to the next
  int rows_left, bytes_left;  // to the operand's end: down, and along a row
};

// Note [Tiles without bank conflicts]
// A tile has `lines` rows of op(a) or columns of op(b), `depth` long, in the order of global
// memory: a row of the tile is a line (along_depth), or runs across the lines at one place of the
// depth. Fragments are read 8 rows of 16 bytes at a time by ldmatrix, so rows begin an odd multiple
// of 16 bytes apart. Only f32 across the depth must be turned, which ldmatrix cannot do in words of
// 32 bits: each lane reads its own, 8 lines of 4 rows in one load, and rows that begin 8 or 24
// banks apart keep these apart.

template <class T, bool along_depth, int lines, int depth, int threads>
struct OperandTile {
  static constexpr int size = int(sizeof(T));
  static constexpr int rows = along_depth ? lines : depth;
  static constexpr int row_bytes = (along_depth ? depth : lines) * size;
  static constexpr int stride = row_bytes + (!along_depth && size == 4 ? 32 : 16);
  static constexpr int bytes = rows * stride, bytes_of_rows = rows * row_bytes;
  static constexpr int step_bytes = tensor_step_bytes;

  // Starts the thread's copies of a part, 1 << log_vector bytes each: a size that its address, its
  // pitch and its bytes_left are multiples of. Beyond the operand's end the tile is zero.
  static __device__ void copy(char* tile, const TilePart& from, int log_vector) {
    if (log_vector == 4) {
      static_assert(bytes_of_rows % (16 * threads) == 0);
#pragma unroll
      for (int i = 0; i < bytes_of_rows / 16 / threads; ++i) {
        copy_vector(tile, from, i * threads + int(threadIdx.x), 4);
      }
    } else {
#pragma unroll 1
      for (int i = int(threadIdx.x); i < bytes_of_rows >> log_vector; i += threads) {
        copy_vector(tile, from, i, log_vector);
      }
    }
  }

  // A lane's four registers of 16 lines from `line` on, over one step of the depth: of lines 0-7
  // and 8-15 in its first half, then of both in its second. The order is that of mma's first
  // operand; as a second one, registers 0 and 2 are columns 0-7, 1 and 3 are columns 8-15.
  static __device__ void load_fragment(uint32_t (&to)[4], const char* tile, int line, int step) {
    const int lane = int(threadIdx.x) % 32;
    if constexpr (along_depth) {
      load_matrices(to, tile + (line + lane % 16) * stride + step * step_bytes + lane / 16 * 16);
    } else if constexpr (size == 2) {
      const int row = step * (step_bytes / size) + lane / 16 * 8 + lane % 8;
      load_matrices_transposed(to, tile + row * stride + (line + lane / 8 % 2 * 8) * size);
    } else {
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        const int row = step * (step_bytes / size) + i / 2 * 4 + lane % 4;
        const int column = line + i % 2 * 8 + lane / 4;
        to[i] = *reinterpret_cast<const uint32_t*>(tile + row * stride + column * size);
      }
    }
    if constexpr (size == 4) {
#pragma unroll
      for (int i = 0; i < 4; ++i) to[i] = round_to_tf32(to[i]);
    }
  }

  // Element of a line in the part of the depth that is in the tile.
  static __device__ Accumulator<T> at(const char* tile, int line, int k) {
    const int row = along_depth ? line : k, column = along_depth ? k : line;
    return widen(*reinterpret_cast<const T*>(tile + row * stride + column * size));
  }

 private:
  static __device__ void copy_vector(char* tile, const TilePart& from, int i, int log_vector) {
    const int row = (i << log_vector) / row_bytes, offset = (i << log_vector) % row_bytes;
    const bool inside = row < from.rows_left && offset < from.bytes_left;
    const char* const source = inside ? from.at + row * from.pitch + offset : from.at;
    char* const to = tile + row * stride + offset;
    switch (log_vector) {
      case 4: return copy_async<16>(to, source, inside);
      case 3: return copy_async<8>(to, source, inside);
      case 2: return copy_async<4>(to, source, inside);
      default:  // there is no asynchronous copy of 2 bytes
        *reinterpret_cast<uint16_t*>(to) =
            inside ? *reinterpret_cast<const uint16_t*>(source) : uint16_t(0);
    }
  }
};

}  // namespace adret::cuda
