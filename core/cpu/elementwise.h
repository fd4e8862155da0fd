// What the files of functions of one operand share: the loops, and who runs which.
#pragma once

#include <adret/core/cpu/dispatch.h>
#include <adret/core/cpu/grain.h>
#include <adret/core/cpu/vector.h>
#include <adret/core/kernels/elementwise.h>
#include <adret/core/thread_pool.h>

#include <algorithm>

namespace adret::cpu {

// y = f(x...) at every place of a run; y may be an x. All of f is inlined, or the loop would not
// become one over vectors.
template <class To, class F, class... From>
[[gnu::flatten]] void map_run(int64_t n, To* y, F f, const From*... x) {
#pragma GCC ivdep
  for (int64_t i = 0; i < n; ++i) y[i] = f(x[i]...);
}

// The same for rows that are short and end anywhere: the last elements are a vector too, which
// overlaps the one before and is computed first, as y may be an x.
template <class To, class F, class... From>
void map_row(int64_t n, To* y, F f, const From*... x) {
  constexpr int64_t width = lanes<To>;
  if (n < width) return map_run(n, y, f, x...);
  To last[width];
  map_run(width, last, f, (x + n - width)...);
  map_run(n / width * width, y, f, x...);
  std::copy_n(last, width, y + n - width);
}

// y = f(x) at every place; y may be x.
template <class To, class From, class F>
void map(const TensorView& x, const TensorView& y, int64_t grain, F f) {
  const From* in = x.as<From>();
  To* out = y.as<To>();
  parallel_for(y.numel(), grain, [=](int64_t begin, int64_t end) {
    map_run(end - begin, out + begin, f, in + begin);
  });
}

// dx = f(saved, dy) at every place; dx may be either.
template <class T, class F>
void map_backward(const kernels::UnaryBackward& call, int64_t grain, F f) {
  const T *saved = call.saved.as<T>(), *dy = call.dy.as<T>();
  T* dx = call.dx.as<T>();
  parallel_for(call.dx.numel(), grain, [=](int64_t begin, int64_t end) {
    map_run(end - begin, dx + begin, f, saved + begin, dy + begin);
  });
}

// The families of UnaryOp, in f32 and f64.
void run_exponential(const kernels::Unary& call);
void run_trigonometric(const kernels::Unary& call);
void run_activation(const kernels::Unary& call);

}  // namespace adret::cpu
