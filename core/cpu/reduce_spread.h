// Reductions that keep two numbers for each output: variances, and logarithms of sums of
// exponentials.
#pragma once

#include <adret/core/cpu/elementwise.h>
#include <adret/core/cpu/reduce_plan.h>
#include <adret/core/cpu/reduce_rows.h>
#include <adret/core/cpu/workspace.h>

#include <algorithm>
#include <cmath>

namespace adret::cpu {

// Note [Two passes over a chunk]
// A chunk's mean or maximum is found first and the sum about it second, while the chunk is in the
// cache: nothing is lost where the mean is large, and no exponential overflows. The results of
// chunks are moved to a common mean (Chan, Golub and LeVeque 1979) or maximum, in order.

// The two numbers of each column of an output.
struct Columns {
  double *first, *second;
  int64_t width;
};

// Repeats the first `period` values up to `count`, as neighbouring rows see them.
template <class T>
void repeat_columns(T* values, int64_t period, int64_t count) {
  if (period == 1) return void(std::fill_n(values, count, values[0]));
  for (int64_t i = period; i < count; ++i) values[i] = values[i - period];
}

// The mean and the sum of the squared distances from it.
template <class T>
struct Spread {
  // runs(f) calls f(x, rows) for the chunk's `count` rows.
  template <class Runs>
  static void take(const Runs& runs, int64_t count, int64_t stride, const Columns& to) {
    std::fill_n(to.first, to.width, 0.0);
    runs([&](const T* x, int64_t rows) {
      reduce_any_rows<WideSum<T>>(x, rows, stride, to.width, to.first);
    });
    double means[block_width];
    for (int64_t c = 0; c < to.width; ++c) means[c] = to.first[c] /= double(count);
    if (stride == to.width) repeat_columns(means, to.width, wide_width);
    std::fill_n(to.second, to.width, 0.0);
    runs([&](const T* x, int64_t rows) {
      reduce_any_rows(x, rows, stride, to.width, to.second, DeviationSum<T>(means));
    });
  }
  // Moves what `count` rows gave to what `others` more gave.
  static void merge(const Columns& to, int64_t count, const Columns& from, int64_t others) {
    const double share = double(others) / double(count + others);
    for (int64_t c = 0; c < to.width; ++c) {
      const double step = from.first[c] - to.first[c];
      to.first[c] += step * share;
      to.second[c] += from.second[c] + step * step * share * double(count);
    }
  }
  static double finish(double /*mean*/, double squares, double divisor) {
    return squares / divisor;
  }
};

// The largest element, and the sum of exp(x - pivot), which says nothing where that is infinite.
template <class T>
struct ExpSum {
  template <class Runs>
  static void take(const Runs& runs, int64_t count, int64_t stride, const Columns& to) {
    if (to.width == 1 && stride == 1) return take_row(runs, to);
    T pivots[block + block_width];
    std::fill_n(pivots, to.width, Max<T>::identity);
    runs([&](const T* x, int64_t rows) {
      reduce_any_rows<Max<T>>(x, rows, stride, to.width, pivots);
    });
    for (int64_t c = 0; c < to.width; ++c) {
      to.first[c] = double(pivots[c]);
      pivots[c] = T(pivot(to.first[c]));
    }
    // Dense rows are one piece of memory, otherwise each is.
    const bool dense = stride == to.width;
    const int64_t rows_at_once =
        std::max<int64_t>(1, dense ? std::min(count, block / to.width) : 1);
    repeat_columns(pivots, to.width, rows_at_once * to.width);
    std::fill_n(to.second, to.width, 0.0);
    runs([&](const T* x, int64_t rows) {
      T exps[block];
      for (int64_t row = 0; row < rows; row += rows_at_once) {
        const int64_t now = std::min(rows_at_once, rows - row), n = now * to.width;
        const T* const from = x + row * stride;
        map_run(
            n, exps, [](T v, T pivot) { return exp_down(v - pivot); }, from, pivots);
        reduce_any_rows<Sum<T>>(exps, now, to.width, to.width, to.second);
      }
    });
  }
  static void merge(const Columns& to, int64_t, const Columns& from, int64_t) {
    for (int64_t c = 0; c < to.width; ++c) {
      const double largest = larger(to.first[c], from.first[c]);
      to.second[c] =
          moved(to.second[c], to.first[c], largest) + moved(from.second[c], from.first[c], largest);
      to.first[c] = largest;
    }
  }
  static double finish(double largest, double sum, double) {
    return std::isfinite(largest) ? std::log(sum) + largest : largest;
  }

 private:
  static constexpr int64_t block = 1024;
  static_assert(block >= block_width);

  // The same for one column of neighbours, whose maximum is one number.
  template <class Runs>
  static void take_row(const Runs& runs, const Columns& to) {
    T largest = Max<T>::identity;
    runs([&](const T* x, int64_t n) { largest = larger(largest, reduce_row<Max<T>>(x, n)); });
    to.first[0] = double(largest);
    to.second[0] = 0;
    runs([&, pivot = T(pivot(to.first[0]))](const T* x, int64_t n) {
      T exps[block];
      for (int64_t i = 0; i < n; i += block) {
        const int64_t now = std::min(block, n - i);
        map_row(
            now, exps, [=](T v) { return exp_down(v - pivot); }, x + i);
        to.second[0] += reduce_row<Sum<T>>(exps, now);
      }
    });
  }

  // What is taken off: an infinite or missing maximum is of no use.
  static double pivot(double largest) { return std::isfinite(largest) ? largest : 0; }
  static double moved(double sum, double from, double to) {
    return sum == 0 ? 0 : sum * std::exp(pivot(from) - pivot(to));
  }
};

template <class Method, class T>
void reduce_in_two(const kernels::Reduce& call) {
  const ReducePlan plan(call);
  const int64_t chunks = plan.chunks(), outputs = plan.outputs(), pitch = plan.pitch();
  const int64_t count = plan.rows.total(), stride = plan.rows.inner_strides()[0];
  const double divisor = kernels::var_divisor(count, call.correction);
  T *const y = call.y.as<T>(), *const mean = call.mean.defined() ? call.mean.as<T>() : nullptr;
  const auto take = [&](int64_t output, int64_t chunk, const Columns& to) {
    const auto runs = [&](auto f) {
      plan.for_chunk(output, chunk,
                     [&](int64_t at, int64_t rows) { f(call.x.as<T>() + at, rows); });
    };
    Method::take(runs, plan.first_row(chunk + 1) - plan.first_row(chunk), stride, to);
  };
  const auto write = [&](int64_t output, const Columns& from) {
    const int64_t place = plan.place(output);
    for (int64_t c = 0; c < from.width; ++c) {
      y[place + c] = T(Method::finish(from.first[c], from.second[c], divisor));
      if (mean) mean[place + c] = T(from.first[c]);
    }
  };
  if (chunks == 1) {
    parallel_for(outputs, items_per_chunk(math_grain, count * pitch),
                 [&](int64_t begin, int64_t end) {
                   double first[block_width], second[block_width];
                   for (int64_t output = begin; output < end; ++output) {
                     const Columns to{first, second, plan.columns(output)};
                     take(output, 0, to);
                     write(output, to);
                   }
                 });
    return;
  }
  const Workspace<double> workspace(outputs * chunks * 2 * pitch);
  const auto part = [&](int64_t output, int64_t chunk) {
    double* const at = workspace.data() + (output * chunks + chunk) * 2 * pitch;
    return Columns{at, at + pitch, plan.columns(output)};
  };
  parallel_for(outputs * chunks, 1, [&](int64_t begin, int64_t end) {
    for (int64_t task = begin; task < end; ++task) {
      take(task / chunks, task % chunks, part(task / chunks, task % chunks));
    }
  });
  parallel_for(
      outputs, items_per_chunk(memory_grain, chunks * pitch), [&](int64_t begin, int64_t end) {
        for (int64_t output = begin; output < end; ++output) {
          const Columns to = part(output, 0);
          for (int64_t chunk = 1; chunk < chunks; ++chunk) {
            const int64_t before = plan.first_row(chunk);
            Method::merge(to, before, part(output, chunk), plan.first_row(chunk + 1) - before);
          }
          write(output, to);
        }
      });
}

}  // namespace adret::cpu
