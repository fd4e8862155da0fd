// Tiles of attention on tensor cores, in 16 bits: copies into shared memory, products, and what a
// lane holds of them. From sm_80 on.
#pragma once

#include <adret/core/cuda/attention_problem.h>
#include <adret/core/cuda/tensor_core.h>
#include <adret/core/cuda/vectors.h>

namespace adret::cuda {

// Note [Attention on tensor cores]
// A block of warps has a tile of rows, 16 `sets` of them a warp: queries, or keys for the
// gradients of keys and values. The other rows, keys or queries, come in tiles of `others` through
// two places in shared memory, the next one being copied while one is computed with. Rows lie 16
// bytes apart there, so that the eight rows of a matrix are in different banks. Scores, weights and
// their gradients stay in registers: the pairs that a lane gets of a product are those that it has
// to give as the left operand of the next.
template <class T, int width_, int sets_, int others_, int warps_ = 4>
struct TensorTile {
  static constexpr int width = width_, sets = sets_, others = others_;
  static constexpr int warps = warps_, threads = 32 * warps;
  static constexpr int stride = width + 8;  // of rows in shared memory
  static constexpr int rows = warps * 16 * sets;
  static constexpr int chunks = width / 8;  // of 16 bytes, of a row
  static constexpr int rows_at_once = threads / chunks;

  using Products = float[sets][others / 8][4];  // of the warp's rows and the others
  using Sums = float[sets][width / 8][4];       // results: the warp's rows, as wide as a head
  using Rows = uint32_t[width / 16][sets][4];   // the warp's rows as a left operand

  __device__ static int lane() { return int(threadIdx.x) % 32; }
  __device__ static int first_row() { return int(threadIdx.x) / 32 * (16 * sets); }
  // Of products and sums: the element i of a lane is in this row of the set, and this column of the
  // eight.
  __device__ static int row(int set, int i) { return set * 16 + lane() / 4 + i / 2 * 8; }
  __device__ static int column(int eight, int i) { return eight * 8 + lane() % 4 * 2 + i % 2; }

  // `count` rows of memory, of which `present` are there; other rows and columns become zeros. A
  // thread stays in its columns, so that an addition takes it to its next row.
  template <int count>
  __device__ static void copy(T* to, const T* from, int64_t token, int64_t present, int columns) {
    static_assert(count % rows_at_once == 0);
    const int row = int(threadIdx.x) / chunks, column = int(threadIdx.x) % chunks * 8;
    const int end = column < columns ? int(min(present, int64_t(count))) : 0;
    from += row * token + column;
    to += row * stride + column;
#pragma unroll
    for (int r = 0; r < count; r += rows_at_once) {
      copy_async<16>(to + r * stride, from, row + r < end);
      from += rows_at_once * token;
    }
  }

  // The warp's rows of a tile, a part of 16 columns.
  __device__ static void load_part(uint32_t (&part)[sets][4], const T* tile, int column) {
    const T* const row = tile + (first_row() + lane() % 16) * stride + lane() / 16 * 8 + column;
#pragma unroll
    for (int s = 0; s < sets; ++s) load_matrices(part[s], row + s * 16 * stride);
  }
  __device__ static void load_rows(Rows& rows, const T* tile) {
#pragma unroll
    for (int k = 0; k < width; k += 16) load_part(rows[k / 16], tile, k);
  }

  // products = the warp's rows of `left` times the rows of `right`.
  __device__ static void multiply(Products& products, const T* left, const T* right) {
    clear(products);
#pragma unroll
    for (int k = 0; k < width; k += 16) {
      uint32_t part[sets][4];
      load_part(part, left, k);
      add_part(products, part, right + k);
    }
  }
  // The same of rows that were loaded before.
  __device__ static void multiply(Products& products, const Rows& left, const T* right) {
    clear(products);
#pragma unroll
    for (int k = 0; k < width; k += 16) add_part(products, left[k / 16], right + k);
  }

  // sums += weights, rounded to T, times the other rows.
  __device__ static void add_product(Sums& sums, const Products& weights, const T* right) {
    const T* const b_row = right + (lane() % 8 + lane() / 8 % 2 * 8) * stride + lane() / 16 * 8;
#pragma unroll
    for (int k = 0; k < others / 8; k += 2) {
      uint32_t a[sets][4];
#pragma unroll
      for (int s = 0; s < sets; ++s) {
        const auto &low = weights[s][k], &high = weights[s][k + 1];
        a[s][0] = pack<T>(low[0], low[1]);
        a[s][1] = pack<T>(low[2], low[3]);
        a[s][2] = pack<T>(high[0], high[1]);
        a[s][3] = pack<T>(high[2], high[3]);
      }
#pragma unroll
      for (int n = 0; n < width / 8; n += 2) {
        uint32_t b[4];
        load_matrices_transposed(b, b_row + k * 8 * stride + n * 8);
#pragma unroll
        for (int s = 0; s < sets; ++s) {
          multiply_add<T>(sums[s][n], a[s], b[0], b[1]);
          multiply_add<T>(sums[s][n + 1], a[s], b[2], b[3]);
        }
      }
    }
  }

  // The warp's sums times a factor, by way of its own rows of shared memory, to those rows of `to`
  // that are present.
  __device__ static void store(const Sums& sums, float factor, T* shared, T* to, int64_t token,
                               int64_t present, int columns) {
    T* const own = shared + first_row() * stride;
    __syncwarp();
#pragma unroll
    for (int s = 0; s < sets; ++s) {
#pragma unroll
      for (int n = 0; n < width / 8; ++n) {
#pragma unroll
        for (int i = 0; i < 4; i += 2) {
          *reinterpret_cast<uint32_t*>(own + row(s, i) * stride + column(n, 0)) =
              pack<T>(sums[s][n][i] * factor, sums[s][n][i + 1] * factor);
        }
      }
    }
    __syncwarp();
    const int row = lane() / chunks, column = lane() % chunks * 8;
    const int64_t end = column < columns ? present - first_row() : 0;
    to += (first_row() + row) * token + column;
#pragma unroll
    for (int r = 0; r < 16 * sets; r += 32 / chunks) {
      if (row + r < end) {
        cuda::store(to, cuda::load<T, 8>(own + (row + r) * stride + column));
      }
      to += 32 / chunks * token;
    }
  }

  // products += a part of 16 columns times those of the rows of `right`.
  __device__ static void add_part(Products& products, const uint32_t (&part)[sets][4],
                                  const T* right) {
    const T* const row = right + (lane() % 8 + lane() / 16 * 8) * stride + lane() / 8 % 2 * 8;
#pragma unroll
    for (int n = 0; n < others / 8; n += 2) {
      uint32_t b[4];
      load_matrices(b, row + n * 8 * stride);
#pragma unroll
      for (int s = 0; s < sets; ++s) {
        multiply_add<T>(products[s][n], part[s], b[0], b[1]);
        multiply_add<T>(products[s][n + 1], part[s], b[2], b[3]);
      }
    }
  }

  template <int n>
  __device__ static void clear(float (&values)[sets][n][4]) {
#pragma unroll
    for (int s = 0; s < sets; ++s) {
#pragma unroll
      for (int j = 0; j < n; ++j) {
#pragma unroll
        for (int i = 0; i < 4; ++i) values[s][j][i] = 0;
      }
    }
  }

  // f(value, set, eight, i) for each that a lane has.
  template <class F>
  __device__ static void each(Products& products, F f) {
#pragma unroll
    for (int s = 0; s < sets; ++s) {
#pragma unroll
      for (int n = 0; n < others / 8; ++n) {
#pragma unroll
        for (int i = 0; i < 4; ++i) f(products[s][n][i], s, n, i);
      }
    }
  }
};

// Room in shared memory beyond what a kernel has without asking, once for each kernel and device.
template <auto kernel>
void allow_shared_memory(const Context& context, size_t bytes) {
  static bool allowed[256] = {};
  if (allowed[context.index]) return;
  ADRET_CHECK(
      cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, int(bytes)));
  allowed[context.index] = true;
}

inline bool fits_tensor_cores(const Context& context, const TensorView& q) {
  return context.properties.major >= 8 && size_of(q.dtype) == 2 && q.shape[-1] % 8 == 0 &&
         q.shape[-1] <= 128;
}
template <class F>
void dispatch_16_bits(DType dtype, F&& f) {
  if (dtype == DType::f16) return f(__half{});
  f(__nv_bfloat16{});
}

// f(std::integral_constant of the width that a head is filled up to, std::bool_constant of whether
// weights are dropped): code for dropping takes registers that plain attention has a use for.
template <class Call, class F>
void with_tensor_kernel(const Call& call, F&& f) {
  const int64_t width = call.q.shape[-1];
  const auto with_width = [&](auto drops) {
    if (width <= 32) return f(std::integral_constant<int, 32>{}, drops);
    if (width <= 64) return f(std::integral_constant<int, 64>{}, drops);
    f(std::integral_constant<int, 128>{}, drops);
  };
  if (call.attention.dropout > 0) return with_width(std::true_type{});
  with_width(std::false_type{});
}

}  // namespace adret::cuda
