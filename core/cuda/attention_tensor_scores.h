// What a lane makes of the scores of attention on tensor cores: which are seen, what is dropped.
#pragma once

#include <adret/core/cuda/attention_tensor_tile.h>

#include <numbers>

namespace adret::cuda {

// Of a tile of queries, from products of q and k: scores, -inf for keys that a query does not see.
template <class T, class Tile>
__device__ void make_scores(typename Tile::Products& products, const AttentionProblem<T>& p,
                            Head at, int64_t query, int64_t key, int64_t end) {
  const int64_t first = query + Tile::first_row();
  const bool all_are_seen = key + Tile::others <= end && first + 16 * Tile::sets <= p.queries &&
                            (!p.causal || key + Tile::others <= first + 1);
  if (all_are_seen) {
    Tile::each(products, [&](float& value, int, int, int) { value *= p.scale; });
  } else {
    int seen[Tile::sets][2];  // columns of each row
#pragma unroll
    for (int s = 0; s < Tile::sets; ++s) {
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        const int64_t of = first + Tile::row(s, 2 * half);
        const int64_t limit = p.causal ? min(end, of + 1) : end;
        seen[s][half] = of < p.queries ? int(min(limit - key, int64_t(Tile::others))) : 0;
      }
    }
    Tile::each(products, [&](float& value, int s, int n, int i) {
      value = Tile::column(n, i) < seen[s][i / 2] ? value * p.scale : -INFINITY;
    });
  }
  if (!p.mask) return;
  Tile::each(products, [&](float& value, int s, int n, int i) {
    if (value == -INFINITY) return;  // perhaps not there
    value = p.masked(value, at, first + Tile::row(s, i), key + Tile::column(n, i));
  });
}

// Note [Words of neighbours]
// A block of Philox has the words of four neighbouring weights of a query. Where rows of weights
// begin with a block (keys % 4 == 0) the lanes that have weights of one block share the work: in a
// tile of queries two lanes have halves of a block of each of two rows; in a tile of keys four
// lanes have a word each of the blocks of their four elements.

// f(factors, set, eight) with what the four weights of a lane are multiplied by when weights are
// dropped, in a tile of queries.
template <class Tile, class T, class F>
__device__ void each_dropped(const AttentionProblem<T>& p, Head at, int64_t query, int64_t key,
                             F f) {
  const int64_t first = query + Tile::first_row();
  const bool odd = Tile::lane() & 1, shares = p.keys % 4 == 0;
#pragma unroll
  for (int s = 0; s < Tile::sets; ++s) {
#pragma unroll
    for (int n = 0; n < Tile::others / 8; ++n) {
      float factors[4];
      if (shares) {
        // An even lane draws for the upper row, and has words 0 and 1 of both; its odd neighbour
        // draws for the lower row, and has words 2 and 3.
        uint32_t words[4];
        p.draw(at, first + Tile::row(s, odd ? 2 : 0), key + (Tile::column(n, 0) & ~3), words);
        const uint32_t low = __shfl_xor_sync(~0u, odd ? words[0] : words[2], 1);
        const uint32_t high = __shfl_xor_sync(~0u, odd ? words[1] : words[3], 1);
        factors[0] = p.factor_of(odd ? low : words[0]);
        factors[1] = p.factor_of(odd ? high : words[1]);
        factors[2] = p.factor_of(odd ? words[2] : low);
        factors[3] = p.factor_of(odd ? words[3] : high);
      } else {
#pragma unroll
        for (int i = 0; i < 4; ++i) {
          factors[i] = p.dropout_factor(at, first + Tile::row(s, i), key + Tile::column(n, i));
        }
      }
      f(factors, s, n);
    }
  }
}

__device__ inline uint32_t word_of(const uint32_t (&words)[4], int index) {
  const uint32_t even = index & 2 ? words[2] : words[0], odd = index & 2 ? words[3] : words[1];
  return index & 1 ? odd : even;
}

// The same in a tile of keys.
template <class Tile, class T, class F>
__device__ void each_dropped_of_keys(const AttentionProblem<T>& p, Head at, int64_t key,
                                     int64_t query, F f) {
  const int64_t first = key + Tile::first_row();
  const int own = Tile::lane() / 4 % 4;  // which of the four lanes, and of a block's words
  const bool shares = p.keys % 4 == 0;
#pragma unroll
  for (int s = 0; s < Tile::sets; ++s) {
#pragma unroll
    for (int n = 0; n < Tile::others / 8; ++n) {
      float factors[4];
      if (shares) {
        // Lane i of the four draws the block of element i, and gives each lane its word.
        uint32_t words[4], received[4];
        p.draw(at, query + Tile::column(n, own), first + (Tile::row(s, own) & ~3), words);
#pragma unroll
        for (int d = 0; d < 4; ++d) {
          received[d] = __shfl_xor_sync(~0u, word_of(words, own ^ d), 4 * d);  // of element own ^ d
        }
#pragma unroll
        for (int i = 0; i < 4; ++i) factors[i] = p.factor_of(word_of(received, own ^ i));
      } else {
#pragma unroll
        for (int i = 0; i < 4; ++i) {
          factors[i] = p.dropout_factor(at, query + Tile::column(n, i), first + Tile::row(s, i));
        }
      }
      f(factors, s, n);
    }
  }
}

inline constexpr float log2_e = float(std::numbers::log2e);

// 2^x to a few units of the last place.
__device__ inline float fast_exp2(float x) {
  float y;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}

}  // namespace adret::cuda
