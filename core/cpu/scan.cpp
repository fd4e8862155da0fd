// Running sums, running products and linear recurrences: many lines side by side, or one by one.
#include <adret/core/cpu/dispatch.h>
#include <adret/core/cpu/kernels.h>
#include <adret/core/cpu/lines.h>

#include <algorithm>

namespace adret::cpu {
namespace {

// next(state, place) is what follows a state with the operands at a place.
template <class T, class State, class Next>
void scan(const kernels::Scan& call, State start, Next next) {
  const Lines lines(call.y.shape, call.dim);
  T* y = call.y.as<T>();
  const int64_t step = call.reverse ? -lines.inner : lines.inner;
  const int64_t skipped = call.reverse ? (lines.length - 1) * lines.inner : 0;
  lines.for_blocks([&](int64_t, int64_t offset, int64_t width) {
    int64_t at = offset + skipped;
    if (lines.inner == 1) {
      State state = start;
      for (int64_t i = 0; i < lines.length; ++i, at += step) {
        state = next(state, at);
        y[at] = T(state);
      }
      return;
    }
    State states[lines_width];
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

template <class T, class State>
void run_in(const kernels::Scan& call) {
  const T *a = call.a.as<T>(), *b = call.b.as<T>();
  if (!call.a.defined()) {
    scan<T>(call, State(0), [=](State state, int64_t at) { return state + State(b[at]); });
  } else if (!call.b.defined()) {
    scan<T>(call, State(1), [=](State state, int64_t at) { return state * State(a[at]); });
  } else {
    scan<T>(call, State(0), [=](State state, int64_t at) {
      return (state == 0 ? 0 : State(a[at]) * state) + State(b[at]);
    });
  }
}

}  // namespace

void run(const kernels::Scan& call) {
  if (call.y.dtype == DType::i64) return run_in<int64_t, uint64_t>(call);
  dispatch_float(call.y.dtype, call.name, [&](auto zero) { run_in<decltype(zero), double>(call); });
}

}  // namespace adret::cpu
