// Losses of a prediction and its target, with their sum and gradients.
#include <adret/core/cuda/device_math.h>
#include <adret/core/cuda/elementwise.h>
#include <adret/core/cuda/kernels.h>
#include <adret/core/cuda/team.h>
#include <adret/core/cuda/workspace.h>

#include <algorithm>

namespace adret::cuda {

using kernels::PairLoss;

namespace {

// The loss of an element, and its derivatives by x and t, as in core/cpu/pair_loss.cpp.
template <PairLoss op, class A>
struct Formula {
  A knee;

  __device__ A loss(A x, A t) const {
    const A d = x - t, size = fabs(d);
    switch (op) {
      case PairLoss::squared: return d * d;
      case PairLoss::absolute: return size;
      case PairLoss::huber: return size <= knee ? A(0.5) * d * d : knee * (size - A(0.5) * knee);
      case PairLoss::binary: {
        const A softplus = (x < 0 ? -x : A(0)) + log1p(exp(-fabs(x)));
        return (1 - t) * x + softplus;
      }
      case PairLoss::divergence: return t == 0 ? A(0) : t * (log(t) - x);
      case PairLoss::log_divergence: return exp(t) * (t - x);
    }
    return A(0);
  }
  __device__ A slope(A x, A t) const {
    const A d = x - t;
    switch (op) {
      case PairLoss::squared: return 2 * d;
      case PairLoss::absolute: return d > 0 ? A(1) : (d < 0 ? A(-1) : d);
      case PairLoss::huber: return d > knee ? knee : (d < -knee ? -knee : d);
      case PairLoss::binary: return sigmoid(x) - t;
      case PairLoss::divergence: return -t;
      case PairLoss::log_divergence: return -exp(t);
    }
    return A(0);
  }
  __device__ A target_slope(A x, A t) const {
    switch (op) {
      case PairLoss::binary: return -x;
      case PairLoss::divergence: return t == 0 ? A(0) : log(t) + 1 - x;
      case PairLoss::log_divergence: return exp(t) * (t - x + 1);
      default: return -slope(x, t);
    }
  }
};

// x and target; the first `vectors` * n elements may be read as vectors.
template <class T>
struct Pairs {
  static constexpr int n = vector_size<T, T>;
  const T *x, *target;
  int64_t count, vectors;

  template <class... Others>
  Pairs(const TensorView& x, const TensorView& target, const Others*... others)
      : x(x.as<T>()),
        target(target.as<T>()),
        count(x.numel()),
        vectors(aligned_16(this->x, this->target, others...) ? count / n : 0) {}

  // Threads that have something to do.
  int64_t items() const { return vectors ? vectors : count; }

  // f(first element, x, target) for this thread's elements: as vectors of n, then of 1.
  template <int unroll, class F>
  __device__ void for_each(F f) const {
    using V = Vector<T, n>;
    const V *const from = reinterpret_cast<const V*>(x), *const to =
                                                             reinterpret_cast<const V*>(target);
    const int64_t step = all_threads();
    int64_t i = first_item();
    for (; i + (unroll - 1) * step < vectors; i += unroll * step) {
      V xs[unroll], targets[unroll];
#pragma unroll
      for (int u = 0; u < unroll; ++u) {
        xs[u] = from[i + u * step];
        targets[u] = to[i + u * step];
      }
#pragma unroll
      for (int u = 0; u < unroll; ++u) f((i + u * step) * n, xs[u], targets[u]);
    }
    for (; i < vectors; i += step) f(i * n, from[i], to[i]);
    for (i = vectors * n + first_item(); i < count; i += step) {
      f(i, Vector<T, 1>{x[i]}, Vector<T, 1>{target[i]});
    }
  }
};

// n elements, as vectors of 16 bytes where they are several.
template <class A, int n>
__device__ Vector<A, n> load_wide(const A* from) {
  constexpr int m = n * sizeof(A) > 16 ? int(16 / sizeof(A)) : n;
  Vector<A, n> values;
#pragma unroll
  for (int k = 0; k < n; k += m) {
    const auto part = *reinterpret_cast<const Vector<A, m>*>(from + k);
#pragma unroll
    for (int i = 0; i < m; ++i) values.at[k + i] = part.at[i];
  }
  return values;
}
template <class A, int n>
__device__ void store_wide(A* to, const Vector<A, n>& values) {
  constexpr int m = n * sizeof(A) > 16 ? int(16 / sizeof(A)) : n;
#pragma unroll
  for (int k = 0; k < n; k += m) {
    Vector<A, m> part;
#pragma unroll
    for (int i = 0; i < m; ++i) part.at[i] = values.at[k + i];
    *reinterpret_cast<Vector<A, m>*>(to + k) = part;
  }
}

__device__ unsigned blocks_done;  // one launch at a time uses it: all are on one stream

// *loss = the sum / divisor. Each of several blocks leaves what it read in `sums`, which the last
// one adds up.
template <PairLoss op, class T>
__global__ void sum_losses(const __grid_constant__ Pairs<T> pairs,
                           Formula<op, Accumulator<T>> formula, Accumulator<T>* sums,
                           Accumulator<T>* loss, double divisor) {
  begin_kernel();
  using A = Accumulator<T>;
  Total<A> read;
  pairs.template for_each<2>([&]<int n>(int64_t, const Vector<T, n>& x, const Vector<T, n>& t) {
    A sum = 0;
#pragma unroll
    for (int k = 0; k < n; ++k) sum += formula.loss(widen(x.at[k]), widen(t.at[k]));
    read.value += sum;
  });
  read = Block().reduce(read);
  Total<double> total{double(read.value)};
  if (gridDim.x > 1) {
    if (threadIdx.x == 0) sums[blockIdx.x] = read.value;
    if (!is_last_block(&blocks_done, gridDim.x)) return;
    total.value = 0;
    for (unsigned i = threadIdx.x; i < gridDim.x; i += blockDim.x) total.value += double(sums[i]);
    total = Block().reduce(total);
  }
  if (threadIdx.x == 0) *loss = A(total.value / divisor);
}

template <PairLoss op, class T>
__global__ void write_losses(const __grid_constant__ Pairs<T> pairs,
                             Formula<op, Accumulator<T>> formula, Accumulator<T>* loss,
                             Accumulator<T> factor) {
  begin_kernel();
  using A = Accumulator<T>;
  pairs.template for_each<1>(
      [&]<int n>(int64_t first, const Vector<T, n>& x, const Vector<T, n>& t) {
        Vector<A, n> losses;
#pragma unroll
        for (int k = 0; k < n; ++k) {
          losses.at[k] = formula.loss(widen(x.at[k]), widen(t.at[k])) * factor;
        }
        store_wide(loss + first, losses);
      });
}

// dx and dtarget, of which one may be null, for a gradient of each loss or of their sum.
template <PairLoss op, class T>
__global__ void write_gradients(const __grid_constant__ Pairs<T> pairs,
                                Formula<op, Accumulator<T>> formula, const Accumulator<T>* dloss,
                                bool each, double divisor, T* dx, T* dtarget) {
  begin_kernel();
  using A = Accumulator<T>;
  const A factor = each ? A(1 / divisor) : A(double(*dloss) / divisor);
  pairs.template for_each<1>(
      [&]<int n>(int64_t first, const Vector<T, n>& x, const Vector<T, n>& t) {
        Vector<A, n> scale;
        if (each) scale = load_wide<A, n>(dloss + first);
#pragma unroll
        for (int k = 0; k < n; ++k) scale.at[k] = each ? scale.at[k] * factor : factor;
        Vector<T, n> slopes;
        if (dx) {
#pragma unroll
          for (int k = 0; k < n; ++k) {
            slopes.at[k] = narrow<T>(scale.at[k] * formula.slope(widen(x.at[k]), widen(t.at[k])));
          }
          *reinterpret_cast<Vector<T, n>*>(dx + first) = slopes;
        }
        if (dtarget) {
#pragma unroll
          for (int k = 0; k < n; ++k) {
            slopes.at[k] =
                narrow<T>(scale.at[k] * formula.target_slope(widen(x.at[k]), widen(t.at[k])));
          }
          *reinterpret_cast<Vector<T, n>*>(dtarget + first) = slopes;
        }
      });
}

template <PairLoss op, class T>
void forward(const Context& context, const kernels::PairLossForward& call) {
  using A = Accumulator<T>;
  A* const loss = call.loss.as<A>();
  const bool each = call.x.numel() > 0 && call.loss.numel() == call.x.numel();
  const Pairs<T> pairs(call.x, call.target, each ? loss : nullptr);
  const double divisor = call.loss_params.divisor;
  const Formula<op, A> formula{A(call.loss_params.knee)};
  if (each) {
    return launch(context, write_losses<op, T>, grid_for(context, pairs.items()), pairs, formula,
                  loss, A(1 / divisor));
  }
  if (call.loss.numel() == 0) return;
  const int64_t most = int64_t(context.multiprocessors()) * 8;
  const unsigned blocks = unsigned(std::clamp<int64_t>(divide_up(pairs.items(), 256), 1, most));
  const Workspace sums(context, blocks * sizeof(A));
  launch(context, sum_losses<op, T>, {.blocks = blocks}, pairs, formula, sums.as<A>(), loss,
         divisor);
}

template <PairLoss op, class T>
void backward(const Context& context, const kernels::PairLossBackward& call) {
  using A = Accumulator<T>;
  T* const dx = call.dx.defined() ? call.dx.as<T>() : nullptr;
  T* const dtarget = call.dtarget.defined() ? call.dtarget.as<T>() : nullptr;
  const A* const dloss = call.dloss.as<const A>();
  const bool each = call.dloss.numel() == call.x.numel();
  const Pairs<T> pairs(call.x, call.target, dx, dtarget, each ? dloss : nullptr);
  launch(context, write_gradients<op, T>, grid_for(context, pairs.items()), pairs,
         Formula<op, A>{A(call.loss_params.knee)}, dloss, each, call.loss_params.divisor, dx,
         dtarget);
}

// f(op as a constant, zero of the dtype).
template <class Call, class F>
void dispatch_pair_loss(const Call& call, F f) {
  dispatch_float(call.x.dtype, call.name, [&](auto zero) {
    switch (call.loss_params.op) {
      case PairLoss::squared: return f.template operator()<PairLoss::squared>(zero);
      case PairLoss::absolute: return f.template operator()<PairLoss::absolute>(zero);
      case PairLoss::huber: return f.template operator()<PairLoss::huber>(zero);
      case PairLoss::binary: return f.template operator()<PairLoss::binary>(zero);
      case PairLoss::divergence: return f.template operator()<PairLoss::divergence>(zero);
      case PairLoss::log_divergence: return f.template operator()<PairLoss::log_divergence>(zero);
    }
  });
}

}  // namespace

void run(Context& context, const kernels::PairLossForward& call) {
  dispatch_pair_loss(call,
                     [&]<PairLoss op>(auto zero) { forward<op, decltype(zero)>(context, call); });
}

void run(Context& context, const kernels::PairLossBackward& call) {
  dispatch_pair_loss(call,
                     [&]<PairLoss op>(auto zero) { backward<op, decltype(zero)>(context, call); });
}

}  // namespace adret::cuda
