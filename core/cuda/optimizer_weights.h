// The weights that an optimizer's step updates, and the kernel of steps that take each by itself.
#pragma once

#include <adret/core/cuda/optimizer_table.h>

namespace adret::cuda::arena {

// The values, or for 16-bit ones their masters if there are any.
template <class T>
struct Weights {
  using A = Accumulator<T>;
  static constexpr int n = Piece<T>::n;
  static constexpr bool may_have_masters = sizeof(T) == 2;

  __device__ Weights(const Piece<T>& piece, std::byte* values, std::byte* masters)
      : piece(piece), values(values), masters(masters) {
    if (may_have_masters && masters) {
      weights = piece.load_state(masters);
      return;
    }
    Group<T, n> loaded = piece.load_value(values);
#pragma unroll
    for (int i = 0; i < n; ++i) weights[i] = widen(loaded[i]);
  }
  __device__ A& operator[](int i) { return weights[i]; }
  __device__ void store() {
    Group<T, n> rounded;
#pragma unroll
    for (int i = 0; i < n; ++i) rounded[i] = narrow<T>(weights[i]);
    piece.store_value(values, rounded);
    if (may_have_masters && masters) piece.store_state(masters, weights);
  }

  const Piece<T>& piece;
  std::byte* values;
  std::byte* masters;
  Group<A, n> weights;
};

// A step by a rule:
//   Rates                               an InBoth, of a segment
//   rates(segment, index) -> Rates
//   update(piece, rates in its dtype)   a piece's weights and state
//   finish(table)                       by all threads at the end of each block
template <class Rule>
__global__ void __launch_bounds__(threads) step_of_each(Table table, Rule rule) {
  begin_kernel();
  using Rates = typename Rule::Rates;
  for_pieces<Rates>(
      table, [&](const Segment& segment, int index) { return rule.rates(segment, index); },
      [&](const Row<Rates>& row, int64_t place) {
        dispatch_piece(row, place, [&]<class T>(const Piece<T>& piece) {
          rule.update(piece, row.rates.in(Accumulator<T>()));
        });
      });
  rule.finish(table);
}

// Rates that were worked out in f64, in both dtypes; they have `in<A>()`.
template <template <class> class Rates>
__device__ InBoth<Rates> in_both(const Rates<double>& rates) {
  return {rates.template in<float>(), rates};
}

// Counts a step of each active segment, by one block.
__device__ inline void raise_steps(const Table& table, int64_t* steps) {
  for (int s = int(threadIdx.x); s < table.count; s += threads) {
    steps[s] += table.segments[s].active != 0;
  }
}

}  // namespace adret::cuda::arena
