// Attention forward: a tile of queries meets the keys tile by tile, with softmax kept up as they
// come (Milakov and Gimelshein 2018).
#include <adret/core/cpu/attention_tile.h>
#include <adret/core/cpu/dispatch.h>
#include <adret/core/cpu/grain.h>
#include <adret/core/cpu/kernels.h>
#include <adret/core/cpu/scratch.h>
#include <adret/core/cpu/vector.h>
#include <adret/core/thread_pool.h>
#include <adret/core/vector_math.h>

namespace adret::cpu {
namespace {

// Of a query's scores so far: the largest, and the sum of exp(score - largest).
template <class T>
struct RunningSoftmax {
  T largest = -std::numeric_limits<T>::infinity(), sum = 0;

  // Replaces scores by weights relative to the new largest one; what was summed before is to be
  // multiplied by the result.
  T take(T* scores, int64_t count) {
    T next = largest;
    for (int64_t c = 0; c < count; ++c) next = larger(next, scores[c]);
    if (next == -std::numeric_limits<T>::infinity()) {
      std::fill_n(scores, count, T(0));
      return 1;
    }
    const T correction = cpu::exp(largest - next);
#pragma GCC ivdep
    for (int64_t c = 0; c < count; ++c) scores[c] = cpu::exp(scores[c] - next);
    T added = 0;
    for (int64_t c = 0; c < count; ++c) added += scores[c];
    sum = sum * correction + added;
    largest = next;
    return correction;
  }
  T log_sum_exp() const { return largest + cpu::log(sum); }
};

template <class T>
class ForwardTile {
 public:
  ForwardTile(const kernels::AttentionForward& call, const AttentionProblem<T>& problem)
      : call_(call), problem_(problem) {}

  void run(Head at, int64_t first, int64_t count) const {
    const int packed = call_.packed();
    const HeadRows<T> q = problem_.rows(call_.q, at),
                      k = problem_.rows(packed ? call_.q : call_.k, at, packed),
                      v = problem_.rows(packed ? call_.q : call_.v, at, 2 * packed);
    const int64_t width = problem_.width, row = round_up(width, lanes<T>);
    T* const scores = thread_scratch<T>(query_tile * (key_tile + row));
    T* const sums = scores + query_tile * key_tile;
    Matrix<T> sum(sums, count, width, Eigen::OuterStride<>(row));
    sum.setZero();
    RunningSoftmax<T> softmax[query_tile];
    const int64_t end = problem_.end_of_keys(at, first + count - 1);
    for (int64_t key = 0; key < end; key += key_tile) {
      const int64_t keys = std::min(key_tile, end - key);
      problem_.scores(at, q, first, count, k, key, keys, scores);
      for (int64_t r = 0; r < count; ++r) {
        const T correction = softmax[r].take(scores + r * key_tile, keys);
#pragma GCC ivdep
        for (int64_t d = 0; d < width; ++d) sums[r * row + d] *= correction;
        if (problem_.drops()) drop(at, first + r, key, keys, scores + r * key_tile);
      }
      sum.noalias() += tile_matrix(scores, count, keys) * v.block(key, keys);
    }
    for (int64_t r = 0; r < count; ++r) finish(at, first + r, softmax[r], sums + r * row);
  }

 private:
  void drop(Head at, int64_t query, int64_t key, int64_t keys, T* weights) const {
    T factors[key_tile];
    problem_.dropout_factors(at, query, key, keys, factors);
    for (int64_t c = 0; c < keys; ++c) weights[c] *= factors[c];
  }

  void finish(Head at, int64_t query, const RunningSoftmax<T>& softmax, const T* sums) const {
    T* y = problem_.rows(call_.y, at).row(query);
    const T scale = softmax.sum == 0 ? T(0) : 1 / softmax.sum;
    for (int64_t d = 0; d < problem_.width; ++d) y[d] = sums[d] * scale;
    if (!call_.log_sum_exp.defined()) return;
    call_.log_sum_exp.template as<T>()[problem_.place(at, query)] = softmax.log_sum_exp();
  }

  const kernels::AttentionForward& call_;
  const AttentionProblem<T>& problem_;
};

}  // namespace

void run(const kernels::AttentionForward& call) {
  dispatch_float(call.q.dtype, call.name, [&](auto zero) {
    using T = decltype(zero);
    const AttentionProblem<T> problem(call);
    const ForwardTile<T> tile(call, problem);
    const int64_t tiles = chunk_count(problem.queries, query_tile);
    const int64_t operations = query_tile * problem.keys * problem.width / 8;
    parallel_for(problem.samples * problem.heads * tiles, items_per_chunk(math_grain, operations),
                 [&](int64_t begin, int64_t end) {
                   for (int64_t i = begin; i < end; ++i) {
                     const int64_t head = i / tiles, first = i % tiles * query_tile;
                     tile.run({head / problem.heads, head % problem.heads}, first,
                              std::min(query_tile, problem.queries - first));
                   }
                 });
  });
}

}  // namespace adret::cpu
