// What the gradients of attention on tensor cores have in common: weights from scores, and the
// scores of a tile of keys.
#pragma once

#include <adret/core/cuda/attention_tensor_scores.h>

namespace adret::cuda {

template <class T>
struct TensorGradients : AttentionGradients<T> {
  using AttentionGradients<T>::AttentionGradients;
  using AttentionGradients<T>::problem, AttentionGradients<T>::log_sum_exp;

  // What weights are 2^(log2_e score - shift) with: infinite for queries that see nothing or are
  // not there, so that theirs are 0.
  __device__ float shift(Head at, int64_t query) const {
    if (query >= problem.queries) return INFINITY;
    const float log_sum = log_sum_exp[problem.row(at, query)];
    return log_sum == -INFINITY ? INFINITY : log_sum * log2_e;
  }
};

// Of a tile of keys, from products of k and q: scores, -inf for keys that a query does not see.
template <class T, class Tile>
__device__ void make_scores_of_keys(typename Tile::Products& products, const AttentionProblem<T>& p,
                                    Head at, int64_t key, int64_t query, int64_t end) {
  const int64_t first = key + Tile::first_row(), last = first + 16 * Tile::sets - 1;
  if (last < end && (!p.causal || last <= query)) {
    Tile::each(products, [&](float& value, int, int, int) { value *= p.scale; });
  } else {
    int seen[Tile::sets][2];  // columns of each row, from there on
#pragma unroll
    for (int s = 0; s < Tile::sets; ++s) {
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        const int64_t of = first + Tile::row(s, 2 * half);
        const int64_t begin = p.causal ? max(of - query, int64_t(0)) : 0;
        seen[s][half] = of < end ? int(min(begin, int64_t(Tile::others))) : Tile::others;
      }
    }
    Tile::each(products, [&](float& value, int s, int n, int i) {
      value = Tile::column(n, i) >= seen[s][i / 2] ? value * p.scale : -INFINITY;
    });
  }
  if (!p.mask) return;
  Tile::each(products, [&](float& value, int s, int n, int i) {
    const int64_t of = query + Tile::column(n, i);
    if (value == -INFINITY || of >= p.queries) return;  // perhaps not there
    value = p.masked(value, at, of, first + Tile::row(s, i));
  });
}

}  // namespace adret::cuda
