// Optimizer steps, gradient clipping, loss scaling and averages: one pass over the elements of
// segments.
#include <adret/core/cpu/kernels.h>
#include <adret/core/cpu/optimizer_table.h>
#include <adret/core/vector_math.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cmath>
#include <limits>

namespace adret::cpu {

using kernels::AdamRule;
using kernels::NAdamGroup;
using kernels::SgdGroup;

namespace {

template <class T>
void sgd(T* value, const T* grad, T* momentum, int64_t n, const SgdGroup& group, T unscale) {
  const T lr = T(group.lr), mu = T(group.momentum), decay = T(group.weight_decay);
  if (group.momentum == 0) {
#pragma GCC ivdep
    for (int64_t i = 0; i < n; ++i) {
      value[i] = multiply_add(-lr, multiply_add(decay, value[i], grad[i] * unscale), value[i]);
    }
  } else if (group.nesterov != 0) {
#pragma GCC ivdep
    for (int64_t i = 0; i < n; ++i) {
      const T g = multiply_add(decay, value[i], grad[i] * unscale);
      momentum[i] = multiply_add(mu, momentum[i], g);
      value[i] = multiply_add(-lr, multiply_add(mu, momentum[i], g), value[i]);
    }
  } else {
#pragma GCC ivdep
    for (int64_t i = 0; i < n; ++i) {
      const T g = multiply_add(decay, value[i], grad[i] * unscale);
      momentum[i] = multiply_add(mu, momentum[i], g);
      value[i] = multiply_add(-lr, momentum[i], value[i]);
    }
  }
}

// What a step of a segment multiplies with, in the dtype it is computed in.
template <class T>
struct AdamRates {
  T beta1, beta2, rest1, rest2;
  T rate, first_share, grad_share;  // of the direction, of `first` and of the gradient in it
  T second_scale, epsilon, keep, decay, unscale;

  template <class A>
  AdamRates<A> in() const {
    return {A(beta1),      A(beta2),        A(rest1),   A(rest2), A(rate),  A(first_share),
            A(grad_share), A(second_scale), A(epsilon), A(keep),  A(decay), A(unscale)};
  }
};

NAdamGroup group_of(const kernels::AdamStep& call, const Segment& segment) {
  if (call.rule == AdamRule::nadam) return call.groups.as<NAdamGroup>()[segment.group];
  return {call.groups.as<kernels::AdamGroup>()[segment.group], 0};
}

// mu(t) of NAdam.
double momentum_at(const NAdamGroup& group, double t) {
  return group.adam.beta1 * (1 - 0.5 * std::pow(0.96, t * group.momentum_decay));
}

// The counts and products of a step are raised before.
AdamRates<double> adam_rates(const kernels::AdamStep& call, int64_t s, const Segment& segment) {
  const auto [group, momentum_decay] = group_of(call, segment);
  const double t = double(call.steps.as<int64_t>()[s]);
  const double power2 = std::pow(group.beta2, t);
  const bool decoupled = group.decoupled != 0;
  AdamRates<double> rates{.beta1 = group.beta1,
                          .beta2 = group.beta2,
                          .rest1 = 1 - group.beta1,
                          .rest2 = 1 - group.beta2,
                          .rate = group.lr / (1 - std::pow(group.beta1, t)),
                          .first_share = 1,
                          .grad_share = 0,
                          .second_scale = 1 / std::sqrt(1 - power2),
                          .epsilon = group.epsilon,
                          .keep = decoupled ? 1 - group.lr * group.weight_decay : 1,
                          .decay = decoupled ? 0 : group.weight_decay,
                          .unscale = segment.unscale};
  if (call.rule == AdamRule::nadam) {
    const NAdamGroup of{group, momentum_decay};
    const double product = call.products.as<double>()[s];
    const double mu = momentum_at(of, t), next = momentum_at(of, t + 1);
    rates.rate = group.lr;
    rates.first_share = next / (1 - product * next);
    rates.grad_share = (1 - mu) / (1 - product);
  } else if (call.rule == AdamRule::radam) {
    const double limit = 2 / (1 - group.beta2) - 1;
    const double rho = limit - 2 * t * power2 / (1 - power2);
    if (rho > 5) {
      rates.rate *= std::sqrt((1 - power2) * (rho - 4) * (rho - 2) * limit /
                              ((limit - 4) * (limit - 2) * rho));
      rates.second_scale = 1;
    } else {  // divides by 1
      rates.second_scale = 0;
      rates.epsilon = 1;
    }
  }
  return rates;
}

void raise_products(const kernels::AdamStep& call) {
  for (int64_t s = 0; s < call.segments.shape[0]; ++s) {
    const Segment& segment = call.segments.as<Segment>()[s];
    if (!is_active(segment)) continue;
    const int64_t step = call.steps.as<int64_t>()[s];
    double& product = call.products.as<double>()[s];
    product = (step == 1 ? 1 : product) * momentum_at(group_of(call, segment), double(step));
  }
}

template <class T>
void adam(T* value, const T* grad, T* first, T* second, int64_t n, const AdamRates<T> rates) {
#pragma GCC ivdep
  for (int64_t i = 0; i < n; ++i) {
    const T g = multiply_add(rates.decay, value[i], grad[i] * rates.unscale);
    first[i] = multiply_add(rates.beta1, first[i], rates.rest1 * g);
    second[i] = multiply_add(rates.beta2, second[i], rates.rest2 * g * g);
    const T direction = multiply_add(rates.grad_share, g, rates.first_share * first[i]);
    const T divisor = multiply_add(std::sqrt(second[i]), rates.second_scale, rates.epsilon);
    value[i] = multiply_add(-rates.rate, direction / divisor, rates.keep * value[i]);
  }
}

// f(typed, segment, first, count) over the pieces of all segments that are taken, a thread's at a
// time, `typed` being a zero of the segment's dtype.
template <class F>
void for_typed_pieces(const Elements& elements, const char* name, F f) {
  elements.parallel_pieces([&](int64_t, const Segment& segment, int64_t first, int64_t n) {
    dispatch_all_floats(DType(segment.dtype), name,
                        [&](auto typed) { f(typed, segment, first, n); });
  });
}

// grads = f(grad, unscale) over all active segments.
template <class F>
void map_grads(const TensorView& grads, const TensorView& segments, const char* name, F f) {
  for_typed_pieces(Elements(segments), name,
                   [&](auto typed, const Segment& segment, int64_t first, int64_t n) {
                     using T = decltype(typed);
                     using C = Computed<T>;
                     T* grad = value_at<T>(grads, segment, first);
                     const C unscale = C(segment.unscale);
                     for (int64_t i = 0; i < n; ++i) grad[i] = T(f(C(grad[i]), unscale));
                   });
}

// Without branches: no number is above the largest, and NaN compares with nothing.
template <class T>
bool all_finite(const T* x, int64_t n) {
  using C = Computed<T>;
  bool finite = true;
  for (int64_t i = 0; i < n; ++i) {
    finite &= std::fabs(C(x[i])) <= std::numeric_limits<C>::max();
  }
  return finite;
}

}  // namespace

void run(const kernels::SgdStep& call) {
  update_weights(call, [&]<class C>(C, int64_t, const Segment& segment, int64_t first) {
    const SgdGroup& group = call.groups.as<SgdGroup>()[segment.group];
    C* momentum = call.momentum.defined() ? state_at<C>(call.momentum, segment, first) : nullptr;
    return [=](C* value, const C* grad, int64_t from, int64_t count) {
      sgd(value, grad, momentum ? momentum + from : nullptr, count, group, C(segment.unscale));
    };
  });
}

void run(const kernels::AdamStep& call) {
  raise_steps(call.steps, call.segments);
  if (call.rule == AdamRule::nadam) raise_products(call);
  update_weights(call, [&]<class C>(C, int64_t s, const Segment& segment, int64_t first) {
    C* m = state_at<C>(call.first, segment, first);
    C* v = state_at<C>(call.second, segment, first);
    const AdamRates<C> rates = adam_rates(call, s, segment).template in<C>();
    return [=](C* value, const C* grad, int64_t from, int64_t count) {
      adam(value, grad, m + from, v + from, count, rates);
    };
  });
}

void run(const kernels::GradientNorm& call) {
  const Elements elements(call.segments);
  const int64_t chunks = chunk_count(elements.total(), memory_grain);
  const Workspace<double> partials(chunks);
  parallel_chunks(elements.total(), memory_grain, [&](int64_t chunk, int64_t begin, int64_t end) {
    double sum = 0;
    elements.for_pieces(begin, end, [&](int64_t, const Segment& segment, int64_t first, int64_t n) {
      dispatch_all_floats(DType(segment.dtype), call.name, [&](auto zero) {
        sum += sum_of_squares(value_at<decltype(zero)>(call.grads, segment, first), n) *
               (segment.unscale * segment.unscale);
      });
    });
    partials.data()[chunk] = sum;
  });
  double total = 0;
  for (int64_t chunk = 0; chunk < chunks; ++chunk) total += partials.data()[chunk];
  *call.norm.as<double>() = std::sqrt(total);
}

void run(const kernels::ClipByNorm& call) {
  const double norm = *call.norm.as<double>();
  if (!std::isfinite(norm) || norm <= call.max_norm) return;
  const double scale = call.max_norm / norm;
  map_grads(call.grads, call.segments, call.name,
            [scale](auto grad, auto) { return grad * decltype(grad)(scale); });
}

void run(const kernels::ClipByValue& call) {
  const double limit = call.limit;
  map_grads(call.grads, call.segments, call.name, [limit](auto grad, auto unscale) {
    const auto bound = decltype(grad)(limit) / unscale;
    return grad > bound ? bound : (grad < -bound ? -bound : grad);  // keeps NaN
  });
}

void run(const kernels::UpdateLossScale& call) {
  std::atomic<bool> finite = true;
  for_typed_pieces(Elements(call.segments, has_gradient), call.name,
                   [&](auto typed, const Segment& segment, int64_t first, int64_t n) {
                     const auto* grads = value_at<decltype(typed)>(call.grads, segment, first);
                     if (!all_finite(grads, n)) finite.store(false, std::memory_order_relaxed);
                   });
  float& scale = *call.scale.as<float>();
  Segment* segments = call.segments.as<Segment>();
  for (int64_t s = 0; s < call.segments.shape[0]; ++s) {
    segments[s].active = finite && segments[s].has_gradient;
    segments[s].unscale = 1 / double(scale);
  }
  auto& [good, skipped] = *call.counts.as<std::array<int64_t, 2>>();
  if (!finite) {
    scale = std::max(scale / 2, float(call.lowest));
    good = 0;
    ++skipped;
  } else if (++good >= call.growth_interval) {
    scale = std::min(scale * 2, float(call.largest));
    good = 0;
  }
}

void run(const kernels::AverageWeights& call) {
  int64_t& updates = *call.updates.as<int64_t>();
  const double t = double(updates++), warm = (1 + t) / (10 + t);
  const double decay = call.warm_up ? std::min(call.decay, warm) : call.decay;
  const double rest = call.uniform ? 1 / (1 + t) : 1 - decay;
  for_typed_pieces(Elements(call.segments, is_any), call.name,
                   [&](auto typed, const Segment& segment, int64_t first, int64_t n) {
                     using T = decltype(typed);
                     using C = Computed<T>;
                     C* average = state_at<C>(call.average, segment, first);
                     const auto update = [&](const auto* weight) {
#pragma GCC ivdep
                       for (int64_t i = 0; i < n; ++i) {
                         average[i] = multiply_add(C(rest), C(weight[i]) - average[i], average[i]);
                       }
                     };
                     const C* master = master_at<T>(call.masters, segment, first);
                     if (master) return update(master);
                     update(value_at<T>(call.values, segment, first));
                   });
}

}  // namespace adret::cpu
