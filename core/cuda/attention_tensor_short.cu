// Attention backward in 16 bits for heads whose tokens fit a block, as those of vision transformers
// do: one kernel instead of two, which makes every weight once.
#include <adret/core/cuda/attention.h>
#include <adret/core/cuda/attention_tensor_gradients.h>

namespace adret::cuda {
namespace {

// Note [Short heads]
// A block has a head whole: q, k, v and dy lie in shared memory, a warp has 16 keys in registers
// and meets all queries, 16 at a time, without waiting for others. It sums its dk and dv, and
// leaves the gradients of the scores in shared memory, keys by queries. Behind one barrier each
// warp takes 16 queries and sums their dq from there, over the keys in order.
template <class T>
struct Short : TensorGradients<T> {
  HeadTensor<T> y;

  explicit Short(const kernels::AttentionBackward& call)
      : TensorGradients<T>(call, nullptr), y(call.y) {}
};

template <class T, int warps>
struct ShortTile : TensorTile<T, 64, 1, 16, warps> {
  using Base = TensorTile<T, 64, 1, 16, warps>;
  static constexpr int slopes_stride = Base::rows + 8;
  static constexpr size_t bytes =
      (4 * Base::stride + slopes_stride) * Base::rows * sizeof(T) + 2 * Base::rows * sizeof(float);
};

// The means of dy y for the warp's queries. y comes from memory.
template <class T, class Tile>
struct Means {
  static constexpr int rows_at_once = 32 / Tile::chunks, count = 16 / rows_at_once;
  Vector<T, 8> y[count];

  __device__ static int row(int i) {
    return Tile::first_row() + i * rows_at_once + Tile::lane() / Tile::chunks;
  }
  __device__ static int column() { return Tile::lane() % Tile::chunks * 8; }

  __device__ Means(const Short<T>& b, Head at) {
    const AttentionProblem<T>& p = b.problem;
#pragma unroll
    for (int i = 0; i < count; ++i) {
      if (row(i) < p.queries && column() < p.width) {
        y[i] = load<T, 8>(b.y.rows(at, row(i)) + column());
      } else {
        y[i] = narrow<T>({0, 0, 0, 0, 0, 0, 0, 0});
      }
    }
  }
  __device__ void store(const T* dy_rows, float* means) const {
#pragma unroll
    for (int i = 0; i < count; ++i) {
      float ys[8], dys[8], total = 0;
      widen(y[i], ys);
      widen(load<T, 8>(dy_rows + row(i) * Tile::stride + column()), dys);
#pragma unroll
      for (int k = 0; k < 8; ++k) total = fmaf(ys[k], dys[k], total);
#pragma unroll
      for (int other = 1; other < Tile::chunks; other *= 2) {
        total += __shfl_xor_sync(~0u, total, other);
      }
      if (column() == 0) means[row(i)] = total;
    }
  }
};

// The gradients of scores: a lane's pairs of neighbouring queries.
template <class T, class Tile>
__device__ void store_slopes(const typename Tile::Products& slopes, T* to, int query) {
  to += Tile::first_row() * Tile::slopes_stride + query;
#pragma unroll
  for (int n = 0; n < Tile::others / 8; ++n) {
#pragma unroll
    for (int i = 0; i < 4; i += 2) {
      *reinterpret_cast<uint32_t*>(to + Tile::row(0, i) * Tile::slopes_stride +
                                   Tile::column(n, 0)) =
          pack<T>(slopes[0][n][i], slopes[0][n][i + 1]);
    }
  }
}

// dq of the warp's queries from the slopes of keys before `end`.
template <class T, class Tile>
__device__ void sum_over_keys(typename Tile::Sums& dq, const T* slopes, const T* k_rows, int end) {
  const int lane = Tile::lane();
  const T* const a_row = slopes + (lane % 8 + lane / 16 * 8) * Tile::slopes_stride +
                         Tile::first_row() + lane / 8 % 2 * 8;
  const T* const b_row = k_rows + (lane % 8 + lane / 8 % 2 * 8) * Tile::stride + lane / 16 * 8;
  for (int key = 0; key < end; key += 16) {
    uint32_t a[4];
    load_matrices_transposed(a, a_row + key * Tile::slopes_stride);
#pragma unroll
    for (int n = 0; n < Tile::width / 8; n += 2) {
      uint32_t b[4];
      load_matrices_transposed(b, b_row + key * Tile::stride + n * 8);
      multiply_add<T>(dq[0][n], a, b[0], b[1]);
      multiply_add<T>(dq[0][n + 1], a, b[2], b[3]);
    }
  }
}

template <class T, class Tile>
__global__ void __launch_bounds__(Tile::threads, 16 / Tile::warps)
    attention_short_backward(const Short<T> b) {
  begin_kernel();
#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 800
  extern __shared__ __align__(16) unsigned char attention_memory[];
  constexpr int part = Tile::rows * Tile::stride;
  T* const q_rows = reinterpret_cast<T*>(attention_memory);
  T *const dy_rows = q_rows + part, *const k_rows = dy_rows + part, *const v_rows = k_rows + part;
  T* const slopes = v_rows + part;
  float* const shifts = reinterpret_cast<float*>(slopes + Tile::rows * Tile::slopes_stride);
  float* const means = shifts + Tile::rows;
  const AttentionProblem<T>& p = b.problem;
  const Head at = p.head_of_block();
  const int width = int(p.width), end = int(p.end_of_keys(at));

  Tile::template copy<Tile::rows>(k_rows, b.k.rows(at), b.k.token, end, width);
  Tile::template copy<Tile::rows>(v_rows, b.v.rows(at), b.v.token, end, width);
  Tile::template copy<Tile::rows>(q_rows, b.q.rows(at), b.q.token, p.queries, width);
  Tile::template copy<Tile::rows>(dy_rows, b.dy.rows(at), b.dy.token, p.queries, width);
  commit_copies();
  const Means<T, Tile> own_means(b, at);
  for (int i = int(threadIdx.x); i < Tile::rows; i += Tile::threads) shifts[i] = b.shift(at, i);
  wait_for_copies<0>();
  __syncthreads();
  own_means.store(dy_rows, means);
  __syncthreads();

  typename Tile::Sums dk, dv;
  Tile::clear(dk);
  Tile::clear(dv);
  typename Tile::Rows own_k, own_v;
  Tile::load_rows(own_k, k_rows);
  Tile::load_rows(own_v, v_rows);
  for (int query = p.causal ? Tile::first_row() : 0; query < p.queries; query += Tile::others) {
    const T *const q = q_rows + query * Tile::stride, *const dy = dy_rows + query * Tile::stride;
    typename Tile::Products weights, gradients;
    Tile::multiply(weights, own_k, q);
    make_scores_of_keys<T, Tile>(weights, p, at, 0, query, end);
    Tile::multiply(gradients, own_v, dy);
    Tile::each(weights, [&](float& weight, int, int n, int i) {
      weight = fast_exp2(fmaf(weight, log2_e, -shifts[query + Tile::column(n, i)]));
    });
    Tile::each(gradients, [&](float& gradient, int s, int n, int i) {
      gradient = weights[s][n][i] * (gradient - means[query + Tile::column(n, i)]);
    });
    store_slopes<T, Tile>(gradients, slopes, query);
    Tile::add_product(dv, weights, dy);
    Tile::add_product(dk, gradients, q);
  }
  __syncthreads();
  // From here on a warp's rows of q and dy are its own.
  Tile::store(dk, p.scale, q_rows, b.dk.rows(at), b.dk.token, p.keys, width);
  Tile::store(dv, 1, dy_rows, b.dv.rows(at), b.dv.token, p.keys, width);
  typename Tile::Sums& dq = dk;
  Tile::clear(dq);
  const int seen = p.causal ? min(end, Tile::first_row() + 16) : end;
  sum_over_keys<T, Tile>(dq, slopes, k_rows, seen);
  Tile::store(dq, p.scale, q_rows, b.dq.rows(at), b.dq.token, p.queries, width);
#endif
}

template <class T, int warps>
bool run_as(const Context& context, const kernels::AttentionBackward& call) {
  using Tile = ShortTile<T, warps>;
  if (Tile::bytes > context.properties.sharedMemPerBlockOptin) return false;
  const Short<T> backward(call);
  constexpr auto kernel = attention_short_backward<T, Tile>;
  allow_shared_memory<kernel>(context, Tile::bytes);
  launch(context, kernel,
         {.blocks = dim3(unsigned(backward.problem.samples * backward.problem.heads)),
          .threads = Tile::threads,
          .shared_bytes = Tile::bytes},
         backward);
  return true;
}

}  // namespace

bool attend_to_short(const Context& context, const kernels::AttentionBackward& call) {
  const int64_t width = call.q.shape[-1], tokens = std::max(call.q.shape[1], call.keys());
  if (width <= 32 || width > 64 || call.attention.dropout > 0) return false;
  bool ran = false;
  dispatch_16_bits(call.q.dtype, [&](auto zero) {
    using T = decltype(zero);
    if (tokens <= 80) {
      ran = run_as<T, 5>(context, call);
    } else if (tokens <= 128) {
      ran = run_as<T, 8>(context, call);
    } else if (tokens <= 208) {
      ran = run_as<T, 13>(context, call);
    }
  });
  return ran;
}

}  // namespace adret::cuda
