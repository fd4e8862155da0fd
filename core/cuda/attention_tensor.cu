// Attention forward in 16 bits on tensor cores (Note [Attention on tensor cores]).
#include <adret/core/cuda/attention.h>
#include <adret/core/cuda/attention_tensor_scores.h>

namespace adret::cuda {
namespace {

template <class T>
struct Forward {
  AttentionProblem<T> problem;
  HeadTensor<T> q, k, v, y;
  float* log_sum_exp;
};

// NaN wins.
__device__ inline float larger_of(float a, float b) {
  float result;
#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 800
  asm("max.NaN.f32 %0, %1, %2;" : "=f"(result) : "f"(a), "f"(b));
#endif
  return result;
}

// The four lanes of a row.
template <class F>
__device__ float of_row(float value, F f) {
  value = f(value, __shfl_xor_sync(~0u, value, 1));
  return f(value, __shfl_xor_sync(~0u, value, 2));
}

// Of a lane's rows so far: the largest score, and the lane's share of the sum of exp(score -
// largest).
template <class Tile>
struct RunningSoftmax {
  float largest[Tile::sets][2], sum[Tile::sets][2];

  __device__ RunningSoftmax() {
#pragma unroll
    for (int s = 0; s < Tile::sets; ++s) {
      largest[s][0] = largest[s][1] = -INFINITY;
      sum[s][0] = sum[s][1] = 0;
    }
  }

  // Replaces scores by weights relative to the new largest ones, and brings what was summed before
  // to them.
  __device__ void take(typename Tile::Products& scores, typename Tile::Sums& sums) {
#pragma unroll
    for (int s = 0; s < Tile::sets; ++s) {
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        float next = largest[s][half];
#pragma unroll
        for (int n = 0; n < Tile::others / 8; ++n) {
          next = larger_of(next, larger_of(scores[s][n][2 * half], scores[s][n][2 * half + 1]));
        }
        next = of_row(next, larger_of);
        // Nothing seen yet: all weights become 0, as -inf less 0 is.
        const float shift = next == -INFINITY ? 0 : next * log2_e;
        const float correction = fast_exp2(fmaf(largest[s][half], log2_e, -shift));
        float added = 0;
#pragma unroll
        for (int n = 0; n < Tile::others / 8; ++n) {
#pragma unroll
          for (int i = 2 * half; i < 2 * half + 2; ++i) {
            scores[s][n][i] = fast_exp2(fmaf(scores[s][n][i], log2_e, -shift));
            added += scores[s][n][i];
          }
        }
        sum[s][half] = fmaf(sum[s][half], correction, added);
        largest[s][half] = next;
#pragma unroll
        for (int n = 0; n < Tile::width / 8; ++n) {
          sums[s][n][2 * half] *= correction;
          sums[s][n][2 * half + 1] *= correction;
        }
      }
    }
  }

  // Divides by the sums, and stores their logarithms.
  __device__ void finish(typename Tile::Sums& sums, float* log_sum_exp, int64_t present) {
#pragma unroll
    for (int s = 0; s < Tile::sets; ++s) {
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        const float all = of_row(sum[s][half], [](float a, float b) { return a + b; });
        const float factor = all == 0 ? 0 : 1 / all;
#pragma unroll
        for (int n = 0; n < Tile::width / 8; ++n) {
          sums[s][n][2 * half] *= factor;
          sums[s][n][2 * half + 1] *= factor;
        }
        const int row = Tile::first_row() + Tile::row(s, 2 * half);
        if (log_sum_exp && Tile::lane() % 4 == 0 && row < present) {
          log_sum_exp[row] = largest[s][half] + logf(all);
        }
      }
    }
  }
};

template <class T, class Tile, bool drops>
__global__ void __launch_bounds__(128) attention_tensor_forward(const Forward<T> f) {
  begin_kernel();
#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 800
  extern __shared__ __align__(16) unsigned char attention_memory[];
  constexpr int part = Tile::others * Tile::stride;
  T* const q_rows = reinterpret_cast<T*>(attention_memory);
  T* const others = q_rows + Tile::rows * Tile::stride;  // k and v, and the next k and v
  const AttentionProblem<T>& p = f.problem;
  const Head at = p.head_of_block();
  const int width = int(p.width);
  const int64_t first = p.first_query(Tile::rows);
  const int64_t count = p.queries - first, end = p.end_of_keys(at, first + Tile::rows - 1);
  const auto copy_others = [&](int64_t key) {
    T* const to = others + key / Tile::others % 2 * (2 * part);
    Tile::template copy<Tile::others>(to, f.k.rows(at, key), f.k.token, end - key, width);
    Tile::template copy<Tile::others>(to + part, f.v.rows(at, key), f.v.token, end - key, width);
    commit_copies();
  };
  if (end > 0) {
    Tile::template copy<Tile::rows>(q_rows, f.q.rows(at, first), f.q.token, count, width);
    copy_others(0);
  }

  typename Tile::Sums sums;
  Tile::clear(sums);
  RunningSoftmax<Tile> softmax;
  for (int64_t key = 0; key < end; key += Tile::others) {
    wait_for_copies<0>();
    __syncthreads();
    if (key + Tile::others < end) copy_others(key + Tile::others);
    const T* const k_rows = others + key / Tile::others % 2 * (2 * part);
    typename Tile::Products weights;
    Tile::multiply(weights, q_rows, k_rows);
    make_scores<T, Tile>(weights, p, at, first, key, end);
    softmax.take(weights, sums);
    if constexpr (drops) {
      each_dropped<Tile>(p, at, first, key, [&](const float(&factors)[4], int s, int n) {
#pragma unroll
        for (int i = 0; i < 4; ++i) weights[s][n][i] *= factors[i];
      });
    }
    Tile::add_product(sums, weights, k_rows + part);
  }
  softmax.finish(sums, f.log_sum_exp ? f.log_sum_exp + p.row(at, first) : nullptr, count);
  Tile::store(sums, 1, q_rows, f.y.rows(at, first), f.y.token, count, width);
#endif
}

template <class T, class Tile, bool drops>
void run_as(const Context& context, const kernels::AttentionForward& call) {
  const Forward<T> forward{AttentionProblem<T>(call),
                           HeadTensor<T>(call.q),
                           keys_of<T>(call),
                           values_of<T>(call),
                           HeadTensor<T>(call.y),
                           call.log_sum_exp.defined() ? call.log_sum_exp.as<float>() : nullptr};
  const AttentionProblem<T>& p = forward.problem;
  constexpr size_t bytes = (Tile::rows + 4 * Tile::others) * Tile::stride * sizeof(T);
  constexpr auto kernel = attention_tensor_forward<T, Tile, drops>;
  allow_shared_memory<kernel>(context, bytes);
  launch(context, kernel,
         {.blocks = dim3(unsigned(divide_up(p.queries, Tile::rows) * p.samples * p.heads)),
          .threads = Tile::threads,
          .shared_bytes = bytes},
         forward);
}

}  // namespace

bool attend_on_tensor_cores(const Context& context, const kernels::AttentionForward& call) {
  if (!fits_tensor_cores(context, call.q) ||
      !aligned_16(call.q.data, call.k.data, call.v.data, call.y.data)) {
    return false;
  }
  dispatch_16_bits(call.q.dtype, [&](auto zero) {
    using T = decltype(zero);
    with_tensor_kernel(call, [&](auto width, auto drops) {
      constexpr int w = decltype(width)::value;
      run_as<T, TensorTile<T, w, w <= 64 ? 2 : 1, 64>, decltype(drops)::value>(context, call);
    });
  });
  return true;
}

}  // namespace adret::cuda
