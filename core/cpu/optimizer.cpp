// Optimizer steps, gradient clipping, loss scaling and averages: one pass over the elements of
// segments.
#include <adret/core/cpu/dispatch.h>
#include <adret/core/cpu/grain.h>
#include <adret/core/cpu/kernels.h>
#include <adret/core/cpu/vector_math.h>
#include <adret/core/cpu/workspace.h>
#include <adret/core/thread_pool.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cmath>
#include <limits>

namespace adret::cpu {

using kernels::AdamGroup;
using kernels::Segment;
using kernels::SgdGroup;

namespace {

bool is_active(const Segment& segment) { return segment.active != 0; }
bool has_gradient(const Segment& segment) { return segment.has_gradient != 0; }
bool is_any(const Segment&) { return true; }

// The segments that `takes` says, laid end to end (Note [Arenas]).
class Elements {
 public:
  explicit Elements(const TensorView& segments, bool (*takes)(const Segment&) = is_active)
      : segments_(segments.as<Segment>()), count_(segments.shape[0]), ends_(count_) {
    for (int64_t s = 0; s < count_; ++s) {
      if (takes(segments_[s])) total_ += segments_[s].length;
      ends_.data()[s] = total_;
    }
  }

  int64_t total() const { return total_; }

  // f(s, segment, first, count) for the pieces of segments among the elements begin..end-1.
  template <class F>
  void for_pieces(int64_t begin, int64_t end, F f) const {
    const int64_t* ends = ends_.data();
    for (int64_t s = std::upper_bound(ends, ends + count_, begin) - ends; begin < end; ++s) {
      const int64_t stop = std::min(end, ends[s]);
      if (stop <= begin) continue;  // not taken, or empty
      f(s, segments_[s], segments_[s].length - (ends[s] - begin), stop - begin);
      begin = stop;
    }
  }
  template <class F>
  void parallel_pieces(F f) const {
    parallel_for(total_, memory_grain,
                 [&](int64_t begin, int64_t end) { for_pieces(begin, end, f); });
  }

 private:
  const Segment* segments_;
  int64_t count_, total_ = 0;
  Workspace<int64_t> ends_;  // of each segment, in elements before and in it
};

template <class T>
T* value_at(const TensorView& arena, const Segment& segment, int64_t first) {
  return reinterpret_cast<T*>(arena.as<std::byte>() + segment.value_offset) + first;
}
template <class T>
T* state_at(const TensorView& arena, const Segment& segment, int64_t first) {
  return reinterpret_cast<T*>(arena.as<std::byte>() + segment.state_offset) + first;
}

// The f32 master of an element, or null; other dtypes have none.
template <class T>
Computed<T>* master_at(const TensorView& masters, const Segment& segment, int64_t first) {
  return sizeof(T) == 2 && masters.defined() ? state_at<Computed<T>>(masters, segment, first)
                                             : nullptr;
}

// f(weights, gradients, first, count) updates elements first..first+count-1 of a piece in the dtype
// that they are computed in: 16-bit ones as copies, or their masters, rounded afterwards.
template <class T, class F>
void update(T* value, const T* grad, [[maybe_unused]] Computed<T>* master, int64_t n, F f) {
  if constexpr (sizeof(T) > 2) {
    f(value, grad, 0, n);
  } else {
    constexpr int64_t most = 256;
    float copies[most], gradients[most];
    for (int64_t first = 0; first < n; first += most) {
      const int64_t count = std::min(most, n - first);
      float* weights = master ? master + first : copies;
      if (!master) std::copy_n(value + first, count, weights);
      std::copy_n(grad + first, count, gradients);
      f(weights, static_cast<const float*>(gradients), first, count);
      for (int64_t i = 0; i < count; ++i) value[first + i] = T(weights[i]);
    }
  }
}

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

// What a step of a group multiplies with, in the dtype it is computed in.
template <class T>
struct AdamRates {
  AdamRates(const AdamGroup& group, int64_t step, double unscale)
      : beta1(T(group.beta1)),
        beta2(T(group.beta2)),
        rest1(T(1 - group.beta1)),
        rest2(T(1 - group.beta2)),
        rate(T(group.lr / (1 - std::pow(group.beta1, double(step))))),
        second_scale(T(1 / std::sqrt(1 - std::pow(group.beta2, double(step))))),
        epsilon(T(group.epsilon)),
        keep(T(group.decoupled != 0 ? 1 - group.lr * group.weight_decay : 1)),
        decay(T(group.decoupled != 0 ? 0 : group.weight_decay)),
        unscale(T(unscale)) {}

  T beta1, beta2, rest1, rest2, rate, second_scale, epsilon, keep, decay, unscale;
};

template <class T>
void adam(T* value, const T* grad, T* first, T* second, int64_t n, const AdamRates<T> rates) {
#pragma GCC ivdep
  for (int64_t i = 0; i < n; ++i) {
    const T g = multiply_add(rates.decay, value[i], grad[i] * rates.unscale);
    first[i] = multiply_add(rates.beta1, first[i], rates.rest1 * g);
    second[i] = multiply_add(rates.beta2, second[i], rates.rest2 * g * g);
    const T divisor = multiply_add(std::sqrt(second[i]), rates.second_scale, rates.epsilon);
    value[i] = multiply_add(-rates.rate, first[i] / divisor, rates.keep * value[i]);
  }
}

// In f64, eight sums side by side.
template <class T>
double sum_of_squares(const T* x, int64_t n) {
  constexpr int64_t lanes = 8;
  double sums[lanes] = {};
  int64_t i = 0;
  for (; i + lanes <= n; i += lanes) {
    for (int64_t l = 0; l < lanes; ++l) sums[l] += double(x[i + l]) * double(x[i + l]);
  }
  for (; i < n; ++i) sums[i % lanes] += double(x[i]) * double(x[i]);
  for (int64_t l = 1; l < lanes; ++l) sums[0] += sums[l];
  return sums[0];
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
  const SgdGroup* groups = call.groups.as<SgdGroup>();
  Elements(call.segments)
      .parallel_pieces([&](int64_t, const Segment& segment, int64_t first, int64_t n) {
        dispatch_all_floats(DType(segment.dtype), call.name, [&](auto zero) {
          using T = decltype(zero);
          using C = Computed<T>;
          C* momentum =
              call.momentum.defined() ? state_at<C>(call.momentum, segment, first) : nullptr;
          update(value_at<T>(call.values, segment, first), value_at<T>(call.grads, segment, first),
                 master_at<T>(call.masters, segment, first), n,
                 [&](C* value, const C* grad, int64_t from, int64_t count) {
                   sgd(value, grad, momentum ? momentum + from : nullptr, count,
                       groups[segment.group], C(segment.unscale));
                 });
        });
      });
}

void run(const kernels::AdamStep& call) {
  const AdamGroup* groups = call.groups.as<AdamGroup>();
  const Segment* segments = call.segments.as<Segment>();
  int64_t* steps = call.steps.as<int64_t>();
  for (int64_t s = 0; s < call.segments.shape[0]; ++s) steps[s] += segments[s].active != 0;
  Elements(call.segments)
      .parallel_pieces([&](int64_t s, const Segment& segment, int64_t first, int64_t n) {
        dispatch_all_floats(DType(segment.dtype), call.name, [&](auto zero) {
          using T = decltype(zero);
          using C = Computed<T>;
          C* m = state_at<C>(call.first, segment, first);
          C* v = state_at<C>(call.second, segment, first);
          const AdamRates<C> rates(groups[segment.group], steps[s], segment.unscale);
          update(value_at<T>(call.values, segment, first), value_at<T>(call.grads, segment, first),
                 master_at<T>(call.masters, segment, first), n,
                 [&](C* value, const C* grad, int64_t from, int64_t count) {
                   adam(value, grad, m + from, v + from, count, rates);
                 });
        });
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
  const double rest = 1 - (call.warm_up ? std::min(call.decay, warm) : call.decay);
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
