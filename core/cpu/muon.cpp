// Muon's direction and step; the sums of squares are in f64, chunk by chunk.
#include <adret/core/cpu/dispatch.h>
#include <adret/core/cpu/grain.h>
#include <adret/core/cpu/kernels.h>
#include <adret/core/cpu/workspace.h>
#include <adret/core/thread_pool.h>

#include <cmath>

namespace adret::cpu {

using kernels::MuonGroup;
using kernels::Segment;

namespace {

// The sum of f(i)^2 for i in 0..n-1, in the same order for any number of threads.
template <class F>
double sum_of_squares(int64_t n, F f) {
  const int64_t chunks = chunk_count(n, memory_grain);
  const Workspace<double> partials(chunks);
  parallel_chunks(n, memory_grain, [&](int64_t chunk, int64_t begin, int64_t end) {
    double sum = 0;
    for (int64_t i = begin; i < end; ++i) {
      const double value = double(f(i));
      sum += value * value;
    }
    partials.data()[chunk] = sum;
  });
  double total = 0;
  for (int64_t chunk = 0; chunk < chunks; ++chunk) total += partials.data()[chunk];
  return total;
}

template <class F>
void for_each(int64_t n, F f) {
  parallel_for(n, memory_grain, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) f(i);
  });
}

template <class T>
void direction(const kernels::MuonDirection& call) {
  using A = Computed<T>;
  const MuonGroup& group = *call.group.as<MuonGroup>();
  const T* grad = call.grad.as<T>();
  A* momentum = call.momentum.as<A>();
  T* out = call.direction.as<T>();
  const int64_t n = call.grad.numel();
  if (!call.segment.as<Segment>()->active) return for_each(n, [&](int64_t i) { out[i] = T(0); });
  const A mu = A(group.momentum), unscale = A(call.segment.as<Segment>()->unscale);
  for_each(n, [&](int64_t i) { momentum[i] = mu * momentum[i] + A(grad[i]) * unscale; });
  const auto wanted = [&](int64_t i) {
    return group.nesterov != 0 ? A(grad[i]) * unscale + mu * momentum[i] : momentum[i];
  };
  const A scale = A(1 / (std::sqrt(sum_of_squares(n, wanted)) + call.epsilon));
  for_each(n, [&](int64_t i) { out[i] = T(wanted(i) * scale); });
}

template <class T>
void step(const kernels::MuonStep& call) {
  using A = Computed<T>;
  if (!call.segment.as<Segment>()->active) return;
  const MuonGroup& group = *call.group.as<MuonGroup>();
  const int64_t n = call.value.numel();
  T* value = call.value.as<T>();
  const T* update = call.update.as<T>();
  A* master = call.master.defined() ? call.master.as<A>() : nullptr;
  const auto weight = [&](int64_t i) { return master ? master[i] : A(value[i]); };
  double scale = 1 - group.lr * group.weight_decay;
  if (group.normalize != 0) {
    const double norm = std::sqrt(sum_of_squares(n, weight));
    if (norm > 0) scale *= std::sqrt(double(call.value.shape[0])) / norm;
  }
  const A keep = A(scale), lr = A(group.lr);
  for_each(n, [&](int64_t i) {
    const A next = keep * weight(i) - lr * A(update[i]);
    if (master) master[i] = next;
    value[i] = T(next);
  });
}

}  // namespace

void run(const kernels::MuonDirection& call) {
  dispatch_all_floats(call.grad.dtype, call.name,
                      [&](auto zero) { direction<decltype(zero)>(call); });
}

void run(const kernels::MuonStep& call) {
  dispatch_all_floats(call.value.dtype, call.name, [&](auto zero) { step<decltype(zero)>(call); });
}

}  // namespace adret::cpu
