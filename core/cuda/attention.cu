// Attention forward in every dtype and width: a block has a tile of queries and meets the keys tile
// by tile, with softmax kept up as they come (Milakov and Gimelshein 2018).
#include <adret/core/cuda/attention.h>
#include <adret/core/cuda/attention_tile.h>
#include <adret/core/cuda/device_math.h>
#include <adret/core/cuda/team.h>

namespace adret::cuda {
namespace {

// Over the threads of a tile's row.
template <class A>
__device__ A row_largest(A value) {
#pragma unroll
  for (int distance = 8; distance > 0; distance /= 2) {
    value = larger(value, shuffle_xor(value, distance));
  }
  return value;
}

template <class T>
struct Forward {
  AttentionProblem<T> problem;
  HeadTensor<T> q, k, v, y;
  Accumulator<T>* log_sum_exp;
};

// Of a thread's rows, so far: the largest score and the sum of exp(score - largest).
template <class T>
struct RunningSoftmax {
  using A = Accumulator<T>;
  static constexpr int each = AttentionTile<T>::each;
  A largest[each], sum[each];

  __device__ RunningSoftmax() {
#pragma unroll
    for (int r = 0; r < each; ++r) {
      largest[r] = -INFINITY;
      sum[r] = 0;
    }
  }

  // Replaces a row's scores by weights relative to the new largest one; what was summed before is
  // to be multiplied by the result.
  __device__ A take(int r, A (&scores)[each]) {
    A next = largest[r];
#pragma unroll
    for (int c = 0; c < each; ++c) next = larger(next, scores[c]);
    next = row_largest(next);
    const bool none = next == A(-INFINITY);
    const A correction = none ? A(1) : exp(largest[r] - next);
    Total<A> total;
#pragma unroll
    for (int c = 0; c < each; ++c) {
      scores[c] = none ? A(0) : exp(scores[c] - next);
      total.value += scores[c];
    }
    sum[r] = sum[r] * correction + Lanes(16).reduce(total).value;
    largest[r] = next;
    return correction;
  }
};

template <class T, int parts>
__global__ void __launch_bounds__(256) attention_forward(const Forward<T> f) {
  begin_kernel();
  using Tile = AttentionTile<T>;
  using A = Accumulator<T>;
  using Rows = typename Tile::Rows;
  constexpr int each = Tile::each;
  __shared__ typename Tile::Shared shared;
  const AttentionProblem<T>& p = f.problem;
  const Head at = p.head_of_block();
  const int width = int(p.width);
  const int64_t first = p.first_query(Tile::rows);
  const int64_t count = min(int64_t(Tile::rows), p.queries - first);
  const int64_t end = p.end_of_keys(at, first + count - 1);
  const Rows queries{f.q.rows(at, first), f.q.token, count, width};
  const int64_t own = first + Tile::y() * each;

  A sums[parts][each][4] = {};
  RunningSoftmax<T> softmax;
  for (int64_t key = 0; key < end; key += Tile::rows) {
    const int64_t key_count = min(int64_t(Tile::rows), end - key);
    A weights[each][each];
    Tile::multiply(weights, queries, Rows{f.k.rows(at, key), f.k.token, key_count, width}, shared);
#pragma unroll
    for (int r = 0; r < each; ++r) {
#pragma unroll
      for (int c = 0; c < each; ++c) {
        weights[r][c] = p.score(weights[r][c], at, own + r, key + Tile::x() + 16 * c, end);
      }
      const A correction = softmax.take(r, weights[r]);
#pragma unroll
      for (int c = 0; c < each; ++c) {
        if (p.drops) weights[r][c] *= p.dropout_factor(at, own + r, key + Tile::x() + 16 * c);
      }
#pragma unroll
      for (int part = 0; part < parts; ++part) {
#pragma unroll
        for (int c = 0; c < 4; ++c) sums[part][r][c] *= correction;
      }
    }
    Tile::share(weights, shared);
    Tile::template add_product<parts>(sums, Rows{f.v.rows(at, key), f.v.token, key_count, width},
                                      shared);
  }
#pragma unroll
  for (int r = 0; r < each; ++r) {
    const A factor = softmax.sum[r] == 0 ? A(0) : A(1) / softmax.sum[r];
#pragma unroll
    for (int part = 0; part < parts; ++part) {
#pragma unroll
      for (int c = 0; c < 4; ++c) sums[part][r][c] *= factor;
    }
    if (f.log_sum_exp && Tile::x() == 0 && own + r < p.queries) {
      f.log_sum_exp[p.row(at, own + r)] = softmax.largest[r] + log(softmax.sum[r]);
    }
  }
  Tile::template store<parts>(sums, f.y.rows(at, first), f.y.token, count, width);
}

}  // namespace

void check_width(const TensorView& q, const char* kernel) {
  if (q.shape[-1] <= widest_head) return;
  throw ShapeError(std::string("[") + kernel + "] heads are " + std::to_string(q.shape[-1]) +
                   " wide, on CUDA at most " + std::to_string(widest_head) +
                   "; take more heads, or compute on the CPU");
}

void attend(Context& context, const kernels::AttentionForward& call) {
  if (attend_on_tensor_cores(context, call) || attend_in_f32(context, call)) return;
  check_width(call.q, call.name);
  dispatch_float(call.q.dtype, call.name, [&](auto zero) {
    using T = decltype(zero);
    const Forward<T> forward{
        AttentionProblem<T>(call),
        HeadTensor<T>(call.q),
        keys_of<T>(call),
        values_of<T>(call),
        HeadTensor<T>(call.y),
        call.log_sum_exp.defined() ? call.log_sum_exp.as<Accumulator<T>>() : nullptr};
    with_parts(forward.problem.width, [&](auto parts) {
      launch(context, attention_forward<T, decltype(parts)::value>,
             {.blocks = blocks_of<T>(forward.problem, forward.problem.queries)}, forward);
    });
  });
}

}  // namespace adret::cuda
