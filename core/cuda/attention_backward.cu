// Attention backward in every dtype and width, with the weights made anew from the scores: one
// kernel for the gradients of keys and values, whose blocks have a tile of keys and meet the
// queries, and one for those of queries, the other way round. So each sum has one order.
#include <adret/core/cuda/attention.h>
#include <adret/core/cuda/attention_tile.h>
#include <adret/core/cuda/team.h>
#include <adret/core/cuda/workspace.h>

namespace adret::cuda {
namespace {

template <class T>
struct Backward : AttentionGradients<T> {
  using A = Accumulator<T>;
  using AttentionGradients<T>::AttentionGradients;
  using AttentionGradients<T>::problem, AttentionGradients<T>::log_sum_exp;

  // From a product of q and k and one of dy and v: the weight after dropout, and the score's
  // gradient times the scale.
  __device__ void differentiate_score(A& weight, A& gradient, Head at, int64_t query, int64_t key,
                                      int64_t end, A log_sum, A mean) const {
    if (log_sum == A(-INFINITY)) {
      weight = gradient = 0;
      return;
    }
    weight = exp(problem.score(weight, at, query, key, end) - log_sum);
    const A factor = problem.drops ? problem.dropout_factor(at, query, key) : A(1);
    gradient = weight * (gradient * factor - mean) * problem.scale;
    weight *= factor;
  }
  // Of queries that are not there: as if they saw no key.
  __device__ A log_sum(Head at, int64_t query) const {
    return query < problem.queries ? log_sum_exp[problem.row(at, query)] : A(-INFINITY);
  }
};

// Eight threads for each query of each head, which read n elements at once.
template <class T, int n>
__global__ void __launch_bounds__(256) attention_means(AttentionProblem<T> p, HeadTensor<T> y,
                                                       HeadTensor<T> dy, Accumulator<T>* means) {
  begin_kernel();
  const int64_t count = p.samples * p.heads * p.queries;
  const Lanes team(8);
  for (int64_t first = first_item() / 32 * 4; first < count; first += all_threads() / 8) {
    const int64_t i = first + threadIdx.x % 32 / 8, head = i / p.queries, query = i % p.queries;
    const Head at{head / p.heads, head % p.heads};
    Total<Accumulator<T>> total;
    for (int64_t d = team.rank() * n; i < count && d < p.width; d += 8 * n) {
      using Some = Vector<T, n>;
      const Some a = *reinterpret_cast<const Some*>(y.rows(at, query) + d);
      const Some b = *reinterpret_cast<const Some*>(dy.rows(at, query) + d);
#pragma unroll
      for (int k = 0; k < n; ++k) total.value += widen<T>(a.at[k]) * widen<T>(b.at[k]);
    }
    total = team.reduce(total);
    if (i < count && team.rank() == 0) means[i] = total.value;
  }
}

template <class T, int parts>
__global__ void __launch_bounds__(256) attention_backward_keys(const Backward<T> b) {
  begin_kernel();
  using Tile = AttentionTile<T>;
  using A = Accumulator<T>;
  using Rows = typename Tile::Rows;
  constexpr int each = Tile::each;
  __shared__ typename Tile::Shared shared;
  const AttentionProblem<T>& p = b.problem;
  const Head at = p.head_of_block();
  const int width = int(p.width);
  const int64_t first = p.tile_of_block() * Tile::rows, end = p.end_of_keys(at);
  const int64_t count = min(int64_t(Tile::rows), p.keys - first);
  const int64_t seen = min(int64_t(Tile::rows), end - first);
  const Rows keys{b.k.rows(at, first), b.k.token, seen, width};
  const Rows values{b.v.rows(at, first), b.v.token, seen, width};

  A dk[parts][each][4] = {}, dv[parts][each][4] = {};
  const int64_t last = seen > 0 ? p.queries : 0;
  for (int64_t query = p.causal ? first : 0; query < last; query += Tile::rows) {
    const int64_t query_count = min(int64_t(Tile::rows), p.queries - query);
    const Rows queries{b.q.rows(at, query), b.q.token, query_count, width};
    const Rows dy{b.dy.rows(at, query), b.dy.token, query_count, width};
    A weights[each][each], gradients[each][each];
    Tile::multiply(weights, keys, queries, shared);
    Tile::multiply(gradients, values, dy, shared);
#pragma unroll
    for (int c = 0; c < each; ++c) {
      const int64_t of = query + Tile::x() + 16 * c;
      const A log_sum = b.log_sum(at, of), mean = b.mean(at, of);
#pragma unroll
      for (int r = 0; r < each; ++r) {
        b.differentiate_score(weights[r][c], gradients[r][c], at, of, first + Tile::y() * each + r,
                              end, log_sum, mean);
      }
    }
    Tile::share(weights, shared);
    Tile::template add_product<parts>(dv, dy, shared);
    Tile::share(gradients, shared);
    Tile::template add_product<parts>(dk, queries, shared);
  }
  Tile::template store<parts>(dk, b.dk.rows(at, first), b.dk.token, count, width);
  Tile::template store<parts>(dv, b.dv.rows(at, first), b.dv.token, count, width);
}

template <class T, int parts>
__global__ void __launch_bounds__(256) attention_backward_queries(const Backward<T> b) {
  begin_kernel();
  using Tile = AttentionTile<T>;
  using A = Accumulator<T>;
  using Rows = typename Tile::Rows;
  constexpr int each = Tile::each;
  __shared__ typename Tile::Shared shared;
  const AttentionProblem<T>& p = b.problem;
  const Head at = p.head_of_block();
  const int width = int(p.width);
  const int64_t first = p.first_query(Tile::rows);
  const int64_t count = min(int64_t(Tile::rows), p.queries - first);
  const int64_t end = p.end_of_keys(at, first + count - 1);
  const Rows queries{b.q.rows(at, first), b.q.token, count, width};
  const Rows dy{b.dy.rows(at, first), b.dy.token, count, width};

  A dq[parts][each][4] = {}, log_sums[each], means[each];
#pragma unroll
  for (int r = 0; r < each; ++r) {
    log_sums[r] = b.log_sum(at, first + Tile::y() * each + r);
    means[r] = b.mean(at, first + Tile::y() * each + r);
  }
  for (int64_t key = 0; key < end; key += Tile::rows) {
    const int64_t key_count = min(int64_t(Tile::rows), end - key);
    const Rows keys{b.k.rows(at, key), b.k.token, key_count, width};
    const Rows values{b.v.rows(at, key), b.v.token, key_count, width};
    A weights[each][each], gradients[each][each];
    Tile::multiply(weights, queries, keys, shared);
    Tile::multiply(gradients, dy, values, shared);
#pragma unroll
    for (int r = 0; r < each; ++r) {
#pragma unroll
      for (int c = 0; c < each; ++c) {
        b.differentiate_score(weights[r][c], gradients[r][c], at, first + Tile::y() * each + r,
                              key + Tile::x() + 16 * c, end, log_sums[r], means[r]);
      }
    }
    Tile::share(gradients, shared);
    Tile::template add_product<parts>(dq, keys, shared);
  }
  Tile::template store<parts>(dq, b.dq.rows(at, first), b.dq.token, count, width);
}

}  // namespace

void attention_means(const Context& context, const kernels::AttentionBackward& call, void* means) {
  dispatch_float(call.q.dtype, call.name, [&](auto zero) {
    using T = decltype(zero);
    constexpr int most = 16 / int(sizeof(T));
    const AttentionProblem<T> problem(call);
    const bool whole = problem.width % most == 0 && aligned_16(call.y.data, call.dy.data);
    launch(context, whole ? attention_means<T, most> : attention_means<T, 1>,
           grid_for(context, problem.rows() * 8), problem, HeadTensor<T>(call.y),
           HeadTensor<T>(call.dy), static_cast<Accumulator<T>*>(means));
  });
}

namespace {

template <class T>
void run_in(const Context& context, const kernels::AttentionBackward& call) {
  const AttentionProblem<T> problem(call);
  const Workspace means(context, size_t(problem.rows()) * sizeof(Accumulator<T>));
  const Backward<T> backward(call, means.data());
  attention_means(context, call, means.data());
  with_parts(problem.width, [&](auto parts) {
    launch(context, attention_backward_keys<T, decltype(parts)::value>,
           {.blocks = blocks_of<T>(problem, problem.keys)}, backward);
    launch(context, attention_backward_queries<T, decltype(parts)::value>,
           {.blocks = blocks_of<T>(problem, problem.queries)}, backward);
  });
}

}  // namespace

void attend(Context& context, const kernels::AttentionBackward& call) {
  if (attend_on_tensor_cores(context, call) || attend_in_f32(context, call)) return;
  check_width(call.q, call.name);
  dispatch_float(call.q.dtype, call.name,
                 [&](auto zero) { run_in<decltype(zero)>(context, call); });
}

}  // namespace adret::cuda
