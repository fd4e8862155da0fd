// Attention backward: the weights of a tile of queries and keys anew from the scores, then its part
// of all three gradients. A head belongs to one thread, so that sums have one order.
#include <adret/core/cpu/attention_tile.h>
#include <adret/core/cpu/dispatch.h>
#include <adret/core/cpu/grain.h>
#include <adret/core/cpu/kernels.h>
#include <adret/core/cpu/scratch.h>
#include <adret/core/thread_pool.h>
#include <adret/core/vector_math.h>

namespace adret::cpu {
namespace {

template <class T>
class BackwardHead {
 public:
  BackwardHead(const kernels::AttentionBackward& call, const AttentionProblem<T>& problem, Head at)
      : problem_(problem),
        at_(at),
        scale_(T(call.attention.scale)),
        q_(problem.rows(call.q, at)),
        k_(problem.rows(call.packed() ? call.q : call.k, at, call.packed())),
        v_(problem.rows(call.packed() ? call.q : call.v, at, 2 * call.packed())),
        y_(problem.rows(call.y, at)),
        dy_(problem.rows(call.dy, at)),
        dq_(problem.rows(call.dq, at)),
        dk_(problem.rows(call.packed() ? call.dq : call.dk, at, call.packed())),
        dv_(problem.rows(call.packed() ? call.dq : call.dv, at, 2 * call.packed())),
        log_sum_exp_(call.log_sum_exp.as<T>() + problem.place(at, 0)) {}

  void run() {
    dq_.block(0, problem_.queries).setZero();
    dk_.block(0, problem_.keys).setZero();
    dv_.block(0, problem_.keys).setZero();
    weights_ = thread_scratch<T>(2 * query_tile * key_tile);
    gradients_ = weights_ + query_tile * key_tile;
    for (int64_t query = 0; query < problem_.queries; query += query_tile) {
      const int64_t queries = std::min(query_tile, problem_.queries - query);
      T means[query_tile];  // of the weights' gradients: sum of dy y
      for (int64_t r = 0; r < queries; ++r) {
        const T *dy = dy_.row(query + r), *y = y_.row(query + r);
        T sum = 0;
        for (int64_t d = 0; d < problem_.width; ++d) sum += dy[d] * y[d];
        means[r] = sum;
      }
      const int64_t end = problem_.end_of_keys(at_, query + queries - 1);
      for (int64_t key = 0; key < end; key += key_tile) {
        add(query, queries, key, std::min(key_tile, end - key), means);
      }
    }
  }

 private:
  void add(int64_t query, int64_t queries, int64_t key, int64_t keys, const T* means) {
    problem_.scores(at_, q_, query, queries, k_, key, keys, weights_);
    Matrix<T> weights = tile_matrix(weights_, queries, keys),
              gradients = tile_matrix(gradients_, queries, keys);
    const Matrix<T> dy = dy_.block(query, queries);
    gradients.noalias() = dy * v_.block(key, keys).transpose();
    for (int64_t r = 0; r < queries; ++r) {
      turn(query + r, key, keys, means[r], weights_ + r * key_tile, gradients_ + r * key_tile);
    }
    dv_.block(key, keys).noalias() += weights.transpose() * dy;
    dq_.block(query, queries).noalias() += gradients * k_.block(key, keys);
    dk_.block(key, keys).noalias() += gradients.transpose() * q_.block(query, queries);
  }

  // From a query's scores and dy v^T: the weights after dropout, and the scores' gradients times
  // the scale.
  void turn(int64_t query, int64_t key, int64_t keys, T mean, T* weights, T* gradients) const {
    const T log_sum_exp = log_sum_exp_[query];
    if (log_sum_exp == -std::numeric_limits<T>::infinity()) {
      std::fill_n(weights, keys, T(0));
      std::fill_n(gradients, keys, T(0));
      return;
    }
#pragma GCC ivdep
    for (int64_t c = 0; c < keys; ++c) weights[c] = cpu::exp(weights[c] - log_sum_exp);
    if (!problem_.drops()) {
#pragma GCC ivdep
      for (int64_t c = 0; c < keys; ++c) gradients[c] = weights[c] * (gradients[c] - mean) * scale_;
      return;
    }
    T factors[key_tile];
    problem_.dropout_factors(at_, query, key, keys, factors);
    for (int64_t c = 0; c < keys; ++c) {
      gradients[c] = weights[c] * (gradients[c] * factors[c] - mean) * scale_;
      weights[c] *= factors[c];
    }
  }

  const AttentionProblem<T>& problem_;
  Head at_;
  T scale_;
  HeadRows<T> q_, k_, v_, y_, dy_, dq_, dk_, dv_;
  const T* log_sum_exp_;
  T *weights_ = nullptr, *gradients_ = nullptr;
};

}  // namespace

void run(const kernels::AttentionBackward& call) {
  dispatch_float(call.q.dtype, call.name, [&](auto zero) {
    using T = decltype(zero);
    const AttentionProblem<T> problem(call);
    const int64_t operations = problem.queries * problem.keys * problem.width / 8;
    parallel_for(problem.samples * problem.heads, items_per_chunk(math_grain, operations),
                 [&](int64_t begin, int64_t end) {
                   for (int64_t i = begin; i < end; ++i) {
                     BackwardHead<T>(call, problem, {i / problem.heads, i % problem.heads}).run();
                   }
                 });
  });
}

}  // namespace adret::cpu
