// What both directions of attention share: where rows lie, what queries see, and tiles of scores.
#pragma once

#include <adret/core/cpu/eigen.h>
#include <adret/core/cpu/random_words.h>
#include <adret/core/kernels/attention.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <optional>

namespace adret::cpu {

inline constexpr int64_t query_tile = 64, key_tile = 64;

// One of the heads of a sample.
struct Head {
  int64_t sample, head;
};

// Its rows of `width` elements in a tensor, `stride` elements apart.
template <class T>
struct HeadRows {
  T* data;
  int64_t stride, width;

  T* row(int64_t i) const { return data + i * stride; }
  Matrix<T> block(int64_t first, int64_t count) const {
    return Matrix<T>(row(first), count, width, Eigen::OuterStride<>(stride));
  }
};

// Of the scores or weights of a tile.
template <class T>
Matrix<T> tile_matrix(T* data, int64_t queries, int64_t keys) {
  return Matrix<T>(data, queries, keys, Eigen::OuterStride<>(key_tile));
}

template <class T>
class AttentionProblem {
 public:
  template <class Call>
  explicit AttentionProblem(const Call& call)
      : samples(call.q.shape[0]),
        queries(call.q.shape[1]),
        keys(call.keys()),
        heads(call.q.shape[-2]),
        width(call.q.shape[-1]),
        params_(call.attention),
        mask_(call.mask),
        lengths_(call.lengths) {
    if (params_.dropout > 0) words_.emplace(params_.key, call.step);
    if (!mask_.defined()) return;
    const Shape& shape = mask_.shape;
    mask_query_ = shape[2] == 1 ? 0 : keys;
    mask_head_ = shape[1] == 1 ? 0 : shape[2] * keys;
    mask_sample_ = shape[0] == 1 ? 0 : shape[1] * shape[2] * keys;
  }

  const int64_t samples, queries, keys, heads, width;

  // Of (N, L, H, D), or part 0, 1 or 2 of a packed (N, L, 3, H, D).
  HeadRows<T> rows(const TensorView& of, Head at, int part = 0) const {
    const int64_t row = heads * width, stride = of.shape.rank() == 5 ? 3 * row : row;
    return {of.as<T>() + at.sample * of.shape[1] * stride + part * row + at.head * width, stride,
            width};
  }
  // The place of a query's row in log_sum_exp.
  int64_t place(Head at, int64_t query) const {
    return (at.sample * heads + at.head) * queries + query;
  }

  // Keys 0..end-1 are those that some query up to `last` can see.
  int64_t end_of_keys(Head at, int64_t last) const {
    int64_t end = params_.causal ? std::min(keys, last + 1) : keys;
    if (lengths_.defined()) {
      const int64_t length = lengths_.dtype == DType::i32 ? lengths_.as<int32_t>()[at.sample]
                                                          : lengths_.as<int64_t>()[at.sample];
      end = std::clamp<int64_t>(length, 0, end);
    }
    return end;
  }

  // scores of rows of q and k, a tile at most: scale q k^T + mask, -inf where a key is not seen.
  void scores(Head at, const HeadRows<T>& q, int64_t query, int64_t query_count,
              const HeadRows<T>& k, int64_t key, int64_t key_count, T* to) const {
    tile_matrix(to, query_count, key_count).noalias() =
        q.block(query, query_count) * k.block(key, key_count).transpose();
    constexpr T unseen = -std::numeric_limits<T>::infinity();
    const T scale = T(params_.scale);
    for (int64_t r = 0; r < query_count; ++r, to += key_tile) {
#pragma GCC ivdep
      for (int64_t c = 0; c < key_count; ++c) to[c] *= scale;
      if (mask_.defined()) add_mask(at, query + r, key, key_count, to);
      if (!params_.causal) continue;
      const int64_t seen = std::clamp<int64_t>(query + r + 1 - key, 0, key_count);
      std::fill(to + seen, to + key_count, unseen);
    }
  }

  bool drops() const { return words_.has_value(); }
  // What the weights of a query's keys are multiplied by: 0 where they are dropped.
  void dropout_factors(Head at, int64_t query, int64_t key, int64_t key_count, T* to) const {
    const uint64_t threshold = uint64_t(std::ceil(params_.dropout * 0x1p32));
    const T kept = params_.dropout < 1 ? T(1 / (1 - params_.dropout)) : T(0);
    const int64_t first = place(at, query) * keys + key, skipped = first % 4;
    uint32_t words[key_tile + 4 + words_at_once];
    for (int64_t w = 0; w < skipped + key_count; w += words_at_once) {
      words_->draw(first - skipped + w, words + w);
    }
    for (int64_t c = 0; c < key_count; ++c) to[c] = words[skipped + c] < threshold ? T(0) : kept;
  }

 private:
  void add_mask(Head at, int64_t query, int64_t key, int64_t key_count, T* to) const {
    const int64_t place =
        at.sample * mask_sample_ + at.head * mask_head_ + query * mask_query_ + key;
    if (mask_.dtype == DType::boolean) {
      const bool* seen = mask_.as<bool>() + place;
      for (int64_t c = 0; c < key_count; ++c) {
        to[c] = seen[c] ? to[c] : -std::numeric_limits<T>::infinity();
      }
    } else {
      const T *added = mask_.as<T>() + place, lowest = T(kernels::lowest_mask);
#pragma GCC ivdep
      for (int64_t c = 0; c < key_count; ++c) {
        const bool is_low = added[c] < lowest && added[c] != -std::numeric_limits<T>::infinity();
        to[c] += is_low ? lowest : added[c];
      }
    }
  }

  kernels::AttentionParams params_;
  TensorView mask_, lengths_;
  int64_t mask_sample_ = 0, mask_head_ = 0, mask_query_ = 0;  // elements from one to the next
  std::optional<WordSequence> words_;
};

}  // namespace adret::cpu
