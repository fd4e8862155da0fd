// Attention backward in 16 bits on tensor cores (Note [Attention on tensor cores]), by two kernels
// as in attention_backward.cu.
#include <adret/core/cuda/attention.h>
#include <adret/core/cuda/attention_tensor_gradients.h>
#include <adret/core/cuda/workspace.h>

namespace adret::cuda {
namespace {

// -- keys and values -----------------------------------------------------------------------------

template <class T, class Tile, bool drops>
__global__ void __launch_bounds__(128) attention_tensor_backward_keys(const TensorGradients<T> b) {
  begin_kernel();
#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 800
  extern __shared__ __align__(16) unsigned char attention_memory[];
  constexpr int part = Tile::others * Tile::stride;
  T* const k_rows = reinterpret_cast<T*>(attention_memory);
  T* const v_rows = k_rows + Tile::rows * Tile::stride;
  T* const others = v_rows + Tile::rows * Tile::stride;  // q and dy, and the next q and dy
  float* const columns = reinterpret_cast<float*>(others + 4 * part);  // their shifts and means
  const AttentionProblem<T>& p = b.problem;
  const Head at = p.head_of_block();
  const int width = int(p.width);
  const int64_t first = p.tile_of_block() * Tile::rows, end = p.end_of_keys(at);
  const int64_t first_query = p.causal ? first : 0, last = first < end ? p.queries : 0;
  const auto copy_others = [&](int64_t query, int place) {
    T* const to = others + place * (2 * part);
    Tile::template copy<Tile::others>(to, b.q.rows(at, query), b.q.token, last - query, width);
    Tile::template copy<Tile::others>(to + part, b.dy.rows(at, query), b.dy.token, last - query,
                                      width);
    commit_copies();
    const int i = int(threadIdx.x);
    if (i < Tile::others) {
      columns[place * (2 * Tile::others) + i] = b.shift(at, query + i);
      columns[place * (2 * Tile::others) + Tile::others + i] = b.mean(at, query + i);
    }
  };
  if (first_query < last) {
    Tile::template copy<Tile::rows>(k_rows, b.k.rows(at, first), b.k.token, end - first, width);
    Tile::template copy<Tile::rows>(v_rows, b.v.rows(at, first), b.v.token, end - first, width);
    copy_others(first_query, 0);
  }

  typename Tile::Sums dk, dv;
  Tile::clear(dk);
  Tile::clear(dv);
  int place = 0;
  for (int64_t query = first_query; query < last; query += Tile::others, place ^= 1) {
    wait_for_copies<0>();
    __syncthreads();
    if (query + Tile::others < last) copy_others(query + Tile::others, place ^ 1);
    const T* const q_rows = others + place * (2 * part);
    const T* const dy_rows = q_rows + part;
    typename Tile::Products weights, gradients;
    Tile::multiply(weights, k_rows, q_rows);
    make_scores_of_keys<T, Tile>(weights, p, at, first, query, end);
    Tile::multiply(gradients, v_rows, dy_rows);
    const float* const shifts = columns + place * (2 * Tile::others);
    Tile::each(weights, [&](float& weight, int, int n, int i) {
      weight = fast_exp2(fmaf(weight, log2_e, -shifts[Tile::column(n, i)]));
    });
    const float* const means = shifts + Tile::others;
    if constexpr (drops) {
      each_dropped_of_keys<Tile>(p, at, first, query, [&](const float(&factors)[4], int s, int n) {
#pragma unroll
        for (int i = 0; i < 4; ++i) {
          float &weight = weights[s][n][i], &gradient = gradients[s][n][i];
          gradient = weight * fmaf(gradient, factors[i], -means[Tile::column(n, i)]);
          weight *= factors[i];
        }
      });
    } else {
      Tile::each(gradients, [&](float& gradient, int s, int n, int i) {
        gradient = weights[s][n][i] * (gradient - means[Tile::column(n, i)]);
      });
    }
    Tile::add_product(dv, weights, dy_rows);
    Tile::add_product(dk, gradients, q_rows);
  }
  const int64_t present = p.keys - first;
  Tile::store(dk, p.scale, k_rows, b.dk.rows(at, first), b.dk.token, present, width);
  Tile::store(dv, 1, v_rows, b.dv.rows(at, first), b.dv.token, present, width);
#endif
}

// -- queries -------------------------------------------------------------------------------------

template <class T, class Tile, bool drops>
__global__ void __launch_bounds__(128)
    attention_tensor_backward_queries(const TensorGradients<T> b) {
  begin_kernel();
#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 800
  extern __shared__ __align__(16) unsigned char attention_memory[];
  constexpr int part = Tile::others * Tile::stride;
  T* const q_rows = reinterpret_cast<T*>(attention_memory);
  T* const dy_rows = q_rows + Tile::rows * Tile::stride;
  T* const others = dy_rows + Tile::rows * Tile::stride;  // k and v, and the next k and v
  const AttentionProblem<T>& p = b.problem;
  const Head at = p.head_of_block();
  const int width = int(p.width);
  const int64_t first = p.first_query(Tile::rows);
  const int64_t count = p.queries - first, end = p.end_of_keys(at, first + Tile::rows - 1);
  const auto copy_others = [&](int64_t key, int place) {
    T* const to = others + place * (2 * part);
    Tile::template copy<Tile::others>(to, b.k.rows(at, key), b.k.token, end - key, width);
    Tile::template copy<Tile::others>(to + part, b.v.rows(at, key), b.v.token, end - key, width);
    commit_copies();
  };
  if (end > 0) {
    Tile::template copy<Tile::rows>(q_rows, b.q.rows(at, first), b.q.token, count, width);
    Tile::template copy<Tile::rows>(dy_rows, b.dy.rows(at, first), b.dy.token, count, width);
    copy_others(0, 0);
  }

  float shifts[Tile::sets][2], means[Tile::sets][2];
#pragma unroll
  for (int s = 0; s < Tile::sets; ++s) {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const int64_t query = first + Tile::first_row() + Tile::row(s, 2 * half);
      shifts[s][half] = b.shift(at, query);
      means[s][half] = b.mean(at, query);
    }
  }
  typename Tile::Sums dq;
  Tile::clear(dq);
  int place = 0;
  for (int64_t key = 0; key < end; key += Tile::others, place ^= 1) {
    wait_for_copies<0>();
    __syncthreads();
    if (key + Tile::others < end) copy_others(key + Tile::others, place ^ 1);
    const T* const k_rows = others + place * (2 * part);
    typename Tile::Products weights, gradients;
    Tile::multiply(weights, q_rows, k_rows);
    make_scores<T, Tile>(weights, p, at, first, key, end);
    Tile::multiply(gradients, dy_rows, k_rows + part);
    if constexpr (drops) {
      each_dropped<Tile>(p, at, first, key, [&](const float(&factors)[4], int s, int n) {
#pragma unroll
        for (int i = 0; i < 4; ++i) gradients[s][n][i] *= factors[i];
      });
    }
    Tile::each(gradients, [&](float& gradient, int s, int n, int i) {
      const float weight = fast_exp2(fmaf(weights[s][n][i], log2_e, -shifts[s][i / 2]));
      gradient = weight * (gradient - means[s][i / 2]);
    });
    Tile::add_product(dq, gradients, k_rows);
  }
  Tile::store(dq, p.scale, q_rows, b.dq.rows(at, first), b.dq.token, count, width);
#endif
}

// -- launching -----------------------------------------------------------------------------------

template <class T, class Tile, auto kernel>
void launch_tiles(const Context& context, const TensorGradients<T>& backward, int64_t rows) {
  const AttentionProblem<T>& p = backward.problem;
  constexpr size_t bytes = (2 * Tile::rows + 4 * Tile::others) * Tile::stride * sizeof(T) +
                           4 * Tile::others * sizeof(float);
  allow_shared_memory<kernel>(context, bytes);
  launch(context, kernel,
         {.blocks = dim3(unsigned(divide_up(rows, Tile::rows) * p.samples * p.heads)),
          .threads = Tile::threads,
          .shared_bytes = bytes},
         backward);
}

template <class T, int width, bool drops>
void run_as(const Context& context, const kernels::AttentionBackward& call) {
  const AttentionProblem<T> problem(call);
  const Workspace means(context, size_t(problem.rows()) * sizeof(float));
  const TensorGradients<T> backward(call, means.data());
  attention_means(context, call, means.data());
  constexpr int sets = width <= 64 ? 2 : 1;
  using Tile = TensorTile<T, width, sets, 32>;
  launch_tiles<T, Tile, attention_tensor_backward_keys<T, Tile, drops>>(context, backward,
                                                                        problem.keys);
  launch_tiles<T, Tile, attention_tensor_backward_queries<T, Tile, drops>>(context, backward,
                                                                           problem.queries);
}

}  // namespace

bool attend_on_tensor_cores(const Context& context, const kernels::AttentionBackward& call) {
  if (!fits_tensor_cores(context, call.q) ||
      !aligned_16(call.q.data, call.k.data, call.v.data, call.dy.data, call.dq.data, call.dk.data,
                  call.dv.data)) {
    return false;
  }
  if (attend_to_short(context, call)) return true;
  dispatch_16_bits(call.q.dtype, [&](auto zero) {
    using T = decltype(zero);
    with_tensor_kernel(call, [&](auto width, auto drops) {
      run_as<T, decltype(width)::value, decltype(drops)::value>(context, call);
    });
  });
  return true;
}

}  // namespace adret::cuda
