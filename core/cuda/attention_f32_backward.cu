// Attention backward in f32 (Note [Attention in f32]), by two kernels as in attention_backward.cu.
#include <adret/core/cuda/attention.h>
#include <adret/core/cuda/attention_f32_tile.h>
#include <adret/core/cuda/workspace.h>

namespace adret::cuda {
namespace {

struct Backward : AttentionGradients<float> {
  using AttentionGradients<float>::AttentionGradients;

  // What weights are 2^(log2_e score - shift) with: infinite for queries that see nothing or are
  // not there, so that theirs are 0.
  __device__ float shift(Head at, int64_t query) const {
    if (query >= problem.queries) return INFINITY;
    const float log_sum = log_sum_exp[problem.row(at, query)];
    return log_sum == -INFINITY ? INFINITY : log_sum * log2_e;
  }
};

// A score to its weight, and a product of dy and v to the score's gradient, but for the scale.
__device__ inline void differentiate_score(float& weight, float& gradient, float shift,
                                           float mean) {
  weight = fast_exp2(fmaf(weight, log2_e, -shift));
  gradient = weight * (gradient - mean);
}

template <class Tile>
__global__ void __launch_bounds__(128) attention_f32_backward_keys(const Backward b) {
  begin_kernel();
#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 800
  extern __shared__ __align__(16) unsigned char attention_memory[];
  float* const k_rows = reinterpret_cast<float*>(attention_memory);
  float* const v_rows = k_rows + Tile::rows * Tile::stride;
  float* const q_rows = v_rows + Tile::rows * Tile::stride;
  float* const dy_rows = q_rows + Tile::others * Tile::stride;
  float* const shared_weights = dy_rows + Tile::others * Tile::stride;
  float* const shifts = shared_weights + Tile::rows * Tile::weight_stride;  // of the queries
  float* const means = shifts + Tile::others;
  const AttentionProblem<float>& p = b.problem;
  const Head at = p.head_of_block();
  const int width = int(p.width);
  const int64_t first = p.tile_of_block() * Tile::rows, end = p.end_of_keys(at);
  const int64_t first_query = p.causal ? first : 0, last = first < end ? p.queries : 0;
  const int64_t own_key = first + Tile::first_row();
  const auto copy_others = [&](int64_t query) {
    if (query >= last) return;
    Tile::template copy<Tile::others>(q_rows, b.q.rows(at, query), b.q.token, last - query, width);
    Tile::template copy<Tile::others>(dy_rows, b.dy.rows(at, query), b.dy.token, last - query,
                                      width);
    commit_copies();
    if (const int i = int(threadIdx.x); i < Tile::others) {
      shifts[i] = b.shift(at, query + i);
      means[i] = b.mean(at, query + i);
    }
  };
  if (first_query < last) {
    Tile::template copy<Tile::rows>(k_rows, b.k.rows(at, first), b.k.token, end - first, width);
    Tile::template copy<Tile::rows>(v_rows, b.v.rows(at, first), b.v.token, end - first, width);
    copy_others(first_query);
  }

  typename Tile::Sums dk = {}, dv = {};
  for (int64_t query = first_query; query < last; query += Tile::others) {
    wait_for_copies<0>();
    __syncthreads();  // the queries are there
    Tile::with_columns(own_key < end ? last - query : 1, [&](auto constant) {
      if (own_key >= end) return;
      constexpr int columns = decltype(constant)::value;
      float weights[Tile::each][columns], gradients[Tile::each][columns];
      Tile::multiply(weights, k_rows, q_rows);
      Tile::multiply(gradients, v_rows, dy_rows);
      const int64_t last_key = own_key + 2 * Tile::each - 1;
      const bool all_are_seen = !p.mask && last_key < end && (!p.causal || last_key <= query);
#pragma unroll
      for (int c = 0; c < columns; ++c) {
        const int column = Tile::x() + 16 * c;
        const float shift = shifts[column], mean = means[column];
#pragma unroll
        for (int r = 0; r < Tile::each; ++r) {
          weights[r][c] =
              all_are_seen ? weights[r][c] * p.scale
                           : p.score(weights[r][c], at, query + column, first + Tile::row(r), end);
          differentiate_score(weights[r][c], gradients[r][c], shift, mean);
        }
      }
      Tile::add_product(dv, weights, shared_weights, dy_rows);
      Tile::add_product(dk, gradients, shared_weights, q_rows);
    });
    __syncthreads();  // the queries are read
    copy_others(query + Tile::others);
  }
  const int64_t present = p.keys - first;
  Tile::store(dk, p.scale, b.dk.rows(at, first), b.dk.token, present, width);
  Tile::store(dv, 1, b.dv.rows(at, first), b.dv.token, present, width);
#endif
}

template <class Tile>
__global__ void __launch_bounds__(128) attention_f32_backward_queries(const Backward b) {
  begin_kernel();
#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 800
  extern __shared__ __align__(16) unsigned char attention_memory[];
  float* const q_rows = reinterpret_cast<float*>(attention_memory);
  float* const dy_rows = q_rows + Tile::rows * Tile::stride;
  float* const k_rows = dy_rows + Tile::rows * Tile::stride;
  float* const v_rows = k_rows + Tile::others * Tile::stride;
  float* const shared_weights = v_rows + Tile::others * Tile::stride;
  const AttentionProblem<float>& p = b.problem;
  const Head at = p.head_of_block();
  const int width = int(p.width);
  const int64_t first = p.first_query(Tile::rows);
  const int64_t count = p.queries - first, end = p.end_of_keys(at, first + Tile::rows - 1);
  const bool is_idle = Tile::first_row() >= count;
  const auto copy_others = [&](int64_t key) {
    if (key >= end) return;
    Tile::template copy<Tile::others>(k_rows, b.k.rows(at, key), b.k.token, end - key, width);
    Tile::template copy<Tile::others>(v_rows, b.v.rows(at, key), b.v.token, end - key, width);
    commit_copies();
  };
  if (end > 0) {
    Tile::template copy<Tile::rows>(q_rows, b.q.rows(at, first), b.q.token, count, width);
    Tile::template copy<Tile::rows>(dy_rows, b.dy.rows(at, first), b.dy.token, count, width);
    copy_others(0);
  }

  float shifts[Tile::each], means[Tile::each];
#pragma unroll
  for (int r = 0; r < Tile::each; ++r) {
    shifts[r] = b.shift(at, first + Tile::row(r));
    means[r] = b.mean(at, first + Tile::row(r));
  }
  typename Tile::Sums dq = {};
  for (int64_t key = 0; key < end; key += Tile::others) {
    wait_for_copies<0>();
    __syncthreads();  // the keys are there
    Tile::with_columns(is_idle ? 1 : end - key, [&](auto constant) {
      if (is_idle) return;
      constexpr int columns = decltype(constant)::value;
      float weights[Tile::each][columns], gradients[Tile::each][columns];
      Tile::multiply(weights, q_rows, k_rows);
      Tile::multiply(gradients, dy_rows, v_rows);
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
          differentiate_score(weights[r][c], gradients[r][c], shifts[r], means[r]);
        }
      }
      Tile::add_product(dq, gradients, shared_weights, k_rows);
    });
    __syncthreads();  // the keys are read
    copy_others(key + Tile::others);
  }
  Tile::store(dq, p.scale, b.dq.rows(at, first), b.dq.token, count, width);
#endif
}

template <class Tile, auto kernel>
void launch_tiles(const Context& context, const Backward& backward, int64_t rows) {
  const AttentionProblem<float>& p = backward.problem;
  constexpr size_t bytes = (2 * (Tile::rows + Tile::others) * Tile::stride +
                            Tile::rows * Tile::weight_stride + 2 * Tile::others) *
                           sizeof(float);
  allow_shared_memory<kernel>(context, bytes);
  launch(context, kernel,
         {.blocks = dim3(unsigned(divide_up(rows, Tile::rows) * p.samples * p.heads)),
          .threads = Tile::threads,
          .shared_bytes = bytes},
         backward);
}

}  // namespace

bool attend_in_f32(const Context& context, const kernels::AttentionBackward& call) {
  if (!fits_f32_tiles(context, call) ||
      !aligned_16(call.q.data, call.k.data, call.v.data, call.dy.data, call.dq.data, call.dk.data,
                  call.dv.data)) {
    return false;
  }
  const AttentionProblem<float> problem(call);
  const Workspace means(context, size_t(problem.rows()) * sizeof(float));
  const Backward backward(call, means.data());
  attention_means(context, call, means.data());
  with_f32_tile(problem.width, [&](auto tile) {
    using Tile = decltype(tile);
    launch_tiles<Tile, attention_f32_backward_keys<Tile>>(context, backward, problem.keys);
    launch_tiles<Tile, attention_f32_backward_queries<Tile>>(context, backward, problem.queries);
  });
  return true;
}

}  // namespace adret::cuda
