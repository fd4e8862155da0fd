// Softmax and its logarithm: along rows when the dimension is the last, else for many columns at
// once.
#include <adret/core/cpu/elementwise.h>
#include <adret/core/cpu/kernels.h>
#include <adret/core/cpu/lines.h>
#include <adret/core/cpu/reduce_rows.h>

#include <algorithm>
#include <cmath>

namespace adret::cpu {
namespace {

// y = exp(x - largest) / sum, or x - largest - log(sum); y holds exp(x - largest) before.
template <class T>
void finish_row(const T* x, T* y, int64_t n, T largest, double sum, bool log) {
  if (log) {
    const T log_sum = T(std::log(sum));
    map_row(
        n, y, [=](T v) { return v - largest - log_sum; }, x);
  } else {
    const T scale = T(1 / sum);
    map_row(
        n, y, [=](T v) { return v * scale; }, y);
  }
}

template <class T>
void forward_row(const T* x, T* y, int64_t n, bool log) {
  const T largest = reduce_row<Max<T>>(x, n);
  map_row(
      n, y, [=](T v) { return exp_down(v - largest); }, x);
  finish_row(x, y, n, largest, reduce_row<Sum<T>>(y, n), log);
}

template <class T>
void forward_columns(const T* x, T* y, int64_t length, int64_t stride, int64_t width, bool log) {
  T largest[lines_width], scale[lines_width];
  double sum[lines_width] = {};
  std::fill_n(largest, width, Max<T>::identity);
  reduce_rows<Max<T>>(x, length, stride, width, largest);
  for (int64_t row = 0; row < length; ++row) {
#pragma GCC ivdep
    for (int64_t c = 0; c < width; ++c) {
      y[row * stride + c] = exp_down(x[row * stride + c] - largest[c]);
    }
  }
  reduce_rows<Sum<T>>(y, length, stride, width, sum);
  for (int64_t c = 0; c < width; ++c) scale[c] = T(log ? std::log(sum[c]) : 1 / sum[c]);
  for (int64_t row = 0; row < length; ++row) {
    const T* from = x + row * stride;
    T* to = y + row * stride;
#pragma GCC ivdep
    for (int64_t c = 0; c < width; ++c) {
      to[c] = log ? from[c] - largest[c] - scale[c] : to[c] * scale[c];
    }
  }
}

// The contribution of an element to the sum, and then its gradient.
template <class T>
T weight(T y, T dy, bool log) {
  return log ? dy : dy * y;
}
template <class T>
T gradient(T y, T dy, T sum, bool log) {
  return log ? dy - exp_down(y) * sum : y * (dy - sum);
}

template <class T>
void backward_columns(const T* y, const T* dy, T* dx, int64_t length, int64_t stride, int64_t width,
                      bool log) {
  double sum[lines_width] = {};
  for (int64_t row = 0; row < length; ++row) {
    const int64_t at = row * stride;
#pragma GCC ivdep
    for (int64_t c = 0; c < width; ++c) sum[c] += double(weight(y[at + c], dy[at + c], log));
  }
  for (int64_t row = 0; row < length; ++row) {
    const int64_t at = row * stride;
#pragma GCC ivdep
    for (int64_t c = 0; c < width; ++c) {
      dx[at + c] = gradient(y[at + c], dy[at + c], T(sum[c]), log);
    }
  }
}

// The choice of function is a constant of each loop, or the logarithm's would be in both.
template <bool LOG, class T>
void backward_row(const T* y, const T* dy, T* dx, int64_t n) {
  map_row(
      n, dx, [](T v, T dv) { return weight(v, dv, LOG); }, y, dy);
  const T sum = T(reduce_row<Sum<T>>(dx, n));
  map_row(
      n, dx, [=](T v, T dv) { return gradient(v, dv, sum, LOG); }, y, dy);
}

}  // namespace

void run(const kernels::SoftmaxForward& call) {
  const Lines lines(call.x.shape, call.dim);
  dispatch_float(call.x.dtype, call.name, [&](auto zero) {
    using T = decltype(zero);
    const T* x = call.x.as<T>();
    T* y = call.y.as<T>();
    lines.for_blocks([&](int64_t, int64_t at, int64_t width) {
      if (lines.inner == 1) {
        forward_row(x + at, y + at, lines.length, call.log);
      } else {
        forward_columns(x + at, y + at, lines.length, lines.inner, width, call.log);
      }
    });
  });
}

void run(const kernels::SoftmaxBackward& call) {
  const Lines lines(call.y.shape, call.dim);
  dispatch_float(call.y.dtype, call.name, [&](auto zero) {
    using T = decltype(zero);
    const T *y = call.y.as<T>(), *dy = call.dy.as<T>();
    T* dx = call.dx.as<T>();
    lines.for_blocks([&](int64_t, int64_t at, int64_t width) {
      if (lines.inner == 1) {
        (call.log ? backward_row<true, T> : backward_row<false, T>)(y + at, dy + at, dx + at,
                                                                    lines.length);
      } else {
        backward_columns(y + at, dy + at, dx + at, lines.length, lines.inner, width, call.log);
      }
    });
  });
}

}  // namespace adret::cpu
