// Running sums, running products and linear recurrences: many lines side by side, or one by one.
#include <adret/core/cpu/dispatch.h>
#include <adret/core/cpu/kernels.h>
#include <adret/core/cpu/lines.h>

#include <algorithm>

namespace adret::cpu {
namespace {

// next(state, place) is what follows a state, kept in f64, with the operands at a place.
template <class T, class Next>
void scan(const kernels::Scan& call, double start, Next next) {
  const Lines lines(call.y.shape, call.dim);
  T* y = call.y.as<T>();
  const int64_t step = call.reverse ? -lines.inner : lines.inner;
  const int64_t skipped = call.reverse ? (lines.length - 1) * lines.inner : 0;
  lines.for_blocks([&](int64_t, int64_t offset, int64_t width) {
    int64_t at = offset + skipped;
    if (lines.inner == 1) {
      double state = start;
      for (int64_t i = 0; i < lines.length; ++i, at += step) {
        state = next(state, at);
        y[at] = T(state);
      }
      return;
    }
    double states[lines_width];
    std::fill_n(states, width, start);
    for (int64_t i = 0; i < lines.length; ++i, at += step) {
#pragma GCC ivdep
      for (int64_t c = 0; c < width; ++c) {
        states[c] = next(states[c], at + c);
        y[at + c] = T(states[c]);
      }
    }
  });
}

}  // namespace

void run(const kernels::Scan& call) {
  dispatch_float(call.y.dtype, call.name, [&](auto zero) {
    using T = decltype(zero);
    const T *a = call.a.as<T>(), *b = call.b.as<T>();
    if (!call.a.defined()) {
      scan<T>(call, 0, [=](double state, int64_t at) { return state + double(b[at]); });
    } else if (!call.b.defined()) {
      scan<T>(call, 1, [=](double state, int64_t at) { return state * double(a[at]); });
    } else {
      scan<T>(call, 0, [=](double state, int64_t at) {
        return (state == 0 ? 0 : double(a[at]) * state) + double(b[at]);
      });
    }
  });
}

}  // namespace adret::cpu
