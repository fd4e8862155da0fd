// Tiles of attention in f32 without tensor cores: copies into shared memory, products, and what a
// thread holds of them. From sm_80 on.
#pragma once

#include <adret/core/cuda/attention_tensor_scores.h>

namespace adret::cuda {

// Note [Attention in f32]
// A block of four warps has a tile of rows, queries or keys, and meets the other rows 64 at a time.
// A warp has 2 * each neighbouring rows of the tile, half of its lanes every second one; a lane has
// `each` rows and the columns x + 16 c of their scores. Of results, as wide as a head, it has 4
// neighbouring columns of each 64, and 2 of 32 that are left. Rows lie 16 bytes apart in shared
// memory, so that lanes that read 16 bytes of different rows meet in no bank. Weights go to the
// next product by shared memory that is the warp's own. Warps whose rows are not there only help
// with copies, and other rows that end within 16 are met with a quarter of the columns.
template <int width_, int each_>
struct F32Tile {
  static constexpr int width = width_, each = each_;
  static constexpr int threads = 128, rows = 8 * each, others = 64;
  static constexpr int stride = width + 4, weight_stride = others + 4;  // of rows in shared memory
  static constexpr int wide = width / 64 * 4, own = width / 16;         // columns of a lane

  using Sums = float[each][own];
  template <int columns>
  using Products = float[each][columns];

  __device__ static int x() { return int(threadIdx.x) % 16; }
  // Of the tile.
  __device__ static int first_row() { return int(threadIdx.x) / 32 * (2 * each); }
  __device__ static int row(int r) { return first_row() + int(threadIdx.x) % 32 / 16 + 2 * r; }

  // `count` rows of memory, of which `present` are there; other rows and columns become zeros.
  template <int count>
  __device__ static void copy(float* to, const float* from, int64_t token, int64_t present,
                              int columns) {
    constexpr unsigned chunks = width / 4;
    static_assert(count * chunks % threads == 0);
    const int end = int(min(present, int64_t(count)));
#pragma unroll
    for (unsigned n = 0; n < count * chunks; n += threads) {
      const int row = int((threadIdx.x + n) / chunks), column = int((threadIdx.x + n) % chunks) * 4;
      copy_async<16>(to + row * stride + column, from + row * token + column,
                     row < end && column < columns);
    }
  }

  // products = the lane's rows of `left` times its rows of `right`.
  template <int columns>
  __device__ static void multiply(float (&products)[each][columns], const float* left,
                                  const float* right) {
    left += row(0) * stride;
    right += x() * stride;
#pragma unroll
    for (int r = 0; r < each; ++r) {
#pragma unroll
      for (int c = 0; c < columns; ++c) products[r][c] = 0;
    }
#pragma unroll 2
    for (int k = 0; k < width; k += 4) {
      float4 a[each], b[columns];
#pragma unroll
      for (int r = 0; r < each; ++r) a[r] = four(left + 2 * r * stride + k);
#pragma unroll
      for (int c = 0; c < columns; ++c) b[c] = four(right + 16 * c * stride + k);
#pragma unroll
      for (int l = 0; l < 4; ++l) {
#pragma unroll
        for (int r = 0; r < each; ++r) {
#pragma unroll
          for (int c = 0; c < columns; ++c) {
            products[r][c] = fmaf(at(a[r], l), at(b[c], l), products[r][c]);
          }
        }
      }
    }
  }

  // sums += the lane's rows of weights times the other rows, by way of the warp's part of `shared`.
  template <int columns>
  __device__ static void add_product(Sums& sums, const float (&weights)[each][columns],
                                     float* shared, const float* right) {
    shared += row(0) * weight_stride;
    __syncwarp();  // what was there is read
#pragma unroll
    for (int r = 0; r < each; ++r) {
#pragma unroll
      for (int c = 0; c < columns; ++c) {
        shared[2 * r * weight_stride + x() + 16 * c] = weights[r][c];
      }
    }
    __syncwarp();
#pragma unroll 2
    for (int k = 0; k < 16 * columns; k += 4) {
      float4 a[each];
#pragma unroll
      for (int r = 0; r < each; ++r) a[r] = four(shared + 2 * r * weight_stride + k);
#pragma unroll
      for (int l = 0; l < 4; ++l) {
        float b[own];
        load_row(b, right + (k + l) * stride);
#pragma unroll
        for (int r = 0; r < each; ++r) {
#pragma unroll
          for (int j = 0; j < own; ++j) sums[r][j] = fmaf(at(a[r], l), b[j], sums[r][j]);
        }
      }
    }
  }

  // A row's sums times a factor, to the row at `to` of so many columns.
  __device__ static void store_row(const float (&sums)[own], float factor, float* to, int columns) {
#pragma unroll
    for (int j = 0; j < wide; j += 4) {
      const int column = j * 16 + x() * 4;
      if (column < columns) {
        *reinterpret_cast<float4*>(to + column) = {sums[j] * factor, sums[j + 1] * factor,
                                                   sums[j + 2] * factor, sums[j + 3] * factor};
      }
    }
    if constexpr (own > wide) {
      const int column = wide * 16 + x() * 2;
      if (column < columns) {
        *reinterpret_cast<float2*>(to + column) = {sums[wide] * factor, sums[wide + 1] * factor};
      }
    }
  }
  // The lane's rows of those from `to` on that are present.
  __device__ static void store(const Sums& sums, float factor, float* to, int64_t token,
                               int64_t present, int columns) {
#pragma unroll
    for (int r = 0; r < each; ++r) {
      if (row(r) < present) store_row(sums[r], factor, to + row(r) * token, columns);
    }
  }

  // f(std::integral_constant of the columns that a lane meets of so many other rows).
  template <class F>
  __device__ static void with_columns(int64_t rows_left, F f) {
    if (rows_left > 16) return f(std::integral_constant<int, 4>{});
    f(std::integral_constant<int, 1>{});
  }

 private:
  __device__ static float4 four(const float* from) {
    return *reinterpret_cast<const float4*>(from);
  }
  __device__ static float at(const float4& v, int i) {
    return i == 0 ? v.x : (i == 1 ? v.y : (i == 2 ? v.z : v.w));
  }
  __device__ static void load_row(float (&to)[own], const float* row) {
#pragma unroll
    for (int j = 0; j < wide; j += 4) {
      const float4 some = four(row + j * 16 + x() * 4);
#pragma unroll
      for (int i = 0; i < 4; ++i) to[j + i] = at(some, i);
    }
    if constexpr (own > wide) {
      const float2 some = *reinterpret_cast<const float2*>(row + wide * 16 + x() * 2);
      to[wide] = some.x;
      to[wide + 1] = some.y;
    }
  }
};

// f(a tile for heads of the width): wider ones have fewer rows, for two blocks on a multiprocessor.
template <class F>
void with_f32_tile(int64_t width, F&& f) {
  if (width <= 32) return f(F32Tile<32, 8>{});
  if (width <= 64) return f(F32Tile<64, 8>{});
  if (width <= 96) return f(F32Tile<96, 4>{});
  f(F32Tile<128, 4>{});
}

template <class Call>
bool fits_f32_tiles(const Context& context, const Call& call) {
  return context.properties.major >= 8 && call.q.dtype == DType::f32 && call.q.shape[-1] % 4 == 0 &&
         call.q.shape[-1] <= 128 && call.attention.dropout == 0;
}

}  // namespace adret::cuda
