// Elements padded, flipped, rolled and repeated.
#include <adret/core/cuda/elementwise.h>
#include <adret/core/cuda/index_strided.h>
#include <adret/core/cuda/kernels.h>
#include <adret/core/kernels/remap_plan.h>

#include <algorithm>
#include <cstring>

namespace adret::cuda {

using kernels::RemapAxis;
using kernels::RemapPlan;
using kernels::RemapPreimages;
using kernels::RemapRange;

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

// Where the elements of dx come from. Places that only one place of dy leads to, all but those at
// borders, are known by a range.
template <class Divisor>
struct Sources {
  using Index = typename Divisor::Index;
  Axes<Divisor> axes;
  Index first[max_rank] = {}, count[max_rank] = {};
  int64_t step[max_rank] = {};  // in dy

  explicit Sources(const RemapPlan& plan) : axes(plan, &RemapAxis::x_size, plan.y_strides()) {
    for (int d = 0; d < plan.rank; ++d) {
      const RemapRange range = axes.axis[d].single();
      first[d] = Index(range.begin);
      count[d] = Index(range.end - range.begin);
      step[d] = axes.axis[d].step * axes.stride[d];
    }
  }

  // Whether element i has a single source that is known so, and where it is.
  __device__ bool single(Index i, int64_t& at) const {
    bool is_single = true;
    at = 0;
    axes.for_places(i, [&](int d, int64_t place) {
      is_single &= Index(place) - first[d] < count[d];
      at += (place - axes.axis[d].start) * step[d];
    });
    return is_single;
  }
};

// Vector i of dx, of n elements that move as one, from any number of sources. Not inlined, as the
// few at borders need it.
template <class T, int n, class Divisor>
__device__ __noinline__ Vector<T, n> sum_of_sources(const Vector<T, n>* dy,
                                                    const Axes<Divisor>& axes,
                                                    typename Divisor::Index i) {
  using Index = typename Divisor::Index;
  Vector<Accumulator<T>, n> sum{};
  Index total = 1;
  for (Index source = 0; source < total; ++source) {
    Index rest = source, count = 1;
    int64_t at = 0;
    axes.for_places(i, [&](int d, int64_t place) {
      const RemapPreimages from = axes.axis[d].preimages(place);
      const Index own = Index(from.count);
      count *= own;
      if (own == 0) return;
      const Index others = own == 1 ? rest : rest / own;
      at += from[rest - others * own] * axes.stride[d];
      rest = others;
    });
    total = count;
    if (total == 0) break;
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
                               const __grid_constant__ Sources<Divisor> sources,
                               typename Divisor::Index count) {
  begin_kernel();
  using Index = typename Divisor::Index;
  const Index step = Index(all_threads());
  for (Index begin = Index(first_item()); begin < count; begin += move_unroll * step) {
    Vector<T, n> loaded[move_unroll];
    bool is_single[move_unroll];
#pragma unroll
    for (int u = 0; u < move_unroll; ++u) {
      const Index i = begin + u * step;
      int64_t at;
      is_single[u] = i < count && sources.single(i, at);
      if (is_single[u]) loaded[u] = dy[at];
    }
#pragma unroll
    for (int u = 0; u < move_unroll; ++u) {
      const Index i = begin + u * step;
      if (i >= count) break;
      dx[i] = is_single[u] ? loaded[u] : sum_of_sources(dy, sources.axes, i);
    }
  }
}

template <class T, int n>
void remap_backward_in(Context& context, const kernels::RemapBackward& call) {
  const RemapPlan plan(call.dx.shape, call.dy.shape, call.remap, n);
  const int64_t count = call.dx.numel() / n;
  // Sources are counted, too.
  with_divisor(1, std::max(count, call.dy.numel() / n), [&](auto divisor) {
    using Divisor = decltype(divisor);
    launch(context, remap_backward<T, n, Divisor>, grid_unrolled(context, count, move_unroll),
           call.dy.as<const Vector<T, n>>(), call.dx.as<Vector<T, n>>(), Sources<Divisor>(plan),
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
