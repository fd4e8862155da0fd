// Steps of RMSprop, Adagrad, Lion and LAMB.
#include <adret/core/cpu/kernels.h>
#include <adret/core/cpu/optimizer_table.h>
#include <adret/core/vector_math.h>

#include <algorithm>
#include <cmath>

namespace adret::cpu {

using kernels::LambGroup;
using kernels::LionGroup;
using kernels::RmsGroup;

namespace {

// -- RMSprop and Adagrad --------------------------------------------------------------------------

template <class T>
struct RmsRates {
  RmsRates(const RmsGroup& group, int64_t step, double unscale)
      : rate(T(group.lr / (1 + double(step - 1) * group.lr_decay))),
        alpha(T(group.alpha)),
        rest(T(1 - group.alpha)),
        square_share(T(group.alpha == 1 ? 1 : 1 - group.alpha)),
        epsilon(T(group.epsilon)),
        decay(T(group.weight_decay)),
        momentum(T(group.momentum)),
        unscale(T(unscale)),
        centered(group.centered != 0) {}

  T rate, alpha, rest, square_share, epsilon, decay, momentum, unscale;
  bool centered;
};

// Where the state of an element lies; null without.
template <class T>
struct RmsState {
  T *squares, *mean, *momentum;
};

template <bool centered, bool has_momentum, class T>
void rms(T* value, const T* grad, const RmsState<T> state, int64_t n, const RmsRates<T> rates) {
#pragma GCC ivdep
  for (int64_t i = 0; i < n; ++i) {
    const T g = multiply_add(rates.decay, value[i], grad[i] * rates.unscale);
    T square = multiply_add(rates.alpha, state.squares[i], rates.square_share * g * g);
    state.squares[i] = square;
    if (centered) {
      state.mean[i] = multiply_add(rates.alpha, state.mean[i], rates.rest * g);
      square = multiply_add(-state.mean[i], state.mean[i], square);
      square = square < 0 ? 0 : square;  // by rounding; keeps NaN
    }
    T direction = g / (std::sqrt(square) + rates.epsilon);
    if (has_momentum) {
      direction = multiply_add(rates.momentum, state.momentum[i], direction);
      state.momentum[i] = direction;
    }
    value[i] = multiply_add(-rates.rate, direction, value[i]);
  }
}

template <class T>
void rms(T* value, const T* grad, const RmsState<T>& state, int64_t n, const RmsRates<T>& rates) {
  const bool has_momentum = rates.momentum != 0;
  if (rates.centered) {
    return has_momentum ? rms<true, true>(value, grad, state, n, rates)
                        : rms<true, false>(value, grad, state, n, rates);
  }
  return has_momentum ? rms<false, true>(value, grad, state, n, rates)
                      : rms<false, false>(value, grad, state, n, rates);
}

// -- Lion -----------------------------------------------------------------------------------------

template <class T>
void lion(T* value, const T* grad, T* momentum, int64_t n, const LionGroup& group, T unscale) {
  const T beta1 = T(group.beta1), rest1 = T(1 - group.beta1), beta2 = T(group.beta2),
          rest2 = T(1 - group.beta2), lr = T(group.lr), keep = T(1 - group.lr * group.weight_decay);
#pragma GCC ivdep
  for (int64_t i = 0; i < n; ++i) {
    const T g = grad[i] * unscale;
    const T direction = multiply_add(beta1, momentum[i], rest1 * g);
    const T sign = direction > 0 ? T(1) : (direction < 0 ? T(-1) : direction);  // keeps NaN
    momentum[i] = multiply_add(beta2, momentum[i], rest2 * g);
    value[i] = multiply_add(-lr, sign, keep * value[i]);
  }
}

// -- LAMB -----------------------------------------------------------------------------------------

template <class T>
struct LambRates {
  LambRates(const LambGroup& group, int64_t step, double unscale)
      : beta1(T(group.beta1)),
        beta2(T(group.beta2)),
        rest1(T(1 - group.beta1)),
        rest2(T(1 - group.beta2)),
        first_scale(T(1 / (1 - std::pow(group.beta1, double(step))))),
        second_scale(T(1 / std::sqrt(1 - std::pow(group.beta2, double(step))))),
        epsilon(T(group.epsilon)),
        decay(T(group.weight_decay)),
        unscale(T(unscale)) {}

  T beta1, beta2, rest1, rest2, first_scale, second_scale, epsilon, decay, unscale;
};

template <class T>
T lamb_direction(T weight, T first, T second, const LambRates<T>& rates) {
  const T divisor = multiply_add(std::sqrt(second), rates.second_scale, rates.epsilon);
  return multiply_add(rates.decay, weight, rates.first_scale * first / divisor);
}

// Sums of squares of a parameter or a part of it.
struct LambSquares {
  double weights = 0, directions = 0;
};

// Updates the moments of n elements, not the weights, which are the masters if there are any.
template <class T, class C>
LambSquares lamb_moments(const T* value, const T* grad, const C* master, C* m, C* v, int64_t n,
                         const LambRates<C> rates) {
  constexpr int64_t most = 256;
  C weights[most], gradients[most], directions[most];
  LambSquares sums;
  for (int64_t first = 0; first < n; first += most) {
    const int64_t count = std::min(most, n - first);
    if (master) {
      std::copy_n(master + first, count, weights);
    } else {
      std::copy_n(value + first, count, weights);
    }
    std::copy_n(grad + first, count, gradients);
#pragma GCC ivdep
    for (int64_t i = 0; i < count; ++i) {
      const C g = gradients[i] * rates.unscale;
      m[first + i] = multiply_add(rates.beta1, m[first + i], rates.rest1 * g);
      v[first + i] = multiply_add(rates.beta2, v[first + i], rates.rest2 * g * g);
      directions[i] = lamb_direction(weights[i], m[first + i], v[first + i], rates);
    }
    sums.weights += sum_of_squares(weights, count);
    sums.directions += sum_of_squares(directions, count);
  }
  return sums;
}

// ratios[s] of each active segment, from moments that this updates. A chunk of elements leaves a
// sum for each segment s that it meets, in place chunk + s: along the elements one of the two
// grows, so that no place is taken twice.
void lamb_ratios(const kernels::LambStep& call, const Elements& elements, double* ratios) {
  const LambGroup* groups = call.groups.as<LambGroup>();
  const int64_t* steps = call.steps.as<int64_t>();
  const int64_t count = call.segments.shape[0];
  const Workspace<LambSquares> sums(chunk_count(elements.total(), memory_grain) + count);
  parallel_chunks(elements.total(), memory_grain, [&](int64_t chunk, int64_t begin, int64_t end) {
    elements.for_pieces(
        begin, end, [&](int64_t s, const Segment& segment, int64_t first, int64_t n) {
          dispatch_all_floats(DType(segment.dtype), call.name, [&](auto zero) {
            using T = decltype(zero);
            using C = Computed<T>;
            sums.data()[chunk + s] = lamb_moments(
                value_at<T>(call.values, segment, first), value_at<T>(call.grads, segment, first),
                master_at<T>(call.masters, segment, first), state_at<C>(call.first, segment, first),
                state_at<C>(call.second, segment, first), n,
                LambRates<C>(groups[segment.group], steps[s], segment.unscale));
          });
        });
  });
  for (int64_t s = 0; s < count; ++s) {
    const Segment& segment = call.segments.as<Segment>()[s];
    if (!is_active(segment) || segment.length == 0) continue;
    const int64_t end = elements.end_of(s);
    LambSquares total;
    for (int64_t c = (end - segment.length) / memory_grain; c <= (end - 1) / memory_grain; ++c) {
      total.weights += sums.data()[c + s].weights;
      total.directions += sums.data()[c + s].directions;
    }
    const bool any = total.weights > 0 && total.directions > 0;
    ratios[s] = any ? std::sqrt(total.weights / total.directions) : 1;
  }
}

}  // namespace

void run(const kernels::RmsStep& call) {
  raise_steps(call.steps, call.segments);
  update_weights(call, [&]<class C>(C, int64_t s, const Segment& segment, int64_t first) {
    const auto state_or_null = [&](const TensorView& arena) {
      return arena.defined() ? state_at<C>(arena, segment, first) : nullptr;
    };
    const RmsState<C> state{.squares = state_at<C>(call.squares, segment, first),
                            .mean = state_or_null(call.mean),
                            .momentum = state_or_null(call.momentum)};
    const int64_t step = call.steps.defined() ? call.steps.as<int64_t>()[s] : 1;
    const RmsRates<C> rates(call.groups.as<RmsGroup>()[segment.group], step, segment.unscale);
    return [=](C* value, const C* grad, int64_t from, int64_t count) {
      const RmsState<C> there{.squares = state.squares + from,
                              .mean = state.mean ? state.mean + from : nullptr,
                              .momentum = state.momentum ? state.momentum + from : nullptr};
      rms(value, grad, there, count, rates);
    };
  });
}

void run(const kernels::LionStep& call) {
  update_weights(call, [&]<class C>(C, int64_t, const Segment& segment, int64_t first) {
    const LionGroup& group = call.groups.as<LionGroup>()[segment.group];
    C* momentum = state_at<C>(call.momentum, segment, first);
    return [=](C* value, const C* grad, int64_t from, int64_t count) {
      lion(value, grad, momentum + from, count, group, C(segment.unscale));
    };
  });
}

void run(const kernels::LambStep& call) {
  raise_steps(call.steps, call.segments);
  const Elements elements(call.segments);
  const Workspace<double> ratios(call.segments.shape[0]);
  lamb_ratios(call, elements, ratios.data());
  update_weights(call, [&]<class C>(C, int64_t s, const Segment& segment, int64_t first) {
    const LambGroup& group = call.groups.as<LambGroup>()[segment.group];
    const C* m = state_at<C>(call.first, segment, first);
    const C* v = state_at<C>(call.second, segment, first);
    const LambRates<C> rates(group, call.steps.as<int64_t>()[s], segment.unscale);
    const C rate = C(group.lr * ratios.data()[s]);
    return [=](C* value, const C*, int64_t from, int64_t count) {
#pragma GCC ivdep
      for (int64_t i = 0; i < count; ++i) {
        const C direction = lamb_direction(value[i], m[from + i], v[from + i], rates);
        value[i] = multiply_add(-rate, direction, value[i]);
      }
    };
  });
}

}  // namespace adret::cpu
