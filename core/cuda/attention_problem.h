// Attention as its kernels see it on the device: where rows lie, what queries see, which weights
// are dropped.
#pragma once

#include <adret/core/cuda/index_places.h>
#include <adret/core/cuda/launch.h>
#include <adret/core/cuda/random_words.h>
#include <adret/core/kernels/attention.h>

#include <cmath>
#include <cstdint>

namespace adret::cuda {

// Of one sample and head, or of its row.
struct Head {
  int64_t sample, head;
};

// A tensor (N, L, H, D), or a part of a packed one (N, L, 3, H, D).
template <class T>
struct HeadTensor {
  T* data = nullptr;
  int64_t sample = 0, token = 0, width = 0;  // elements from one to the next

  HeadTensor() = default;
  explicit HeadTensor(const TensorView& of, int part = 0) {
    const Shape& shape = of.shape;
    const int64_t row = shape[-1] * shape[-2];
    token = shape.rank() == 5 ? 3 * row : row;
    sample = shape[1] * token;
    width = shape[-1];
    data = of.as<T>() + part * row;
  }
  // The rows of a head from `first` on, `token` elements apart.
  __device__ T* rows(Head at, int64_t first = 0) const {
    return data + at.sample * sample + at.head * width + first * token;
  }
};

// What queries see of keys: 0 <= i < queries, 0 <= j < end_of_keys().
template <class T>
struct AttentionProblem {
  using A = Accumulator<T>;

  int64_t samples, heads, queries, keys, width;
  A scale;
  bool causal, drops, mask_is_boolean;
  const void* mask;
  Indices lengths;
  int64_t mask_sample = 0, mask_head = 0, mask_query = 0;  // elements from one to the next
  WordSequence words;
  uint64_t threshold;  // words below are dropped
  A kept;              // what the other weights are multiplied by

  template <class Call>
  explicit AttentionProblem(const Call& call)
      : samples(call.q.shape[0]),
        heads(call.q.shape[-2]),
        queries(call.q.shape[1]),
        keys(call.keys()),
        width(call.q.shape[-1]),
        scale(A(call.attention.scale)),
        causal(call.attention.causal),
        drops(call.attention.dropout > 0),
        mask_is_boolean(call.mask.dtype == DType::boolean),
        mask(call.mask.data),
        lengths(indices_of(call.lengths)),
        words(call.attention.key, call.step),
        threshold(uint64_t(std::ceil(call.attention.dropout * 0x1p32))),
        kept(call.attention.dropout < 1 ? A(1 / (1 - call.attention.dropout)) : A(0)) {
    if (!call.mask.defined()) mask = nullptr;
    if (!call.lengths.defined()) lengths.data = nullptr;
    if (!mask) return;
    const Shape& shape = call.mask.shape;
    mask_query = shape[2] == 1 ? 0 : keys;
    mask_head = shape[1] == 1 ? 0 : shape[2] * keys;
    mask_sample = shape[0] == 1 ? 0 : shape[1] * shape[2] * keys;
  }

  // The blocks of a grid are the tiles of all heads: the tile is the slower index.
  __device__ Head head_of_block() const {
    const int64_t head = blockIdx.x % (samples * heads);
    return {head / heads, head % heads};
  }
  __device__ int64_t tile_of_block() const { return blockIdx.x / (samples * heads); }
  // The first of the block's tile of so many queries. The last queries come first: when causal,
  // they have the most keys.
  __device__ int64_t first_query(int rows) const {
    return ((queries + rows - 1) / rows - 1 - tile_of_block()) * rows;
  }
  // Queries of all heads.
  int64_t rows() const { return samples * heads * queries; }

  // The place of a query's row in log_sum_exp.
  __device__ int64_t row(Head at, int64_t query) const {
    return (at.sample * heads + at.head) * queries + query;
  }

  // Keys from there on are seen by no query.
  __device__ int64_t end_of_keys(Head at) const {
    if (!lengths.data) return keys;
    const int64_t length = lengths[at.sample];
    return length < 0 ? 0 : (length < keys ? length : keys);
  }
  // The same for queries up to `last`.
  __device__ int64_t end_of_keys(Head at, int64_t last) const {
    const int64_t end = end_of_keys(at);
    return causal && last + 1 < end ? last + 1 : end;
  }

  // From a product of q and k; -inf for a key that is not seen, `end` being end_of_keys.
  __device__ A score(A product, Head at, int64_t query, int64_t key, int64_t end) const {
    if (query >= queries || key >= end || (causal && key > query)) return -INFINITY;
    const A value = product * scale;
    return mask ? masked(value, at, query, key) : value;
  }
  __device__ A masked(A value, Head at, int64_t query, int64_t key) const {
    const int64_t place = at.sample * mask_sample + at.head * mask_head + query * mask_query + key;
    if (mask_is_boolean) return static_cast<const bool*>(mask)[place] ? value : A(-INFINITY);
    const A added = widen<T>(static_cast<const T*>(mask)[place]), lowest = A(kernels::lowest_mask);
    return value + (added < lowest && added != A(-INFINITY) ? lowest : added);
  }

  // The block of words that has a weight's.
  __device__ void draw(Head at, int64_t query, int64_t key, uint32_t (&block)[4]) const {
    words.draw((row(at, query) * keys + key) & ~int64_t(3), block);
  }
  // What a weight is multiplied by when weights are dropped.
  __device__ A factor_of(uint32_t word) const { return word < threshold ? A(0) : kept; }
  __device__ A dropout_factor(Head at, int64_t query, int64_t key) const {
    const int place = int((row(at, query) * keys + key) & 3);
    uint32_t block[4];
    draw(at, query, key, block);
    const uint32_t low = place & 1 ? block[1] : block[0], high = place & 1 ? block[3] : block[2];
    return factor_of(place & 2 ? high : low);
  }
};

// Heads are at most this wide.
inline constexpr int64_t widest_head = 256;
void check_width(const TensorView& q, const char* kernel);  // throws ShapeError

// The operands of both directions; k and v of a packed call are parts of q.
template <class T, class Call>
HeadTensor<T> keys_of(const Call& call) {
  return HeadTensor<T>(call.packed() ? call.q : call.k, call.packed() ? 1 : 0);
}
template <class T, class Call>
HeadTensor<T> values_of(const Call& call) {
  return HeadTensor<T>(call.packed() ? call.q : call.v, call.packed() ? 2 : 0);
}

// The operands of the gradients; `means` is what attention_means makes.
template <class T>
struct AttentionGradients {
  AttentionProblem<T> problem;
  HeadTensor<T> q, k, v, dy, dq, dk, dv;
  const Accumulator<T>*log_sum_exp, *means;

  AttentionGradients(const kernels::AttentionBackward& call, const void* means)
      : problem(call),
        q(call.q),
        k(keys_of<T>(call)),
        v(values_of<T>(call)),
        dy(call.dy),
        dq(call.dq),
        dk(call.packed() ? call.dq : call.dk, call.packed() ? 1 : 0),
        dv(call.packed() ? call.dq : call.dv, call.packed() ? 2 : 0),
        log_sum_exp(call.log_sum_exp.as<Accumulator<T>>()),
        means(static_cast<const Accumulator<T>*>(means)) {}

  // Of queries that are not there 0.
  __device__ Accumulator<T> mean(Head at, int64_t query) const {
    return query < problem.queries ? means[problem.row(at, query)] : Accumulator<T>(0);
  }
};

}  // namespace adret::cuda
