// Optimizer steps and averages of weights: one launch over the arenas, whatever the segments.
#include <adret/core/cuda/kernels.h>
#include <adret/core/cuda/optimizer_table.h>
#include <adret/core/cuda/team.h>

namespace adret::cuda {

using kernels::AdamGroup;
using kernels::SgdGroup;
using namespace arena;

namespace {

__device__ unsigned blocks_done;  // one launch at a time uses it: all are on one stream

// The weights that a step updates: the values, or for 16-bit ones their masters if there are any.
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

// -- SGD ------------------------------------------------------------------------------------------

template <class A>
struct SgdRates {
  A lr, momentum, decay, unscale;
  bool has_momentum, nesterov;

  static __device__ SgdRates of(const SgdGroup& group, const Segment& segment) {
    return {.lr = A(group.lr),
            .momentum = A(group.momentum),
            .decay = A(group.weight_decay),
            .unscale = A(segment.unscale),
            .has_momentum = group.momentum != 0,
            .nesterov = group.nesterov != 0};
  }
};

struct SgdArenas {
  std::byte* values;
  const std::byte* grads;
  std::byte* momentum;
  std::byte* masters;
};

template <class T>
__device__ void sgd(const Piece<T>& piece, const SgdArenas& arenas,
                    const SgdRates<Accumulator<T>>& rates) {
  using A = Accumulator<T>;
  Weights<T> weights(piece, arenas.values, arenas.masters);
  Group<T, Piece<T>::n> grads = piece.load_value(arenas.grads);
  Group<A, Piece<T>::n> momentum{};
  if (rates.has_momentum) momentum = piece.load_state(arenas.momentum);
#pragma unroll
  for (int i = 0; i < Piece<T>::n; ++i) {
    const A g = fma(rates.decay, weights[i], widen(grads[i]) * rates.unscale);
    A direction = g;
    if (rates.has_momentum) {
      momentum[i] = fma(rates.momentum, momentum[i], g);
      direction = rates.nesterov ? fma(rates.momentum, momentum[i], g) : momentum[i];
    }
    weights[i] = fma(-rates.lr, direction, weights[i]);
  }
  if (rates.has_momentum) piece.store_state(arenas.momentum, momentum);
  weights.store();
}

__global__ void __launch_bounds__(threads)
    sgd_step(Table table, SgdArenas arenas, const SgdGroup* groups) {
  begin_kernel();
  using Rates = InBoth<SgdRates>;
  for_pieces<Rates>(
      table,
      [=](const Segment& segment, int) -> Rates {
        const SgdGroup group = groups[segment.group];
        return {SgdRates<float>::of(group, segment), SgdRates<double>::of(group, segment)};
      },
      [=](const Row<Rates>& row, int64_t place) {
        dispatch_piece(row, place, [&]<class T>(const Piece<T>& piece) {
          sgd(piece, arenas, row.rates.in(Accumulator<T>()));
        });
      });
}

// -- Adam -----------------------------------------------------------------------------------------

template <class A>
struct AdamRates {
  A beta1, beta2, rest1, rest2, rate, second_scale, epsilon, keep, decay, unscale;

  static __device__ AdamRates of(const AdamGroup& group, const Segment& segment, double power1,
                                 double power2) {
    const bool decoupled = group.decoupled != 0;
    return {.beta1 = A(group.beta1),
            .beta2 = A(group.beta2),
            .rest1 = A(1 - group.beta1),
            .rest2 = A(1 - group.beta2),
            .rate = A(group.lr / (1 - power1)),
            .second_scale = A(1 / sqrt(1 - power2)),
            .epsilon = A(group.epsilon),
            .keep = A(decoupled ? 1 - group.lr * group.weight_decay : 1),
            .decay = A(decoupled ? 0 : group.weight_decay),
            .unscale = A(segment.unscale)};
  }
};

struct AdamArenas {
  std::byte* values;
  const std::byte* grads;
  std::byte* first;
  std::byte* second;
  std::byte* masters;
};

template <class T>
__device__ void adam(const Piece<T>& piece, const AdamArenas& arenas,
                     const AdamRates<Accumulator<T>>& rates) {
  using A = Accumulator<T>;
  Weights<T> weights(piece, arenas.values, arenas.masters);
  Group<T, Piece<T>::n> grads = piece.load_value(arenas.grads);
  Group<A, Piece<T>::n> first = piece.load_state(arenas.first);
  Group<A, Piece<T>::n> second = piece.load_state(arenas.second);
#pragma unroll
  for (int i = 0; i < Piece<T>::n; ++i) {
    const A g = fma(rates.decay, weights[i], widen(grads[i]) * rates.unscale);
    first[i] = fma(rates.beta1, first[i], rates.rest1 * g);
    second[i] = fma(rates.beta2, second[i], rates.rest2 * g * g);
    const A divisor = fma(sqrt(second[i]), rates.second_scale, rates.epsilon);
    weights[i] = fma(-rates.rate, first[i] / divisor, rates.keep * weights[i]);
  }
  piece.store_state(arenas.first, first);
  piece.store_state(arenas.second, second);
  weights.store();
}

// All blocks compute with the count of steps raised by one; the last one to finish writes it.
__global__ void __launch_bounds__(threads)
    adam_step(Table table, AdamArenas arenas, int64_t* steps, const AdamGroup* groups) {
  begin_kernel();
  using Rates = InBoth<AdamRates>;
  for_pieces<Rates>(
      table,
      [=](const Segment& segment, int index) -> Rates {
        const AdamGroup group = groups[segment.group];
        const double step = double(steps[index] + 1);
        const double power1 = pow(group.beta1, step), power2 = pow(group.beta2, step);
        return {AdamRates<float>::of(group, segment, power1, power2),
                AdamRates<double>::of(group, segment, power1, power2)};
      },
      [=](const Row<Rates>& row, int64_t place) {
        dispatch_piece(row, place, [&]<class T>(const Piece<T>& piece) {
          adam(piece, arenas, row.rates.in(Accumulator<T>()));
        });
      });
  if (!is_last_block(&blocks_done, gridDim.x)) return;
  for (int s = int(threadIdx.x); s < table.count; s += threads) {
    steps[s] += table.segments[s].active != 0;
  }
}

// -- averages -------------------------------------------------------------------------------------

struct AverageArenas {
  std::byte* values;
  std::byte* masters;
  std::byte* average;
};

// All blocks read the count of updates as it was; the last one to finish raises it.
__global__ void __launch_bounds__(threads)
    average_weights(Table table, AverageArenas arenas, int64_t* updates, double decay,
                    bool warm_up) {
  begin_kernel();
  const double t = double(*updates), warm = (1 + t) / (10 + t);
  const double rest = 1 - (warm_up ? min(decay, warm) : decay);
  for_pieces<NoRates, Takes::all>(
      table, MakeNoRates(), [=](const Row<NoRates>& row, int64_t place) {
        dispatch_piece(row, place, [=]<class T>(const Piece<T>& piece) {
          using A = Accumulator<T>;
          Weights<T> weights(piece, arenas.values, arenas.masters);
          Group<A, Piece<T>::n> average = piece.load_state(arenas.average);
#pragma unroll
          for (int i = 0; i < Piece<T>::n; ++i) {
            average[i] = fma(A(rest), weights[i] - average[i], average[i]);
          }
          piece.store_state(arenas.average, average);
        });
      });
  if (is_last_block(&blocks_done, gridDim.x) && threadIdx.x == 0) *updates += 1;
}

}  // namespace

void run(Context& context, const kernels::SgdStep& call) {
  const Table table = table_of(context, call.values, call.segments);
  launch(context, sgd_step, grid_of(table), table,
         SgdArenas{.values = start(call.values),
                   .grads = start(call.grads),
                   .momentum = start(call.momentum),
                   .masters = start(call.masters)},
         call.groups.as<SgdGroup>());
}

void run(Context& context, const kernels::AdamStep& call) {
  const Table table = table_of(context, call.values, call.segments);
  launch(context, adam_step, grid_of(table), table,
         AdamArenas{.values = start(call.values),
                    .grads = start(call.grads),
                    .first = start(call.first),
                    .second = start(call.second),
                    .masters = start(call.masters)},
         call.steps.as<int64_t>(), call.groups.as<AdamGroup>());
}

void run(Context& context, const kernels::AverageWeights& call) {
  const Table table = table_of(context, call.values, call.segments);
  launch(context, average_weights, grid_of(table), table,
         AverageArenas{.values = start(call.values),
                       .masters = start(call.masters),
                       .average = start(call.average)},
         call.updates.as<int64_t>(), call.decay, call.warm_up);
}

}  // namespace adret::cuda
