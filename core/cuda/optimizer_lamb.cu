// LAMB's step: moments and parts of the norms, then each parameter's ratio, then the weights.
#include <adret/core/cuda/kernels.h>
#include <adret/core/cuda/optimizer_weights.h>
#include <adret/core/cuda/team.h>
#include <adret/core/cuda/workspace.h>

namespace adret::cuda {

using kernels::LambGroup;
using namespace arena;

namespace {

// Note [Sums by segment]
// A block leaves a sum for each segment that it meets, in place block + segment. Along the arena
// either the block or the segment grows from one such pair to the next, so that no two pairs share
// a place, and blocks + segments places are enough. The blocks that meet a segment follow from its
// offset, so its sums are added up in the same order every time.

// Sums of squares of a parameter or a part of it.
struct Squares {
  double weights = 0, directions = 0;
  __device__ void merge(const Squares& other) {
    weights += other.weights;
    directions += other.directions;
  }
};

template <class A>
struct LambRates {
  A beta1, beta2, rest1, rest2, first_scale, second_scale, epsilon, decay, unscale;
  A rate;  // lr times the ratio

  template <class B>
  __device__ LambRates<B> in() const {
    return {B(beta1),        B(beta2),   B(rest1), B(rest2),   B(first_scale),
            B(second_scale), B(epsilon), B(decay), B(unscale), B(rate)};
  }
  // Of a weight, from its moments.
  __device__ A direction(A weight, A first, A second) const {
    const A divisor = fma(sqrt(second), second_scale, epsilon);
    return fma(decay, weight, first_scale * first / divisor);
  }
};

using Rates = InBoth<LambRates>;

struct Lamb {
  std::byte* values;
  const std::byte* grads;
  std::byte* first;
  std::byte* second;
  std::byte* masters;
  int64_t* steps;
  const LambGroup* groups;
  Squares* sums;   // Note [Sums by segment]
  double* ratios;  // of each segment

  __device__ Rates rates(const Segment& segment, int64_t step, double ratio) const {
    const LambGroup group = groups[segment.group];
    return in_both(LambRates<double>{.beta1 = group.beta1,
                                     .beta2 = group.beta2,
                                     .rest1 = 1 - group.beta1,
                                     .rest2 = 1 - group.beta2,
                                     .first_scale = 1 / (1 - pow(group.beta1, double(step))),
                                     .second_scale = 1 / sqrt(1 - pow(group.beta2, double(step))),
                                     .epsilon = group.epsilon,
                                     .decay = group.weight_decay,
                                     .unscale = segment.unscale,
                                     .rate = group.lr * ratio});
  }

  template <class T>
  __device__ Squares update_moments(const Piece<T>& piece,
                                    const LambRates<Accumulator<T>>& rates) const {
    using A = Accumulator<T>;
    constexpr int n = Piece<T>::n;
    Weights<T> weights(piece, values, masters);  // 0 beyond the end, as gradients and moments
    Group<T, n> gradient = piece.load_value(grads);
    Group<A, n> m = piece.load_state(first), v = piece.load_state(second);
    Squares squares;
#pragma unroll
    for (int i = 0; i < n; ++i) {
      const A g = widen(gradient[i]) * rates.unscale;
      m[i] = fma(rates.beta1, m[i], rates.rest1 * g);
      v[i] = fma(rates.beta2, v[i], rates.rest2 * g * g);
      if (!piece.whole && i >= piece.count) continue;
      const double w = double(weights[i]), u = double(rates.direction(weights[i], m[i], v[i]));
      squares.weights = fma(w, w, squares.weights);
      squares.directions = fma(u, u, squares.directions);
    }
    piece.store_state(first, m);
    piece.store_state(second, v);
    return squares;
  }

  template <class T>
  __device__ void update_weights(const Piece<T>& piece,
                                 const LambRates<Accumulator<T>>& rates) const {
    using A = Accumulator<T>;
    Weights<T> weights(piece, values, masters);
    Group<A, Piece<T>::n> m = piece.load_state(first), v = piece.load_state(second);
#pragma unroll
    for (int i = 0; i < Piece<T>::n; ++i) {
      weights[i] = fma(-rates.rate, rates.direction(weights[i], m[i], v[i]), weights[i]);
    }
    weights.store();
  }
};

// The moments of this step, whose count is raised behind it.
__global__ void __launch_bounds__(threads) lamb_moments(Table table, Lamb step) {
  begin_kernel();
  const auto prepare = [&](const Segment& segment, int index) {
    return step.rates(segment, step.steps[index] + 1, 0);
  };
  const auto visit = [&](const Row<Rates>* rows, int first, int count, int64_t from, int64_t to) {
    for (int i = 0; i < count; ++i) {
      const Row<Rates>& row = rows[i];
      const int64_t begin = max(from, row.begin), end = min(to, row.end);
      if (begin >= end) continue;  // the same for all threads
      Squares squares;
      for (int64_t at = begin + threadIdx.x * vector_bytes; at < end;
           at += threads * vector_bytes) {
        dispatch_piece(row, at - row.begin, [&]<class T>(const Piece<T>& piece) {
          squares.merge(step.update_moments(piece, row.rates.in(Accumulator<T>())));
        });
      }
      squares = Block().reduce(squares);
      if (threadIdx.x == 0) step.sums[int(blockIdx.x) + first + i] = squares;
    }
  };
  for_rows<Rates>(table, prepare, visit);
}

// A block a segment.
__global__ void __launch_bounds__(threads) lamb_ratio(Table table, Lamb step) {
  begin_kernel();
  const int s = int(blockIdx.x);
  const Segment segment = table.segments[s];
  const int64_t bytes = segment.length * int64_t(size_of(DType(segment.dtype)));
  if (!segment.active) return;
  Squares total;
  if (bytes > 0) {
    const int64_t last = (segment.value_offset + bytes - 1) / table.stretch;
    for (int64_t block = segment.value_offset / table.stretch + threadIdx.x; block <= last;
         block += threads) {
      total.merge(step.sums[block + s]);
    }
  }
  total = Block().reduce(total);
  if (threadIdx.x > 0) return;
  const bool any = total.weights > 0 && total.directions > 0;
  step.ratios[s] = any ? sqrt(total.weights / total.directions) : 1;
  step.steps[s] += 1;
}

__global__ void __launch_bounds__(threads) lamb_weights(Table table, Lamb step) {
  begin_kernel();
  for_pieces<Rates>(
      table,
      [&](const Segment& segment, int index) {
        return step.rates(segment, step.steps[index], step.ratios[index]);
      },
      [&](const Row<Rates>& row, int64_t place) {
        dispatch_piece(row, place, [&]<class T>(const Piece<T>& piece) {
          step.update_weights(piece, row.rates.in(Accumulator<T>()));
        });
      });
}

}  // namespace

void run(Context& context, const kernels::LambStep& call) {
  const Table table = table_of(context, call.values, call.segments);
  const Grid grid = grid_of(table);
  const size_t places = grid.blocks.x + size_t(table.count);
  const Workspace sums(context, places * sizeof(Squares)),
      ratios(context, size_t(table.count) * sizeof(double));
  const Lamb step{.values = start(call.values),
                  .grads = start(call.grads),
                  .first = start(call.first),
                  .second = start(call.second),
                  .masters = start(call.masters),
                  .steps = call.steps.as<int64_t>(),
                  .groups = call.groups.as<LambGroup>(),
                  .sums = sums.as<Squares>(),
                  .ratios = ratios.as<double>()};
  launch(context, lamb_moments, grid, table, step);
  launch(context, lamb_ratio, Grid{.blocks = dim3(unsigned(table.count))}, table, step);
  launch(context, lamb_weights, grid, table, step);
}

}  // namespace adret::cuda
