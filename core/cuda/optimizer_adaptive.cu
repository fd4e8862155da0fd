// Steps of RMSprop, Adagrad and Lion: one launch over the arenas each.
#include <adret/core/cuda/kernels.h>
#include <adret/core/cuda/optimizer_weights.h>
#include <adret/core/cuda/team.h>

namespace adret::cuda {

using kernels::LionGroup;
using kernels::RmsGroup;
using namespace arena;

namespace {

__device__ unsigned blocks_done;  // one launch at a time uses it: all are on one stream

// -- RMSprop and Adagrad --------------------------------------------------------------------------

template <class A>
struct RmsRates {
  A rate, alpha, rest, square_share, epsilon, decay, momentum, unscale;
  bool centered, has_momentum;

  template <class B>
  __device__ RmsRates<B> in() const {
    return {B(rate),  B(alpha),    B(rest),    B(square_share), B(epsilon),
            B(decay), B(momentum), B(unscale), centered,        has_momentum};
  }
};

// All blocks compute with the count of steps raised by one; the last one to finish writes it.
struct Rms {
  using Rates = InBoth<RmsRates>;
  std::byte* values;
  const std::byte* grads;
  std::byte* squares;
  std::byte* mean;
  std::byte* momentum;
  std::byte* masters;
  int64_t* steps;  // may be null
  const RmsGroup* groups;

  __device__ Rates rates(const Segment& segment, int index) const {
    const RmsGroup group = groups[segment.group];
    const double before = steps ? double(steps[index]) : 0;
    return in_both(RmsRates<double>{.rate = group.lr / (1 + before * group.lr_decay),
                                    .alpha = group.alpha,
                                    .rest = 1 - group.alpha,
                                    .square_share = group.alpha == 1 ? 1 : 1 - group.alpha,
                                    .epsilon = group.epsilon,
                                    .decay = group.weight_decay,
                                    .momentum = group.momentum,
                                    .unscale = segment.unscale,
                                    .centered = group.centered != 0,
                                    .has_momentum = group.momentum != 0});
  }

  template <class T>
  __device__ void update(const Piece<T>& piece, const RmsRates<Accumulator<T>>& rates) const {
    using A = Accumulator<T>;
    constexpr int n = Piece<T>::n;
    Weights<T> weights(piece, values, masters);
    Group<T, n> gradient = piece.load_value(grads);
    Group<A, n> square = piece.load_state(squares);
    Group<A, n> average{}, buffer{};
    if (rates.centered) average = piece.load_state(mean);
    if (rates.has_momentum) buffer = piece.load_state(momentum);
#pragma unroll
    for (int i = 0; i < n; ++i) {
      const A g = fma(rates.decay, weights[i], widen(gradient[i]) * rates.unscale);
      square[i] = fma(rates.alpha, square[i], rates.square_share * g * g);
      A variance = square[i];
      if (rates.centered) {
        average[i] = fma(rates.alpha, average[i], rates.rest * g);
        variance = fma(-average[i], average[i], variance);
        variance = variance < 0 ? A(0) : variance;  // by rounding; keeps NaN
      }
      A direction = g / (sqrt(variance) + rates.epsilon);
      if (rates.has_momentum) {
        direction = fma(rates.momentum, buffer[i], direction);
        buffer[i] = direction;
      }
      weights[i] = fma(-rates.rate, direction, weights[i]);
    }
    piece.store_state(squares, square);
    if (rates.centered) piece.store_state(mean, average);
    if (rates.has_momentum) piece.store_state(momentum, buffer);
    weights.store();
  }

  __device__ void finish(const Table& table) const {
    if (steps && is_last_block(&blocks_done, gridDim.x)) raise_steps(table, steps);
  }
};

// -- Lion -----------------------------------------------------------------------------------------

template <class A>
struct LionRates {
  A lr, beta1, rest1, beta2, rest2, keep, unscale;

  template <class B>
  __device__ LionRates<B> in() const {
    return {B(lr), B(beta1), B(rest1), B(beta2), B(rest2), B(keep), B(unscale)};
  }
};

struct Lion {
  using Rates = InBoth<LionRates>;
  std::byte* values;
  const std::byte* grads;
  std::byte* momentum;
  std::byte* masters;
  const LionGroup* groups;

  __device__ Rates rates(const Segment& segment, int) const {
    const LionGroup group = groups[segment.group];
    return in_both(LionRates<double>{.lr = group.lr,
                                     .beta1 = group.beta1,
                                     .rest1 = 1 - group.beta1,
                                     .beta2 = group.beta2,
                                     .rest2 = 1 - group.beta2,
                                     .keep = 1 - group.lr * group.weight_decay,
                                     .unscale = segment.unscale});
  }

  template <class T>
  __device__ void update(const Piece<T>& piece, const LionRates<Accumulator<T>>& rates) const {
    using A = Accumulator<T>;
    constexpr int n = Piece<T>::n;
    Weights<T> weights(piece, values, masters);
    Group<T, n> gradient = piece.load_value(grads);
    Group<A, n> mean = piece.load_state(momentum);
#pragma unroll
    for (int i = 0; i < n; ++i) {
      const A g = widen(gradient[i]) * rates.unscale;
      const A direction = fma(rates.beta1, mean[i], rates.rest1 * g);
      const A sign = direction > 0 ? A(1) : (direction < 0 ? A(-1) : direction);  // keeps NaN
      mean[i] = fma(rates.beta2, mean[i], rates.rest2 * g);
      weights[i] = fma(-rates.lr, sign, rates.keep * weights[i]);
    }
    piece.store_state(momentum, mean);
    weights.store();
  }

  __device__ void finish(const Table&) const {}
};

}  // namespace

void run(Context& context, const kernels::RmsStep& call) {
  const Table table = table_of(context, call.values, call.segments);
  launch(context, step_of_each<Rms>, grid_of(table), table,
         Rms{.values = start(call.values),
             .grads = start(call.grads),
             .squares = start(call.squares),
             .mean = start(call.mean),
             .momentum = start(call.momentum),
             .masters = start(call.masters),
             .steps = call.steps.as<int64_t>(),
             .groups = call.groups.as<RmsGroup>()});
}

void run(Context& context, const kernels::LionStep& call) {
  const Table table = table_of(context, call.values, call.segments);
  launch(context, step_of_each<Lion>, grid_of(table), table,
         Lion{.values = start(call.values),
              .grads = start(call.grads),
              .momentum = start(call.momentum),
              .masters = start(call.masters),
              .groups = call.groups.as<LionGroup>()});
}

}  // namespace adret::cuda
