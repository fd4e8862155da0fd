// Straightforward loops in f64 that the kernels are compared with: one output element at a time,
// from the definition.
#pragma once

#include <adret/core/kernels/conv.h>
#include <adret/core/kernels/matmul.h>
#include <adret/core/kernels/pool.h>
#include <adret/core/shape.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <limits>
#include <string>
#include <vector>

namespace adret::test {

using Values = std::vector<double>;

// Sums of products, each with the sum of the products' magnitudes, which bounds rounding errors.
struct Sums {
  Values value, magnitude;
  explicit Sums(int64_t count) : value(size_t(count), 0), magnitude(size_t(count), 0) {}
  void add(int64_t at, double term) {
    value[size_t(at)] += term;
    magnitude[size_t(at)] += std::abs(term);
  }
};

// Rounding: a sum in T is off by about sqrt(terms) units of its magnitude's last place, at most
// by `terms`. 16 units cover the sizes in these tests and are far below any single wrong term.
template <class T>
void expect_sums(const Values& actual, const Sums& expected, const std::string& what) {
  ASSERT_EQ(actual.size(), expected.value.size()) << what;
  const double unit = 16 * double(std::numeric_limits<T>::epsilon());
  for (size_t i = 0; i < actual.size(); ++i) {
    ASSERT_NEAR(actual[i], expected.value[i], unit * expected.magnitude[i] + 1e-300)
        << what << ", element " << i;
  }
}

// -- convolution ---------------------------------------------------------------------------------

struct ConvSizes {
  int64_t n, h, w, c, o, kh, kw;
  kernels::Conv2dParams conv;

  int64_t oh() const { return out(h, kh, conv.padding.h, conv.dilation.h, conv.stride.h); }
  int64_t ow() const { return out(w, kw, conv.padding.w, conv.dilation.w, conv.stride.w); }
  Shape x() const { return {n, h, w, c}; }
  Shape weight() const { return {o, kh, kw, c / conv.groups}; }
  Shape y() const { return {n, oh(), ow(), o}; }

 private:
  static int64_t out(int64_t size, int64_t kernel, int64_t padding, int64_t dilation,
                     int64_t stride) {
    return (size + 2 * padding - dilation * (kernel - 1) - 1) / stride + 1;
  }
};

// f(index in x, in weight, in y) for every product of the convolution.
template <class F>
void for_each_product(const ConvSizes& s, F f) {
  const int64_t cg = s.c / s.conv.groups, og = s.o / s.conv.groups;
  for (int64_t n = 0; n < s.n; ++n)
    for (int64_t i = 0; i < s.oh(); ++i)
      for (int64_t j = 0; j < s.ow(); ++j)
        for (int64_t o = 0; o < s.o; ++o)
          for (int64_t kh = 0; kh < s.kh; ++kh)
            for (int64_t kw = 0; kw < s.kw; ++kw) {
              const int64_t row = i * s.conv.stride.h + kh * s.conv.dilation.h - s.conv.padding.h;
              const int64_t column =
                  j * s.conv.stride.w + kw * s.conv.dilation.w - s.conv.padding.w;
              if (row < 0 || row >= s.h || column < 0 || column >= s.w) continue;
              for (int64_t c = 0; c < cg; ++c) {
                f(((n * s.h + row) * s.w + column) * s.c + o / og * cg + c,
                  ((o * s.kh + kh) * s.kw + kw) * cg + c,
                  ((n * s.oh() + i) * s.ow() + j) * s.o + o);
              }
            }
}

inline Sums conv_forward(const ConvSizes& s, const Values& x, const Values& weight,
                         const Values& bias) {
  Sums y(s.y().numel());
  for_each_product(s, [&](int64_t ix, int64_t iw, int64_t iy) {
    y.add(iy, x[size_t(ix)] * weight[size_t(iw)]);
  });
  for (int64_t i = 0; i < s.y().numel() && !bias.empty(); ++i) y.add(i, bias[size_t(i % s.o)]);
  return y;
}

inline Sums conv_backward_input(const ConvSizes& s, const Values& dy, const Values& weight) {
  Sums dx(s.x().numel());
  for_each_product(s, [&](int64_t ix, int64_t iw, int64_t iy) {
    dx.add(ix, dy[size_t(iy)] * weight[size_t(iw)]);
  });
  return dx;
}

inline Sums conv_backward_weight(const ConvSizes& s, const Values& x, const Values& dy) {
  Sums dweight(s.weight().numel());
  for_each_product(s, [&](int64_t ix, int64_t iw, int64_t iy) {
    dweight.add(iw, dy[size_t(iy)] * x[size_t(ix)]);
  });
  return dweight;
}

// The sum of each column of (rows, columns).
inline Sums column_sums(const Values& values, int64_t columns) {
  Sums sums(columns);
  for (size_t i = 0; i < values.size(); ++i) sums.add(int64_t(i) % columns, values[i]);
  return sums;
}

// -- matrix products -----------------------------------------------------------------------------

struct MatmulSizes {
  int64_t batch, rows, columns, depth;
  bool transpose_a = false, transpose_b = false;

  Shape a() const { return transpose_a ? Shape{batch, depth, rows} : Shape{batch, rows, depth}; }
  Shape b() const {
    return transpose_b ? Shape{batch, columns, depth} : Shape{batch, depth, columns};
  }
  Shape y() const { return {batch, rows, columns}; }
};

// `y` holds what is added to, or is empty.
inline Sums matmul(const MatmulSizes& s, const Values& a, const Values& b, const Values& y) {
  Sums result(s.y().numel());
  for (size_t i = 0; i < y.size(); ++i) result.add(int64_t(i), y[i]);
  for (int64_t n = 0; n < s.batch; ++n)
    for (int64_t i = 0; i < s.rows; ++i)
      for (int64_t j = 0; j < s.columns; ++j)
        for (int64_t k = 0; k < s.depth; ++k) {
          const int64_t ia =
              n * s.rows * s.depth + (s.transpose_a ? k * s.rows + i : i * s.depth + k);
          const int64_t ib =
              n * s.depth * s.columns + (s.transpose_b ? j * s.depth + k : k * s.columns + j);
          result.add((n * s.rows + i) * s.columns + j, a[size_t(ia)] * b[size_t(ib)]);
        }
  return result;
}

// -- pooling -------------------------------------------------------------------------------------

struct PoolSizes {
  int64_t n, h, w, c, oh, ow;
  kernels::Pool2dParams pool;

  Shape x() const { return {n, h, w, c}; }
  Shape y() const { return {n, oh, ow, c}; }
};

// f(index in y, index in x, tap) for every element of every window that lies inside the image.
template <class F>
void for_each_tap(const PoolSizes& s, F f) {
  for (int64_t n = 0; n < s.n; ++n)
    for (int64_t i = 0; i < s.oh; ++i)
      for (int64_t j = 0; j < s.ow; ++j)
        for (int64_t c = 0; c < s.c; ++c)
          for (int64_t tap = 0; tap < s.pool.kernel.area(); ++tap) {
            const int64_t row = i * s.pool.stride.h - s.pool.padding.h + tap / s.pool.kernel.w;
            const int64_t column = j * s.pool.stride.w - s.pool.padding.w + tap % s.pool.kernel.w;
            if (row < 0 || row >= s.h || column < 0 || column >= s.w) continue;
            f(((n * s.oh + i) * s.ow + j) * s.c + c, ((n * s.h + row) * s.w + column) * s.c + c,
              tap);
          }
}

struct Winners {
  Values value;
  std::vector<int64_t> tap, index;  // place in the window, and in x
};

inline Winners max_pool(const PoolSizes& s, const Values& x) {
  const auto count = size_t(s.y().numel());
  Winners best{Values(count), std::vector<int64_t>(count, -1), std::vector<int64_t>(count)};
  for_each_tap(s, [&](int64_t iy, int64_t ix, int64_t tap) {
    const auto y = size_t(iy);
    const double value = x[size_t(ix)];
    if (best.tap[y] < 0 || value > best.value[y]) {
      best.value[y] = value;
      best.tap[y] = tap;
      best.index[y] = ix;
    }
  });
  return best;
}

// What each window's sum is divided by.
inline Values pool_divisors(const PoolSizes& s) {
  Values divisors(size_t(s.y().numel()), 0);
  for_each_tap(s, [&](int64_t iy, int64_t, int64_t) { divisors[size_t(iy)] += 1; });
  if (!s.pool.count_include_pad) return divisors;
  for (int64_t y = 0; y < s.y().numel(); ++y) {
    const int64_t i = y / s.c / s.ow % s.oh, j = y / s.c % s.ow;
    int64_t taps = 0;
    for (int64_t tap = 0; tap < s.pool.kernel.area(); ++tap) {
      const int64_t row = i * s.pool.stride.h + tap / s.pool.kernel.w;
      const int64_t column = j * s.pool.stride.w + tap % s.pool.kernel.w;
      taps += row < s.h + 2 * s.pool.padding.h && column < s.w + 2 * s.pool.padding.w;
    }
    divisors[size_t(y)] = double(taps);
  }
  return divisors;
}

}  // namespace adret::test
