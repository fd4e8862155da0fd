// Attention forward in f32 (Note [Attention in f32]).
#include <adret/core/cuda/attention.h>
#include <adret/core/cuda/attention_f32_tile.h>
#include <adret/core/cuda/device_math.h>

namespace adret::cuda {
namespace {

struct Forward {
  AttentionProblem<float> problem;
  HeadTensor<float> q, k, v, y;
  float* log_sum_exp;
};

// The 16 lanes of a row.
template <class F>
__device__ float of_row(float value, F f) {
#pragma unroll
  for (int distance = 8; distance > 0; distance /= 2) {
    value = f(value, __shfl_xor_sync(~0u, value, distance));
  }
  return value;
}

// Of a lane's rows so far: the largest score, and the lane's share of the sum of exp(score -
// largest).
template <class Tile>
struct RunningSoftmax {
  float largest[Tile::each], sum[Tile::each];

  __device__ RunningSoftmax() {
#pragma unroll
    for (int r = 0; r < Tile::each; ++r) {
      largest[r] = -INFINITY;
      sum[r] = 0;
    }
  }

  // Replaces scores by weights relative to the new largest ones, and brings what was summed before
  // to them.
  template <int columns>
  __device__ void take(float (&scores)[Tile::each][columns], typename Tile::Sums& sums) {
#pragma unroll
    for (int r = 0; r < Tile::each; ++r) {
      float next = largest[r];
#pragma unroll
      for (int c = 0; c < columns; ++c) next = larger(next, scores[r][c]);
      next = of_row(next, [](float a, float b) { return larger(a, b); });
      // Nothing seen yet: all weights become 0, as -inf less 0 is.
      const float shift = next == -INFINITY ? 0 : next * log2_e;
      const float correction = fast_exp2(fmaf(largest[r], log2_e, -shift));
      float added = 0;
#pragma unroll
      for (int c = 0; c < columns; ++c) {
        scores[r][c] = fast_exp2(fmaf(scores[r][c], log2_e, -shift));
        added += scores[r][c];
      }
      sum[r] = fmaf(sum[r], correction, added);
      largest[r] = next;
#pragma unroll
      for (int j = 0; j < Tile::own; ++j) sums[r][j] *= correction;
    }
  }
};

template <class Tile>
__global__ void __launch_bounds__(128) attention_f32_forward(const Forward f) {
  begin_kernel();
#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 800
  extern __shared__ __align__(16) unsigned char attention_memory[];
  float* const q_rows = reinterpret_cast<float*>(attention_memory);
  float* const k_rows = q_rows + Tile::rows * Tile::stride;
  float* const v_rows = k_rows + Tile::others * Tile::stride;
  float* const shared_weights = v_rows + Tile::others * Tile::stride;
  const AttentionProblem<float>& p = f.problem;
  const Head at = p.head_of_block();
  const int width = int(p.width);
  const int64_t first = p.first_query(Tile::rows);
  const int64_t count = p.queries - first, end = p.end_of_keys(at, first + Tile::rows - 1);
  const bool is_idle = Tile::first_row() >= count;
  // Each a group of copies, perhaps empty.
  const auto copy_keys = [&](int64_t key) {
    if (key < end) {
      Tile::template copy<Tile::others>(k_rows, f.k.rows(at, key), f.k.token, end - key, width);
    }
    commit_copies();
  };
  const auto copy_values = [&](int64_t key) {
    if (key < end) {
      Tile::template copy<Tile::others>(v_rows, f.v.rows(at, key), f.v.token, end - key, width);
    }
    commit_copies();
  };
  if (end > 0) {
    Tile::template copy<Tile::rows>(q_rows, f.q.rows(at, first), f.q.token, count, width);
  }
  copy_keys(0);
  copy_values(0);

  typename Tile::Sums sums = {};
  RunningSoftmax<Tile> softmax;
  for (int64_t key = 0; key < end; key += Tile::others) {
    Tile::with_columns(end - key, [&](auto constant) {
      constexpr int columns = decltype(constant)::value;
      float weights[Tile::each][columns];
      wait_for_copies<1>();
      __syncthreads();  // queries and keys are there
      if (!is_idle) Tile::multiply(weights, q_rows, k_rows);
      __syncthreads();  // keys are read
      copy_keys(key + Tile::others);
      if (!is_idle) {
        const int64_t last = key + 16 * columns - 1;
        const bool all_are_seen =
            !p.mask && last < end && (!p.causal || last <= first + Tile::first_row());
#pragma unroll
        for (int r = 0; r < Tile::each; ++r) {
#pragma unroll
          for (int c = 0; c < columns; ++c) {
            weights[r][c] = all_are_seen ? weights[r][c] * p.scale
                                         : p.score(weights[r][c], at, first + Tile::row(r),
                                                   key + Tile::x() + 16 * c, end);
          }
        }
        softmax.take(weights, sums);
      }
      wait_for_copies<1>();
      __syncthreads();  // values are there
      if (!is_idle) Tile::add_product(sums, weights, shared_weights, v_rows);
      __syncthreads();  // values are read
      copy_values(key + Tile::others);
    });
  }
  if (is_idle) return;
#pragma unroll
  for (int r = 0; r < Tile::each; ++r) {
    const float all = of_row(softmax.sum[r], [](float a, float b) { return a + b; });
    const int row = Tile::row(r);
    if (row >= count) continue;
    Tile::store_row(sums[r], all == 0 ? 0 : 1 / all, f.y.rows(at, first + row), width);
    if (f.log_sum_exp && Tile::x() == 0) {
      f.log_sum_exp[p.row(at, first + row)] = softmax.largest[r] + logf(all);
    }
  }
#endif
}

}  // namespace

bool attend_in_f32(const Context& context, const kernels::AttentionForward& call) {
  if (!fits_f32_tiles(context, call) ||
      !aligned_16(call.q.data, call.k.data, call.v.data, call.y.data)) {
    return false;
  }
  const Forward forward{AttentionProblem<float>(call),
                        HeadTensor<float>(call.q),
                        keys_of<float>(call),
                        values_of<float>(call),
                        HeadTensor<float>(call.y),
                        call.log_sum_exp.defined() ? call.log_sum_exp.as<float>() : nullptr};
  const AttentionProblem<float>& p = forward.problem;
  with_f32_tile(p.width, [&](auto tile) {
    using Tile = decltype(tile);
    constexpr size_t bytes =
        ((Tile::rows + 2 * Tile::others) * Tile::stride + Tile::rows * Tile::weight_stride) *
        sizeof(float);
    constexpr auto kernel = attention_f32_forward<Tile>;
    allow_shared_memory<kernel>(context, bytes);
    launch(context, kernel,
           {.blocks = dim3(unsigned(divide_up(p.queries, Tile::rows) * p.samples * p.heads)),
            .threads = Tile::threads,
            .shared_bytes = bytes},
           forward);
  });
  return true;
}

}  // namespace adret::cuda
