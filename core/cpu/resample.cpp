// Images in other sizes: sums of rows, and of the columns of these, with weights from tables.
#include <adret/core/cpu/dispatch.h>
#include <adret/core/cpu/grain.h>
#include <adret/core/cpu/kernels.h>
#include <adret/core/cpu/vector.h>
#include <adret/core/cpu/workspace.h>
#include <adret/core/kernels/resample_plan.h>
#include <adret/core/thread_pool.h>

#include <algorithm>

namespace adret::cpu {
namespace {

using namespace kernels;

class Divisor {
 public:
  using Index = int64_t;
  explicit Divisor(int64_t divisor) : divisor_(divisor) {}
  int64_t divisor() const { return divisor_; }
  int64_t quotient(int64_t dividend) const { return dividend / divisor_; }

 private:
  int64_t divisor_;
};

// What a place is the sum of: `count` neighbours from `first` on.
template <class T>
struct Taps {
  int64_t first, count;
  const T* weights;
};

enum class Way { forward, backward };

// The taps of every place along one direction of y, or of dx.
template <class T>
class TapTable {
 public:
  TapTable(Way way, const ResampleParams& params, int64_t x_size, int64_t y_size)
      : line_(params, x_size, y_size),
        way_(way),
        places_(way == Way::forward ? y_size : x_size),
        taps_(places_),
        weights_(count_weights()) {
    T* weight = weights_.data();
    for (int64_t place = 0; place < places_; ++place) {
      const auto [begin, end] = run(place);
      taps_.data()[place] = {begin, end - begin, weight};
      for (int64_t other = begin; other < end; ++other) {
        *weight++ = way_ == Way::forward ? line_.weight(place, other) : line_.weight(other, place);
      }
    }
  }

  const Taps<T>& operator[](int64_t place) const { return taps_.data()[place]; }

 private:
  ResampleRun<int64_t> run(int64_t place) const {
    return way_ == Way::forward ? line_.sources(place) : line_.targets(place);
  }
  int64_t count_weights() const {
    int64_t count = 0;
    for (int64_t place = 0; place < places_; ++place) count += run(place).count();
    return count;
  }

  const ResampleLine<T, Divisor> line_;
  const Way way_;
  const int64_t places_;
  const Workspace<Taps<T>> taps_;
  const Workspace<T> weights_;
};

// to[i] = the sum over k of weights[k] * from[i + k * stride], for i < n; and for the vector's
// other lanes if `spills`. `count` is known to the compiler, or 0.
template <int count, class T>
void sum_taps(const Taps<T>& taps, const T* from, int64_t stride, T* to, int64_t n, bool spills) {
  const auto sum = [&](int64_t i, auto load_vector) {
    Vector<T> result = taps.weights[0] * load_vector(from + i);
    const int64_t end = count > 0 ? count : taps.count;
    for (int64_t k = 1; k < end; ++k) {
      result += taps.weights[k] * load_vector(from + i + k * stride);
    }
    return result;
  };
  int64_t i = 0;
  for (; i + (spills ? 1 : lanes<T>) <= n; i += lanes<T>) {
    store(to + i, sum(i, [](const T* at) { return load(at); }));
  }
  if (i >= n) return;
  store_first(to + i, sum(i, [&](const T* at) { return load_first(at, n - i); }), n - i);
}

template <class T>
void sum_taps(const Taps<T>& taps, const T* from, int64_t stride, T* to, int64_t n, bool spills) {
  switch (taps.count) {
    case 0: std::fill_n(to, n, T(0)); return;
    case 1: return sum_taps<1>(taps, from, stride, to, n, spills);
    case 2: return sum_taps<2>(taps, from, stride, to, n, spills);
    case 3: return sum_taps<3>(taps, from, stride, to, n, spills);
    case 4: return sum_taps<4>(taps, from, stride, to, n, spills);
    default: return sum_taps<0>(taps, from, stride, to, n, spills);
  }
}

// Rows of `to`, each from a sum of whole rows of `from`.
template <class T>
struct Resampler {
  const T* from;
  T* to;
  const Shape &from_shape, &to_shape;
  const TapTable<T>&rows, &columns;

  void run(int64_t begin, int64_t end) const {
    const int64_t channels = to_shape[3], h = to_shape[1], w = to_shape[2];
    const int64_t from_row = from_shape[2] * channels, from_image = from_shape[1] * from_row;
    const Workspace<T> sums(from_row + lanes<T>);
    std::fill_n(sums.data() + from_row, lanes<T>, T(0));
    // Lanes behind the last channel are overwritten by the next pixel, if this thread writes it.
    const T* const last = to + end * w * channels - lanes<T>;
    for (int64_t row = begin; row < end; ++row) {
      const Taps<T>& taps = rows[row % h];
      const T* line = from + row / h * from_image + taps.first * from_row;
      const bool is_copy = taps.count == 1 && taps.weights[0] == T(1);
      if (!is_copy || channels % lanes<T> != 0) {
        sum_taps(taps, line, from_row, sums.data(), from_row, false);
        line = sums.data();
      }
      T* pixel = to + row * w * channels;
      for (int64_t column = 0; column < w; ++column, pixel += channels) {
        const Taps<T>& of_pixel = columns[column];
        sum_taps(of_pixel, line + of_pixel.first * channels, channels, pixel, channels,
                 channels < lanes<T> && pixel <= last);
      }
    }
  }
};

template <class T>
void resample(const TensorView& from, const TensorView& to, const TapTable<T>& rows,
              const TapTable<T>& columns) {
  const Resampler<T> work{from.as<T>(), to.as<T>(), from.shape, to.shape, rows, columns};
  const int64_t row = std::max(from.shape[2], to.shape[2]) * to.shape[3];
  parallel_for(to.shape[0] * to.shape[1], items_per_chunk(4 * memory_grain, row),
               [&](int64_t begin, int64_t end) { work.run(begin, end); });
}

void resample(Way way, const ResampleParams& params, const TensorView& from, const TensorView& to) {
  if (to.numel() == 0) return;
  const Shape &x = (way == Way::forward ? from : to).shape,
              &y = (way == Way::forward ? to : from).shape;
  dispatch_float(from.dtype, "resample", [&](auto zero) {
    using T = decltype(zero);
    const TapTable<T> rows(way, params, x[1], y[1]), columns(way, params, x[2], y[2]);
    resample(from, to, rows, columns);
  });
}

}  // namespace

void run(const kernels::ResampleForward& call) {
  resample(Way::forward, call.resample, call.x, call.y);
}

void run(const kernels::ResampleBackward& call) {
  resample(Way::backward, call.resample, call.dy, call.dx);
}

}  // namespace adret::cpu
