// Elements padded, flipped, rolled and repeated.
#include <adret/core/cpu/dispatch.h>
#include <adret/core/cpu/grain.h>
#include <adret/core/cpu/kernels.h>
#include <adret/core/cpu/runs.h>
#include <adret/core/kernels/remap_plan.h>
#include <adret/core/thread_pool.h>

#include <algorithm>
#include <cstdlib>

namespace adret::cpu {

using kernels::PadMode;
using kernels::RemapAxis;
using kernels::RemapPlan;
using kernels::RemapPreimages;

namespace {

using Sizes = std::array<int64_t, Shape::max_rank>;

// Places of x's row `row` along the outer dimensions.
Sizes places_of(const RemapPlan& plan, int64_t row) {
  Sizes places{};
  for (size_t d = size_t(plan.rank - 1); d-- > 0;) {
    places[d] = row % plan.axes[d].x_size;
    row /= plan.axes[d].x_size;
  }
  return places;
}

// To those of the next row.
void advance(const RemapPlan& plan, Sizes& places) {
  for (size_t d = size_t(plan.rank - 1); d-- > 0;) {
    if (++places[d] < plan.axes[d].x_size) return;
    places[d] = 0;
  }
}

int64_t outer_rows(const RemapPlan& plan, int64_t RemapAxis::*size) {
  int64_t rows = 1;
  for (size_t d = 0; d + 1 < size_t(plan.rank); ++d) rows *= plan.axes[d].*size;
  return rows;
}

// Places of y that follow each other in x too: at `from`, from + step, ...; -1: outside of x.
struct Run {
  int64_t first, length, from, step;
};

int64_t floor_div(int64_t a, int64_t b) { return a / b - (a % b < 0); }

// f(run) for the places begin..end-1 along an axis, in order. What lies before x, within and behind
// it is one run each, or one for each repetition.
template <class F>
void each_run(const RemapAxis& axis, int64_t begin, int64_t end, F f) {
  const int64_t size = axis.x_size, step = axis.step;
  const bool is_circular = axis.mode == PadMode::circular;
  for (Run run{begin, 0, 0, 0}; run.first < end; run.first += run.length) {
    const int64_t at = axis.start + step * run.first;
    const int64_t turn = is_circular ? floor_div(at, size) : 0;
    const int64_t low = turn * size, high = low + size;  // the stretch that stands for x
    const bool is_before = at < low, is_behind = at >= high;
    // The places up to the next border, if the way leads there.
    const int64_t border = step > 0 ? (is_before ? low : high) : (is_behind ? high - 1 : low - 1);
    const bool leaves = step > 0 ? is_behind : is_before;
    const int64_t way = std::abs(border - at), stride = std::abs(step);
    const int64_t ahead = leaves ? end : stride == 1 ? way : chunk_count(way, stride);
    run.length = std::min(end - run.first, ahead);
    run.from = axis.source(run.first);
    const bool is_mirrored = axis.mode == PadMode::reflect && (is_before || is_behind);
    const bool is_held = axis.mode == PadMode::replicate && (is_before || is_behind);
    run.step = is_mirrored ? -step : is_held ? 0 : step;
    f(run);
  }
}

template <class T>
void copy_row(const RemapAxis& axis, const T* x, T* y, T value, int64_t begin, int64_t end) {
  if (axis.mode == PadMode::circular && axis.step == 1 && end - begin > 2 * axis.x_size) {
    // What has been repeated once is there to be copied in ever longer pieces.
    copy_row(axis, x, y, value, begin, begin + axis.x_size);
    for (int64_t done = axis.x_size; done < end - begin;) {
      const int64_t length = std::min(done, end - begin - done);
      copy_run(y + begin, y + begin + done, size_t(length) * sizeof(T));
      done += length;
    }
    return;
  }
  each_run(axis, begin, end, [&](const Run& run) {
    T* const to = y + run.first;
    if (run.from < 0 || run.step == 0) {
      std::fill_n(to, run.length, run.from < 0 ? value : x[run.from]);
    } else if (run.step == 1) {
      copy_run(x + run.from, to, size_t(run.length) * sizeof(T));
    } else if (run.step == -1) {
      std::reverse_copy(x + run.from + 1 - run.length, x + run.from + 1, to);
    } else {
      for (int64_t i = 0; i < run.length; ++i) to[i] = x[run.from + i * run.step];
    }
  });
}

// A long row is cut, so that threads can share it.
constexpr int64_t part_length = memory_grain;

template <class T>
void remap(const kernels::Remap& call) {
  const RemapPlan plan(call.x.shape, call.y.shape, call.remap);
  const RemapAxis& inner = plan.inner();
  const Sizes strides = plan.x_strides();
  const T value = T(call.remap.value);
  const bool moves_alike = inner.is_identity();
  // Elements begin..end-1 of `count` rows.
  const auto copy_parts = [&](const T* x, int64_t step, T* y, int64_t count, int64_t begin,
                              int64_t end) {
    if (x && moves_alike) {
      return copy_runs(reinterpret_cast<const std::byte*>(x + begin), step * int64_t(sizeof(T)),
                       reinterpret_cast<std::byte*>(y + begin), inner.y_size * int64_t(sizeof(T)),
                       count, size_t(end - begin) * sizeof(T));
    }
    for (int64_t i = 0; i < count; ++i, y += inner.y_size) {
      if (x) {
        copy_row(inner, x + i * step, y, value, begin, end);
      } else {
        std::fill(y + begin, y + end, value);
      }
    }
  };
  // The dimension around the rows is walked in runs, too.
  const size_t outer = size_t(std::max(plan.rank - 2, 0));
  const RemapAxis around = plan.rank > 1 ? plan.axes[outer] : RemapAxis();
  const auto copy_rows = [&](int64_t first, int64_t last, int64_t begin, int64_t end) {
    for (int64_t row = first; row < last;) {
      const int64_t start = row % around.y_size;
      const int64_t stop = std::min(around.y_size, start + last - row);
      const T* from = call.x.as<T>();
      int64_t rest = row / around.y_size;
      for (size_t d = outer; from && d-- > 0; rest /= plan.axes[d].y_size) {
        const int64_t place = plan.axes[d].source(rest % plan.axes[d].y_size);
        from = place < 0 ? nullptr : from + place * strides[d];
      }
      each_run(around, start, stop, [&](const Run& run) {
        const bool exists = from && run.from >= 0;
        const T* x = exists ? from + run.from * inner.x_size : nullptr;
        T* y = call.y.as<T>() + (row - start + run.first) * inner.y_size;
        copy_parts(x, run.step * inner.x_size, y, run.length, begin, end);
      });
      row += stop - start;
    }
  };
  const int64_t rows = outer_rows(plan, &RemapAxis::y_size);
  const int64_t parts = chunk_count(inner.y_size, part_length);
  parallel_for(rows * parts, items_per_chunk(memory_grain, std::min(inner.y_size, part_length)),
               [&](int64_t begin, int64_t end) {
                 for (int64_t item = begin; item < end;) {
                   const int64_t row = item / parts, part = item % parts * part_length;
                   const int64_t count = parts == 1 ? end - item : 1;
                   copy_rows(row, row + count, part, std::min(inner.y_size, part + part_length));
                   item += count;
                 }
               });
}

template <class T>
void add_row(const RemapAxis& axis, const T* dy, T* dx) {
  each_run(axis, 0, axis.y_size, [&](const Run& run) {
    if (run.from < 0) return;
    const T* const from = dy + run.first;
    T* const to = dx + run.from;
    if (run.step == 1) {
#pragma GCC ivdep
      for (int64_t i = 0; i < run.length; ++i) to[i] += from[i];
    } else {
      for (int64_t i = 0; i < run.length; ++i) to[i * run.step] += from[i];
    }
  });
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
                 Sizes places = places_of(plan, begin);
                 for (int64_t row = begin; row < end; ++row) {
                   T* const out = dx + row * inner.x_size;
                   std::fill_n(out, inner.x_size, T(0));
                   for_rows(plan, places,
                            [&](int64_t offset) { add_row(inner, dy + offset, out); });
                   advance(plan, places);
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
