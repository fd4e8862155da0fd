// Elements padded, flipped, rolled and repeated.
#include <adret/core/cuda/elementwise.h>
#include <adret/core/cuda/index_strided.h>
#include <adret/core/cuda/kernels.h>
#include <adret/core/kernels/remap_plan.h>

#include <cstring>

namespace adret::cuda {

using kernels::RemapAxis;
using kernels::RemapPlan;
using kernels::RemapPreimages;

namespace {

constexpr int max_rank = Shape::max_rank;

// The dimensions of what is written, and the steps of what is read.
template <class Divisor>
struct Axes {
  int rank;
  RemapAxis axis[max_rank];
  Divisor size[max_rank] = {Divisor(1), Divisor(1), Divisor(1), Divisor(1), Divisor(1), Divisor(1)};
  int64_t stride[max_rank];

  Axes(const RemapPlan& plan, int64_t RemapAxis::*written,
       const std::array<int64_t, max_rank>& strides)
      : rank(plan.rank) {
    for (int d = 0; d < rank; ++d) {
      axis[d] = plan.axes[size_t(d)];
      size[d] = Divisor(typename Divisor::Index(axis[d].*written));
      stride[d] = strides[size_t(d)];
    }
  }

  // f(d, place) for the dimensions of element i, the last one first.
  template <class F>
  __device__ void for_places(typename Divisor::Index i, F f) const {
    for (int d = rank - 1; d > 0; --d) {
      const auto rest = size[d].quotient(i);
      f(d, int64_t(i - rest * size[d].divisor()));
      i = rest;
    }
    f(0, int64_t(i));
  }
};

template <class T, class Divisor>
__global__ void remap(const T* x, T* y, const __grid_constant__ Axes<Divisor> axes, T value,
                      typename Divisor::Index count) {
  begin_kernel();
  using Index = typename Divisor::Index;
  const auto load = [&](Index i) {
    int64_t from = 0;
    bool exists = true;
    axes.for_places(i, [&](int d, int64_t place) {
      const int64_t source = axes.axis[d].source(place);
      exists &= source >= 0;
      from += source * axes.stride[d];
    });
    return exists ? x[from] : value;
  };
  const Index step = Index(all_threads());
  Index i = Index(first_item());
  for (; i + (move_unroll - 1) * step < count; i += move_unroll * step) {
    T loaded[move_unroll];
#pragma unroll
    for (int u = 0; u < move_unroll; ++u) loaded[u] = load(i + u * step);
#pragma unroll
    for (int u = 0; u < move_unroll; ++u) y[i + u * step] = loaded[u];
  }
  for (; i < count; i += step) y[i] = load(i);
}

// Vector i of dx, of n elements that move as one; most have one source.
template <class T, int n, class Divisor>
__device__ Vector<T, n> sum_of_sources(const Vector<T, n>* dy, const Axes<Divisor>& axes,
                                       typename Divisor::Index i) {
  int64_t total = 1, only = 0;
  axes.for_places(i, [&](int d, int64_t place) {
    const RemapPreimages from = axes.axis[d].preimages(place);
    total *= from.count;
    only += from.places[0] * axes.stride[d];
  });
  if (total == 1) return dy[only];
  Vector<Accumulator<T>, n> sum{};
  for (int64_t source = 0; source < total; ++source) {
    int64_t rest = source, at = 0;
    axes.for_places(i, [&](int d, int64_t place) {
      const RemapPreimages from = axes.axis[d].preimages(place);
      at += from[rest % from.count] * axes.stride[d];
      rest /= from.count;
    });
    const Vector<T, n> other = dy[at];
#pragma unroll
    for (int e = 0; e < n; ++e) sum.at[e] += widen<T>(other.at[e]);
  }
  Vector<T, n> result;
#pragma unroll
  for (int e = 0; e < n; ++e) result.at[e] = narrow<T>(sum.at[e]);
  return result;
}

template <class T, int n, class Divisor>
__global__ void remap_backward(const Vector<T, n>* dy, Vector<T, n>* dx,
                               const __grid_constant__ Axes<Divisor> axes,
                               typename Divisor::Index count) {
  begin_kernel();
  using Index = typename Divisor::Index;
  for (Index i = Index(first_item()); i < count; i += Index(all_threads())) {
    dx[i] = sum_of_sources(dy, axes, i);
  }
}

template <class T, int n>
void remap_backward_in(Context& context, const kernels::RemapBackward& call) {
  const RemapPlan plan(call.dx.shape, call.dy.shape, call.remap, n);
  const int64_t count = call.dx.numel() / n;
  with_divisor(1, count, [&](auto divisor) {
    using Divisor = decltype(divisor);
    launch(context, remap_backward<T, n, Divisor>, grid_for(context, count),
           call.dy.as<const Vector<T, n>>(), call.dx.as<Vector<T, n>>(),
           Axes<Divisor>(plan, &RemapAxis::x_size, plan.y_strides()),
           typename Divisor::Index(count));
  });
}

// `value` in the dtype, as often as a T holds it.
template <class T>
T filled(DType dtype, double value) {
  T result;
  dispatch_all(dtype, [&](auto zero) {
    const auto element = decltype(zero)(value);
    for (size_t at = 0; at < sizeof(T); at += sizeof(element)) {
      std::memcpy(reinterpret_cast<char*>(&result) + at, &element, sizeof(element));
    }
  });
  return result;
}

}  // namespace

void run(Context& context, const kernels::Remap& call) {
  if (call.y.numel() == 0) return;
  const int64_t size = int64_t(size_of(call.y.dtype));
  const auto unit = int64_t(
      common_unit(uintptr_t(call.x.data), uintptr_t(call.y.data),
                  uint64_t(kernels::unit_limit(call.x.shape, call.y.shape, call.remap) * size)));
  const RemapPlan plan(call.x.shape, call.y.shape, call.remap, unit / size);
  const int64_t count = int64_t(call.y.bytes()) / unit;
  dispatch_unit(size_t(unit), [&](auto zero) {
    using T = decltype(zero);
    with_divisor(1, count, [&](auto divisor) {
      using Divisor = decltype(divisor);
      launch(context, remap<T, Divisor>, grid_unrolled(context, count, move_unroll), call.x.as<T>(),
             call.y.as<T>(), Axes<Divisor>(plan, &RemapAxis::y_size, plan.x_strides()),
             filled<T>(call.y.dtype, call.remap.value), typename Divisor::Index(count));
    });
  });
}

void run(Context& context, const kernels::RemapBackward& call) {
  if (call.dx.numel() == 0) return;
  dispatch_float(call.dx.dtype, call.name, [&](auto zero) {
    using T = decltype(zero);
    constexpr int n = 16 / int(sizeof(T));
    if (kernels::unit_limit(call.dx.shape, call.dy.shape, call.remap) % n == 0 &&
        aligned_16(call.dx.as<T>(), call.dy.as<T>())) {
      remap_backward_in<T, n>(context, call);
    } else {
      remap_backward_in<T, 1>(context, call);
    }
  });
}

}  // namespace adret::cuda
