// Products of tiles of rows for attention in every dtype and width: a block of 16 x 16 threads,
// each with a few rows and columns, and operands that go through shared memory.
#pragma once

#include <adret/core/cuda/attention_problem.h>

namespace adret::cuda {

// Note [Tiles of attention]
// A block's tile is `rows` rows by as many columns of scores. Thread (x, y), x being nearest, has
// rows y * each ... + each - 1 and columns x + 16 c: the threads of a row are half a warp. Rows of
// results are as wide as a head: there a thread has 4 neighbouring columns of each 64.
template <class T>
struct AttentionTile {
  using A = Accumulator<T>;
  static constexpr int threads = 256;
  static constexpr int each = sizeof(A) == 8 ? 2 : 4;
  static constexpr int rows = 16 * each;
  static constexpr int lanes = 16 / int(sizeof(A));   // elements of a vector
  static constexpr int depth = 32, columns = 64;      // of a head that are in shared memory at once
  static constexpr int depth_stride = depth + lanes;  // no two threads meet in a bank
  static constexpr int weight_stride = rows + lanes;

  struct Shared {
    union {
      struct {
        alignas(16) A left[rows * depth_stride];
        alignas(16) A right[rows * depth_stride];
      };
      alignas(16) A values[rows * columns];
    };
    alignas(16) A weights[rows * weight_stride];
  };

  // `count` rows of T, `stride` elements apart; those behind count as zeros.
  struct Rows {
    const T* data;
    int64_t stride, count;
    int width;
  };

  __device__ static int x() { return int(threadIdx.x) % 16; }
  __device__ static int y() { return int(threadIdx.x) / 16; }

  // Elements first..first + n - 1 of all rows.
  template <int n>
  __device__ static void load(A* to, int stride, const Rows& from, int first) {
    for (int i = int(threadIdx.x); i < rows * n; i += threads) {
      const int row = i / n, column = first + i % n;
      const bool inside = row < from.count && column < from.width;
      to[row * stride + i % n] = inside ? widen<T>(from.data[row * from.stride + column]) : A(0);
    }
  }

  // products[r][c] of rows of `left` and rows of `right`.
  __device__ static void multiply(A (&products)[each][each], const Rows& left, const Rows& right,
                                  Shared& shared) {
#pragma unroll
    for (int r = 0; r < each; ++r) {
#pragma unroll
      for (int c = 0; c < each; ++c) products[r][c] = 0;
    }
    for (int first = 0; first < left.width; first += depth) {
      __syncthreads();
      load<depth>(shared.left, depth_stride, left, first);
      load<depth>(shared.right, depth_stride, right, first);
      __syncthreads();
#pragma unroll 2
      for (int k = 0; k < depth; k += lanes) {
        Vector<A> a[each], b[each];
#pragma unroll
        for (int i = 0; i < each; ++i) {
          a[i] = vector(shared.left + (y() * each + i) * depth_stride + k);
          b[i] = vector(shared.right + (x() + 16 * i) * depth_stride + k);
        }
#pragma unroll
        for (int l = 0; l < lanes; ++l) {
#pragma unroll
          for (int r = 0; r < each; ++r) {
#pragma unroll
            for (int c = 0; c < each; ++c) {
              products[r][c] = fma(a[r].at[l], b[c].at[l], products[r][c]);
            }
          }
        }
      }
    }
  }

  // Puts a thread's weights where add_product finds them.
  __device__ static void share(const A (&weights)[each][each], Shared& shared) {
    __syncthreads();
#pragma unroll
    for (int r = 0; r < each; ++r) {
#pragma unroll
      for (int c = 0; c < each; ++c) {
        shared.weights[(y() * each + r) * weight_stride + x() + 16 * c] = weights[r][c];
      }
    }
  }

  // sums += the shared weights times the rows of `values`; `parts` parts of 64 columns.
  template <int parts>
  __device__ static void add_product(A (&sums)[parts][each][4], const Rows& values,
                                     Shared& shared) {
#pragma unroll
    for (int part = 0; part < parts; ++part) {
      __syncthreads();
      load<columns>(shared.values, columns, values, part * columns);
      __syncthreads();
#pragma unroll 2
      for (int k = 0; k < rows; k += lanes) {
        Vector<A> w[each];
#pragma unroll
        for (int r = 0; r < each; ++r) {
          w[r] = vector(shared.weights + (y() * each + r) * weight_stride + k);
        }
#pragma unroll
        for (int l = 0; l < lanes; ++l) {
          A value[4];
#pragma unroll
          for (int c = 0; c < 4; c += lanes) {
            const Vector<A> some = vector(shared.values + (k + l) * columns + x() * 4 + c);
#pragma unroll
            for (int i = 0; i < lanes; ++i) value[c + i] = some.at[i];
          }
#pragma unroll
          for (int r = 0; r < each; ++r) {
#pragma unroll
            for (int c = 0; c < 4; ++c)
              sums[part][r][c] = fma(w[r].at[l], value[c], sums[part][r][c]);
          }
        }
      }
    }
  }

  // A thread's sums, to rows y * each ... of `to` that are among `count`.
  template <int parts>
  __device__ static void store(const A (&sums)[parts][each][4], T* to, int64_t stride,
                               int64_t count, int width) {
#pragma unroll
    for (int part = 0; part < parts; ++part) {
#pragma unroll
      for (int r = 0; r < each; ++r) {
        const int row = y() * each + r;
#pragma unroll
        for (int c = 0; c < 4; ++c) {
          const int column = part * columns + x() * 4 + c;
          if (row < count && column < width) {
            to[row * stride + column] = narrow<T>(sums[part][r][c]);
          }
        }
      }
    }
  }

 private:
  __device__ static const Vector<A>& vector(const A* from) {
    return *reinterpret_cast<const Vector<A>*>(from);
  }
};

// The grid of kernels whose blocks have a tile of these rows each.
template <class T>
dim3 blocks_of(const AttentionProblem<T>& problem, int64_t rows) {
  return dim3(unsigned(divide_up(rows, AttentionTile<T>::rows) * problem.samples * problem.heads));
}

// f(std::integral_constant of the parts of 64 columns that a head has).
template <class F>
void with_parts(int64_t width, F&& f) {
  if (width <= 64) return f(std::integral_constant<int, 1>{});
  if (width <= 128) return f(std::integral_constant<int, 2>{});
  f(std::integral_constant<int, 4>{});
}

}  // namespace adret::cuda
