// Losses of a prediction and its target, with their sum and gradients.
#include <adret/core/cpu/dispatch.h>
#include <adret/core/cpu/grain.h>
#include <adret/core/cpu/kernels.h>
#include <adret/core/cpu/reduce_rows.h>
#include <adret/core/cpu/workspace.h>
#include <adret/core/thread_pool.h>
#include <adret/core/wide_math.h>

#include <algorithm>
#include <cmath>

namespace adret::cpu {

using kernels::PairLoss;

namespace {

inline double log1p(double x) { return std::log1p(x); }

// The loss of an element, and its derivatives by x and t.
template <PairLoss op, class T>
struct Formula {
  T knee;

  T loss(T x, T t) const {
    const T d = x - t, size = std::fabs(d);
    switch (op) {
      case PairLoss::squared: return d * d;
      case PairLoss::absolute: return size;
      case PairLoss::huber: return size <= knee ? T(0.5) * d * d : knee * (size - T(0.5) * knee);
      case PairLoss::binary: {
        const T softplus = (x < 0 ? -x : T(0)) + cpu::log1p(cpu::exp(-std::fabs(x)));
        return (1 - t) * x + softplus;
      }
      case PairLoss::divergence: return t == 0 ? T(0) : t * (cpu::log(t) - x);
      case PairLoss::log_divergence: return cpu::exp(t) * (t - x);
    }
    return T(0);
  }
  T slope(T x, T t) const {
    const T d = x - t;
    switch (op) {
      case PairLoss::squared: return 2 * d;
      case PairLoss::absolute: return d > 0 ? T(1) : (d < 0 ? T(-1) : d);
      case PairLoss::huber: return d > knee ? knee : (d < -knee ? -knee : d);
      case PairLoss::binary: return cpu::sigmoid(x) - t;
      case PairLoss::divergence: return -t;
      case PairLoss::log_divergence: return -cpu::exp(t);
    }
    return T(0);
  }
  T target_slope(T x, T t) const {
    switch (op) {
      case PairLoss::binary: return -x;
      case PairLoss::divergence: return t == 0 ? T(0) : cpu::log(t) + 1 - x;
      case PairLoss::log_divergence: return cpu::exp(t) * (t - x + 1);
      default: return -slope(x, t);
    }
  }
};

template <PairLoss op>
constexpr int64_t grain_of = op >= PairLoss::binary ? math_grain : memory_grain;

template <PairLoss op, class T>
void forward(const kernels::PairLossForward& call) {
  constexpr int64_t grain = grain_of<op>, block = 512;
  const Formula<op, T> formula{T(call.loss_params.knee)};
  const T *x = call.x.as<T>(), *target = call.target.as<T>();
  T* const loss = call.loss.as<T>();
  const int64_t n = call.x.numel();
  const double divisor = call.loss_params.divisor;
  if (call.loss.numel() == n) {
    parallel_for(n, grain, [&](int64_t begin, int64_t end) {
      const T factor = T(1 / divisor);
#pragma GCC ivdep
      for (int64_t i = begin; i < end; ++i) loss[i] = formula.loss(x[i], target[i]) * factor;
    });
    return;
  }
  const int64_t chunks = chunk_count(n, grain);
  const Workspace<double> sums(chunks);
  parallel_chunks(n, grain, [&](int64_t chunk, int64_t begin, int64_t end) {
    T losses[block];
    double sum = 0;
    for (int64_t first = begin; first < end; first += block) {
      const int64_t count = std::min(block, end - first);
#pragma GCC ivdep
      for (int64_t i = 0; i < count; ++i) losses[i] = formula.loss(x[first + i], target[first + i]);
      sum += reduce_row<Sum<T>>(losses, count);
    }
    sums.data()[chunk] = sum;
  });
  *loss = T(reduce_row<Sum<double>>(sums.data(), chunks) / divisor);
}

template <PairLoss op, class T>
void backward(const kernels::PairLossBackward& call) {
  const Formula<op, T> formula{T(call.loss_params.knee)};
  const T *x = call.x.as<T>(), *target = call.target.as<T>(), *dloss = call.dloss.as<T>();
  const int64_t n = call.x.numel();
  const double divisor = call.loss_params.divisor;
  const bool each = call.dloss.numel() == n;
  // dy = dloss / divisor * slope(x, target) at every place.
  const auto write = [&](T* dy, int64_t begin, int64_t end, auto slope) {
    if (each) {
      const T factor = T(1 / divisor);
#pragma GCC ivdep
      for (int64_t i = begin; i < end; ++i) dy[i] = dloss[i] * factor * slope(x[i], target[i]);
    } else {
      const T factor = T(double(*dloss) / divisor);
#pragma GCC ivdep
      for (int64_t i = begin; i < end; ++i) dy[i] = factor * slope(x[i], target[i]);
    }
  };
  parallel_for(n, grain_of<op>, [&](int64_t begin, int64_t end) {
    if (call.dx.defined()) {
      write(call.dx.as<T>(), begin, end, [&](T x, T t) { return formula.slope(x, t); });
    }
    if (call.dtarget.defined()) {
      write(call.dtarget.as<T>(), begin, end, [&](T x, T t) { return formula.target_slope(x, t); });
    }
  });
}

// f(op as a constant, zero of the dtype).
template <class Call, class F>
void dispatch_pair_loss(const Call& call, F f) {
  dispatch_float(call.x.dtype, call.name, [&](auto zero) {
    const auto of = [&]<PairLoss op>() { f.template operator()<op>(zero); };
    switch (call.loss_params.op) {
      case PairLoss::squared: return of.template operator()<PairLoss::squared>();
      case PairLoss::absolute: return of.template operator()<PairLoss::absolute>();
      case PairLoss::huber: return of.template operator()<PairLoss::huber>();
      case PairLoss::binary: return of.template operator()<PairLoss::binary>();
      case PairLoss::divergence: return of.template operator()<PairLoss::divergence>();
      case PairLoss::log_divergence: return of.template operator()<PairLoss::log_divergence>();
    }
  });
}

}  // namespace

void run(const kernels::PairLossForward& call) {
  dispatch_pair_loss(call, [&]<PairLoss op>(auto zero) { forward<op, decltype(zero)>(call); });
}

void run(const kernels::PairLossBackward& call) {
  dispatch_pair_loss(call, [&]<PairLoss op>(auto zero) { backward<op, decltype(zero)>(call); });
}

}  // namespace adret::cpu
