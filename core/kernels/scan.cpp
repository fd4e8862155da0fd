// Running sums, running products and linear recurrences on the CPU: many lines side by side, or one
// by one.
#include <adret/core/cpu/dispatch.h>
#include <adret/core/cpu/lines.h>
#include <adret/core/formula/vector_level.h>
#include <adret/core/kernels/scan.h>
#include <fmt/core.h>

#include <algorithm>

namespace adret::kernels {
namespace {

// next(state, place) is what follows a state with the operands at a place.
template <class T, class State, class Next>
void scan(const Scan& kernel, const TensorView& out, State start, Next next) {
  const cpu::Lines lines(out.shape, kernel.dim);
  T* y = out.as<T>();
  const int64_t step = kernel.reverse ? -lines.inner : lines.inner;
  const int64_t skipped = kernel.reverse ? (lines.length - 1) * lines.inner : 0;
  const auto one_line = [=](int64_t at) {
    State state = start;
    for (int64_t i = 0; i < lines.length; ++i, at += step) {
      state = next(state, at);
      y[at] = T(cpu::Computed<T>(state));
    }
  };
  const auto side_by_side = [=](int64_t at, int64_t width) {
    State states[cpu::lines_width];
    std::fill_n(states, width, start);
    for (int64_t i = 0; i < lines.length; ++i, at += step) {
#pragma GCC ivdep
      for (int64_t c = 0; c < width; ++c) {
        states[c] = next(states[c], at + c);
        y[at + c] = T(cpu::Computed<T>(states[c]));
      }
    }
  };
  lines.for_blocks([&](int64_t, int64_t offset, int64_t width) {
    formula::run_for_processor([&] {
      lines.inner == 1 ? one_line(offset + skipped) : side_by_side(offset + skipped, width);
    });
  });
}

template <class T, class State>
void run_in(const Scan& kernel, const CustomCall& call) {
  const TensorView &factors = call.inputs[0], &terms = call.inputs[1], &y = call.outputs[0];
  const T *a = factors.as<T>(), *b = terms.as<T>();
  const auto wide = [](T value) { return State(cpu::Computed<T>(value)); };
  if (!factors.defined()) {
    scan<T>(kernel, y, State(0), [=](State state, int64_t at) { return state + wide(b[at]); });
  } else if (!terms.defined()) {
    scan<T>(kernel, y, State(1), [=](State state, int64_t at) { return state * wide(a[at]); });
  } else {
    scan<T>(kernel, y, State(0), [=](State state, int64_t at) {
      const State grown = wide(a[at]) * state;  // in any case, so that the loop vectorises
      return (state == 0 ? 0 : grown) + wide(b[at]);
    });
  }
}

}  // namespace

std::string Scan::params() const { return fmt::format("dim {}{}", dim, reverse ? " reverse" : ""); }

void Scan::run_cpu(const CustomCall& call) const {
  const DType dtype = call.outputs[0].dtype;
  if (dtype == DType::i64) return run_in<int64_t, uint64_t>(*this, call);
  cpu::dispatch_all_floats(dtype, name,
                           [&](auto zero) { run_in<decltype(zero), double>(*this, call); });
}

}  // namespace adret::kernels
