// Optimizer steps and averages of weights: one launch over the arenas, whatever the segments.
#include <adret/core/cuda/kernels.h>
#include <adret/core/cuda/optimizer_weights.h>
#include <adret/core/cuda/team.h>

namespace adret::cuda {

using kernels::AdamGroup;
using kernels::AdamRule;
using kernels::NAdamGroup;
using kernels::SgdGroup;
using namespace arena;

namespace {

__device__ unsigned blocks_done;  // one launch at a time uses it: all are on one stream

// -- SGD ------------------------------------------------------------------------------------------

template <class A>
struct SgdRates {
  A lr, momentum, decay, unscale;
  bool has_momentum, nesterov;

  template <class B>
  __device__ SgdRates<B> in() const {
    return {B(lr), B(momentum), B(decay), B(unscale), has_momentum, nesterov};
  }
};

struct Sgd {
  using Rates = InBoth<SgdRates>;
  std::byte* values;
  const std::byte* grads;
  std::byte* momentum;
  std::byte* masters;
  const SgdGroup* groups;

  __device__ Rates rates(const Segment& segment, int) const {
    const SgdGroup group = groups[segment.group];
    return in_both(SgdRates<double>{.lr = group.lr,
                                    .momentum = group.momentum,
                                    .decay = group.weight_decay,
                                    .unscale = segment.unscale,
                                    .has_momentum = group.momentum != 0,
                                    .nesterov = group.nesterov != 0});
  }

  template <class T>
  __device__ void update(const Piece<T>& piece, const SgdRates<Accumulator<T>>& rates) const {
    using A = Accumulator<T>;
    Weights<T> weights(piece, values, masters);
    Group<T, Piece<T>::n> gradient = piece.load_value(grads);
    Group<A, Piece<T>::n> mean{};
    if (rates.has_momentum) mean = piece.load_state(momentum);
#pragma unroll
    for (int i = 0; i < Piece<T>::n; ++i) {
      const A g = fma(rates.decay, weights[i], widen(gradient[i]) * rates.unscale);
      A direction = g;
      if (rates.has_momentum) {
        mean[i] = fma(rates.momentum, mean[i], g);
        direction = rates.nesterov ? fma(rates.momentum, mean[i], g) : mean[i];
      }
      weights[i] = fma(-rates.lr, direction, weights[i]);
    }
    if (rates.has_momentum) piece.store_state(momentum, mean);
    weights.store();
  }

  __device__ void finish(const Table&) const {}
};

// -- Adam, NAdam, RAdam ---------------------------------------------------------------------------

template <class A>
struct AdamRates {
  A beta1, beta2, rest1, rest2;
  A rate, first_share, grad_share;  // of the direction, of `first` and of the gradient in it
  A second_scale, epsilon, keep, decay, unscale;

  template <class B>
  __device__ AdamRates<B> in() const {
    return {B(beta1),      B(beta2),        B(rest1),   B(rest2), B(rate),  B(first_share),
            B(grad_share), B(second_scale), B(epsilon), B(keep),  B(decay), B(unscale)};
  }
};

// All blocks compute with the count of steps raised by one; the last one to finish writes it.
struct Adam {
  using Rates = InBoth<AdamRates>;
  std::byte* values;
  const std::byte* grads;
  std::byte* first;
  std::byte* second;
  std::byte* masters;
  int64_t* steps;
  double* products;
  const std::byte* groups;
  AdamRule rule;

  __device__ NAdamGroup group_of(const Segment& segment) const {
    if (rule == AdamRule::nadam) {
      return reinterpret_cast<const NAdamGroup*>(groups)[segment.group];
    }
    return {reinterpret_cast<const AdamGroup*>(groups)[segment.group], 0};
  }
  // mu(t) of NAdam, and the product of all to the coming step.
  static __device__ double momentum_at(const NAdamGroup& group, double t) {
    return group.adam.beta1 * (1 - 0.5 * pow(0.96, t * group.momentum_decay));
  }
  __device__ double next_product(const NAdamGroup& group, int index) const {
    const int64_t before = steps[index];
    return (before == 0 ? 1 : products[index]) * momentum_at(group, double(before + 1));
  }

  __device__ Rates rates(const Segment& segment, int index) const {
    const NAdamGroup of = group_of(segment);
    const AdamGroup& group = of.adam;
    const double t = double(steps[index] + 1);
    const double power1 = pow(group.beta1, t), power2 = pow(group.beta2, t);
    const bool decoupled = group.decoupled != 0;
    AdamRates<double> rates{.beta1 = group.beta1,
                            .beta2 = group.beta2,
                            .rest1 = 1 - group.beta1,
                            .rest2 = 1 - group.beta2,
                            .rate = group.lr / (1 - power1),
                            .first_share = 1,
                            .grad_share = 0,
                            .second_scale = 1 / sqrt(1 - power2),
                            .epsilon = group.epsilon,
                            .keep = decoupled ? 1 - group.lr * group.weight_decay : 1,
                            .decay = decoupled ? 0 : group.weight_decay,
                            .unscale = segment.unscale};
    if (rule == AdamRule::nadam) {
      const double product = next_product(of, index), next = momentum_at(of, t + 1);
      rates.rate = group.lr;
      rates.first_share = next / (1 - product * next);
      rates.grad_share = (1 - momentum_at(of, t)) / (1 - product);
    } else if (rule == AdamRule::radam) {
      rectify(rates, group.beta2, power2, t);
    }
    return in_both(rates);
  }
  static __device__ void rectify(AdamRates<double>& rates, double beta2, double power2, double t) {
    const double limit = 2 / (1 - beta2) - 1, rho = limit - 2 * t * power2 / (1 - power2);
    if (rho > 5) {
      rates.rate *=
          sqrt((1 - power2) * (rho - 4) * (rho - 2) * limit / ((limit - 4) * (limit - 2) * rho));
      rates.second_scale = 1;
    } else {  // divides by 1
      rates.second_scale = 0;
      rates.epsilon = 1;
    }
  }

  template <class T>
  __device__ void update(const Piece<T>& piece, const AdamRates<Accumulator<T>>& rates) const {
    using A = Accumulator<T>;
    Weights<T> weights(piece, values, masters);
    Group<T, Piece<T>::n> gradient = piece.load_value(grads);
    Group<A, Piece<T>::n> m = piece.load_state(first);
    Group<A, Piece<T>::n> v = piece.load_state(second);
#pragma unroll
    for (int i = 0; i < Piece<T>::n; ++i) {
      const A g = fma(rates.decay, weights[i], widen(gradient[i]) * rates.unscale);
      m[i] = fma(rates.beta1, m[i], rates.rest1 * g);
      v[i] = fma(rates.beta2, v[i], rates.rest2 * g * g);
      const A direction = fma(rates.grad_share, g, rates.first_share * m[i]);
      const A divisor = fma(sqrt(v[i]), rates.second_scale, rates.epsilon);
      weights[i] = fma(-rates.rate, direction / divisor, rates.keep * weights[i]);
    }
    piece.store_state(first, m);
    piece.store_state(second, v);
    weights.store();
  }

  __device__ void finish(const Table& table) const {
    if (!is_last_block(&blocks_done, gridDim.x)) return;
    for (int s = int(threadIdx.x); rule == AdamRule::nadam && s < table.count; s += threads) {
      const Segment segment = table.segments[s];
      if (segment.active) products[s] = next_product(group_of(segment), s);
    }
    raise_steps(table, steps);  // a thread has raised the products of the segments it counts
  }
};

// -- averages -------------------------------------------------------------------------------------

struct AverageArenas {
  std::byte* values;
  std::byte* masters;
  std::byte* average;
};

// All blocks read the count of updates as it was; the last one to finish raises it.
__global__ void __launch_bounds__(threads)
    average_weights(Table table, AverageArenas arenas, int64_t* updates, double decay, bool warm_up,
                    bool uniform) {
  begin_kernel();
  const double t = double(*updates), warm = (1 + t) / (10 + t);
  const double rest = uniform ? 1 / (1 + t) : 1 - (warm_up ? min(decay, warm) : decay);
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
  launch(context, step_of_each<Sgd>, grid_of(table), table,
         Sgd{.values = start(call.values),
             .grads = start(call.grads),
             .momentum = start(call.momentum),
             .masters = start(call.masters),
             .groups = call.groups.as<SgdGroup>()});
}

void run(Context& context, const kernels::AdamStep& call) {
  const Table table = table_of(context, call.values, call.segments);
  launch(context, step_of_each<Adam>, grid_of(table), table,
         Adam{.values = start(call.values),
              .grads = start(call.grads),
              .first = start(call.first),
              .second = start(call.second),
              .masters = start(call.masters),
              .steps = call.steps.as<int64_t>(),
              .products = call.products.as<double>(),
              .groups = start(call.groups),
              .rule = call.rule});
}

void run(Context& context, const kernels::AverageWeights& call) {
  const Table table = table_of(context, call.values, call.segments);
  launch(context, average_weights, grid_of(table), table,
         AverageArenas{.values = start(call.values),
                       .masters = start(call.masters),
                       .average = start(call.average)},
         call.updates.as<int64_t>(), call.decay, call.warm_up, call.uniform);
}

}  // namespace adret::cuda
