// Elements padded, flipped, rolled and repeated.
#include <adret/core/cpu/dispatch.h>
#include <adret/core/cpu/grain.h>
#include <adret/core/cpu/kernels.h>
#include <adret/core/kernels/remap_plan.h>
#include <adret/core/thread_pool.h>

#include <algorithm>

namespace adret::cpu {

using kernels::PadMode;
using kernels::RemapAxis;
using kernels::RemapPlan;
using kernels::RemapPreimages;

namespace {

using Sizes = std::array<int64_t, Shape::max_rank>;

// Places of row `row` along the outer dimensions, whose sizes are `size` of the axes.
Sizes places_of(const RemapPlan& plan, int64_t row, int64_t RemapAxis::*size) {
  Sizes places{};
  for (size_t d = size_t(plan.rank - 1); d-- > 0;) {
    places[d] = row % (plan.axes[d].*size);
    row /= plan.axes[d].*size;
  }
  return places;
}

int64_t outer_rows(const RemapPlan& plan, int64_t RemapAxis::*size) {
  int64_t rows = 1;
  for (size_t d = 0; d + 1 < size_t(plan.rank); ++d) rows *= plan.axes[d].*size;
  return rows;
}

// The places of y whose source lies in x when it moves along without a mirror.
struct Inside {
  int64_t begin, end;
  explicit Inside(const RemapAxis& axis)
      : begin(std::clamp<int64_t>(-axis.start, 0, axis.y_size)),
        end(std::clamp<int64_t>(axis.x_size - axis.start, begin, axis.y_size)) {}
};

bool is_shift(const RemapAxis& axis) { return axis.mode == PadMode::constant && axis.step == 1; }

template <class T>
void copy_row(const RemapAxis& axis, const T* x, T* y, T value) {
  if (is_shift(axis)) {
    const Inside inside(axis);
    std::fill_n(y, inside.begin, value);
    std::copy(x + axis.start + inside.begin, x + axis.start + inside.end, y + inside.begin);
    std::fill(y + inside.end, y + axis.y_size, value);
    return;
  }
  for (int64_t i = 0; i < axis.y_size; ++i) {
    const int64_t from = axis.source(i);
    y[i] = from < 0 ? value : x[from];
  }
}

template <class T>
void remap(const kernels::Remap& call) {
  const RemapPlan plan(call.x.shape, call.y.shape, call.remap);
  const RemapAxis& inner = plan.inner();
  const Sizes strides = plan.x_strides();
  const T* x = call.x.as<T>();
  T* y = call.y.as<T>();
  const T value = T(call.remap.value);
  parallel_for(outer_rows(plan, &RemapAxis::y_size), items_per_chunk(memory_grain, inner.y_size),
               [&](int64_t begin, int64_t end) {
                 for (int64_t row = begin; row < end; ++row) {
                   const Sizes places = places_of(plan, row, &RemapAxis::y_size);
                   int64_t from = 0;
                   bool exists = true;
                   for (size_t d = 0; d + 1 < size_t(plan.rank); ++d) {
                     const int64_t place = plan.axes[d].source(places[d]);
                     exists &= place >= 0;
                     from += place * strides[d];
                   }
                   T* const out = y + row * inner.y_size;
                   if (exists) {
                     copy_row(inner, x + from, out, value);
                   } else {
                     std::fill_n(out, inner.y_size, value);
                   }
                 }
               });
}

template <class T>
void add_row(const RemapAxis& axis, const T* dy, T* dx) {
  if (is_shift(axis)) {
    const Inside inside(axis);
    for (int64_t i = inside.begin; i < inside.end; ++i) dx[axis.start + i] += dy[i];
    return;
  }
  for (int64_t j = 0; j < axis.x_size; ++j) {
    const RemapPreimages from = axis.preimages(j);
    for (int64_t k = 0; k < from.count; ++k) dx[j] += dy[from[k]];
  }
}

// Rows of y that come from one row of x, in their order.
template <class F>
void for_rows(const RemapPlan& plan, const Sizes& places, F f) {
  const Sizes strides = plan.y_strides();
  const size_t outer = size_t(plan.rank - 1);
  std::array<RemapPreimages, Shape::max_rank> from;
  int64_t total = 1;
  for (size_t d = 0; d < outer; ++d) {
    from[d] = plan.axes[d].preimages(places[d]);
    total *= from[d].count;
  }
  for (int64_t i = 0; i < total; ++i) {
    int64_t rest = i, offset = 0;
    for (size_t d = outer; d-- > 0;) {
      offset += from[d][rest % from[d].count] * strides[d];
      rest /= from[d].count;
    }
    f(offset);
  }
}

template <class T>
void remap_backward(const kernels::RemapBackward& call) {
  const RemapPlan plan(call.dx.shape, call.dy.shape, call.remap);
  const RemapAxis& inner = plan.inner();
  const T* dy = call.dy.as<T>();
  T* dx = call.dx.as<T>();
  const int64_t elements = std::max(inner.x_size, inner.y_size);
  parallel_for(outer_rows(plan, &RemapAxis::x_size), items_per_chunk(memory_grain, elements),
               [&](int64_t begin, int64_t end) {
                 for (int64_t row = begin; row < end; ++row) {
                   T* const out = dx + row * inner.x_size;
                   std::fill_n(out, inner.x_size, T(0));
                   for_rows(plan, places_of(plan, row, &RemapAxis::x_size),
                            [&](int64_t offset) { add_row(inner, dy + offset, out); });
                 }
               });
}

}  // namespace

void run(const kernels::Remap& call) {
  if (call.y.numel() == 0) return;
  dispatch_all(call.y.dtype, [&](auto zero) { remap<decltype(zero)>(call); });
}

void run(const kernels::RemapBackward& call) {
  if (call.dx.numel() == 0) return;
  dispatch_float(call.dx.dtype, call.name,
                 [&](auto zero) { remap_backward<decltype(zero)>(call); });
}

}  // namespace adret::cpu
