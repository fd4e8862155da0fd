// Normalisation of each sample by itself, over its places and the channels of a group.
#include <adret/core/cpu/channel_sums.h>
#include <adret/core/cpu/dispatch.h>
#include <adret/core/cpu/grain.h>
#include <adret/core/cpu/kernels.h>
#include <adret/core/cpu/vector.h>
#include <adret/core/cpu/workspace.h>
#include <adret/core/thread_pool.h>
#include <adret/core/vector_math.h>

#include <algorithm>
#include <array>
#include <cmath>

namespace adret::cpu {
namespace {

// x (N, S, C). A sample of one place is rows, one a group; of several it is taken some channels at
// a time, whose sums over the places come first and those of their groups after.
struct Layout {
  int64_t samples, places, channels, groups, width;  // width: channels of a group

  Layout(const TensorView& x, int64_t groups)
      : samples(x.shape[0]),
        places(x.shape[1]),
        channels(x.shape[2]),
        groups(groups),
        width(x.shape[2] / groups) {}
  int64_t sample_elements() const { return places * channels; }
  double group_elements() const { return double(places) * double(width); }
  // Groups that are taken together.
  int64_t groups_at_once() const {
    return places == 1 ? groups : std::clamp<int64_t>(64 / width, 1, groups);
  }
};

// f(place, count) for the elements of a row, a vector or less at a time; sums of what it adds are
// kept in T for 16 vectors, from there on in f64.
template <class T, size_t N, class F>
std::array<double, N> row_sums(int64_t n, F f) {
  constexpr int64_t piece = 16 * lanes<T>;
  std::array<double, N> totals{};
  for (int64_t first = 0; first < n; first += piece) {
    Vector<T> recent[N] = {};
    each_vector<T>(std::min(piece, n - first),
                   [&](int64_t i, int64_t count) { f(first + i, count, recent); });
    for (size_t k = 0; k < N; ++k) {
      double parts[lanes<T>];
      for (int i = 0; i < lanes<T>; ++i) parts[i] = double(recent[k][i]);
      for (int half = lanes<T> / 2; half > 0; half /= 2) {
        for (int i = 0; i < half; ++i) parts[i] += parts[i + half];
      }
      totals[k] += parts[0];
    }
  }
  return totals;
}

// Those of the first `count` lanes.
template <class T>
Vector<T> only_first(Vector<T> v, int64_t count) {
  return count == lanes<T> ? v : lane_numbers<T>() < T(count) ? v : Vector<T>{};
}

// -- forward -------------------------------------------------------------------------------------

template <class T>
struct Forward {
  const T *x, *added, *weight, *bias;
  T *sum, *y, *mean, *rstd;
  double epsilon;
  bool centered;

  explicit Forward(const kernels::GroupNormForward& call)
      : x(call.x.as<T>()),
        added(call.added.as<T>()),
        weight(call.weight.as<T>()),
        bias(call.bias.as<T>()),
        sum(call.sum.as<T>()),
        y(call.y.as<T>()),
        mean(call.mean.as<T>()),
        rstd(call.rstd.as<T>()),
        epsilon(call.epsilon),
        centered(call.centered) {}
};

// `centre` is the mean rounded, `lost` what that took off.
template <class T>
struct Statistics {
  T centre, lost, rstd;

  Statistics(double mean, T centre, double variance, double epsilon)
      : centre(centre),
        lost(T(mean - double(centre))),
        rstd(T(1 / std::sqrt(std::max(variance, 0.0) + epsilon))) {}  // NaN stays

  void keep(const Forward<T>& call, int64_t group) const {
    if (call.mean) call.mean[group] = centre;
    if (call.rstd) call.rstd[group] = rstd;
  }
};

// What is normalised of some rows: x, or its sum with what is added, which is kept meanwhile.
template <class T>
const T* summed(const Forward<T>& call, int64_t at, int64_t rows, int64_t stride, int64_t width) {
  T* const to = call.sum ? call.sum : call.added ? call.y : nullptr;
  if (!to) return call.x + at;
  for (int64_t row = 0; row < rows; ++row, at += stride) {
#pragma GCC ivdep
    for (int64_t c = at; c < at + width; ++c)
      to[c] = call.added ? call.x[c] + call.added[c] : call.x[c];
  }
  return to + at - rows * stride;
}

// Moments about a first value and then about the mean, so that a large mean costs no precision.
template <class T>
Statistics<T> row_statistics(const T* s, int64_t n, const Forward<T>& call) {
  double mean = 0;
  if (call.centered) {
    const T pivot = s[0];
    const auto sums = row_sums<T, 1>(n, [=](int64_t i, int64_t count, Vector<T>* sum) {
      sum[0] += only_first<T>(load_some(s + i, count) - pivot, count);
    });
    mean = double(pivot) + sums[0] / double(n);
  }
  const T centre = T(mean);
  const auto squares = row_sums<T, 1>(n, [=](int64_t i, int64_t count, Vector<T>* sum) {
    const Vector<T> deviation = only_first<T>(load_some(s + i, count) - centre, count);
    sum[0] += deviation * deviation;
  });
  const double rounding = mean - double(centre);
  return {mean, centre, squares[0] / double(n) - rounding * rounding, call.epsilon};
}

template <class T>
void forward_rows(const Forward<T>& call, const Layout& layout, int64_t sample) {
  const int64_t width = layout.width;
  for (int64_t group = 0; group < layout.groups; ++group) {
    const int64_t at = sample * layout.channels + group * width;
    const T* const s = summed(call, at, 1, width, width);
    const Statistics<T> row = row_statistics(s, width, call);
    row.keep(call, sample * layout.groups + group);
    const T* const weight = call.weight ? call.weight + group * width : nullptr;
    const T* const bias = call.bias ? call.bias + group * width : nullptr;
    T* const y = call.y + at;
    each_vector<T>(width, [=](int64_t c, int64_t count) {
      Vector<T> value = (load_some(s + c, count) - row.centre - row.lost) * row.rstd;
      if (weight) value *= load_some(weight + c, count);
      if (bias) value += load_some(bias + c, count);
      store_some(y + c, value, count);
    });
  }
}

// The groups first..last-1 of a sample of several places.
template <class T>
void forward_places(const Forward<T>& call, const Layout& layout, int64_t sample, int64_t first,
                    int64_t last) {
  const int64_t width = layout.width, all = (last - first) * width;
  const int64_t at = sample * layout.sample_elements() + first * width;
  const T* const s = summed(call, at, layout.places, layout.channels, all);
  const Workspace<double> sums(2 * all);
  const Workspace<T> coefficients(3 * all);
  double *means = sums.data(), *squares = means + all;
  T *centre = coefficients.data(), *scale = centre + all, *shift = scale + all;
  const MatrixBlock block{0, layout.places, layout.channels, all};
  const auto group_total = [&](const double* of, int64_t group) {
    double total = 0;
    for (int64_t c = 0; c < width; ++c) total += of[group * width + c];
    return total / layout.group_elements();
  };

  std::fill_n(means, last - first, 0.0);
  if (call.centered) {
    for (int64_t c = 0; c < all; ++c) centre[c] = s[c / width * width];
    channel_sums<T>(block, squares, [=](int64_t i, int64_t c) { return s[i] - centre[c]; });
    for (int64_t g = 0; g < last - first; ++g) {
      means[g] = double(centre[g * width]) + group_total(squares, g);
    }
  }
  for (int64_t c = 0; c < all; ++c) centre[c] = T(means[c / width]);
  channel_sums<T>(block, squares, [=](int64_t i, int64_t c) {
    const T deviation = s[i] - centre[c];
    return deviation * deviation;
  });
  for (int64_t g = 0; g < last - first; ++g) {
    const double rounding = means[g] - double(centre[g * width]);
    const Statistics<T> group(means[g], centre[g * width],
                              group_total(squares, g) - rounding * rounding, call.epsilon);
    group.keep(call, sample * layout.groups + first + g);
    for (int64_t c = g * width; c < (g + 1) * width; ++c) {
      const int64_t channel = first * width + c;
      scale[c] = group.rstd * (call.weight ? call.weight[channel] : T(1));
      shift[c] = (call.bias ? call.bias[channel] : T(0)) - group.lost * scale[c];
    }
  }
  for (int64_t place = 0; place < layout.places; ++place) {
    const T* const from = s + place * layout.channels;
    T* const y = call.y + at + place * layout.channels;
#pragma GCC ivdep
    for (int64_t c = 0; c < all; ++c) y[c] = multiply_add(from[c] - centre[c], scale[c], shift[c]);
  }
}

template <class T>
void forward(const kernels::GroupNormForward& call) {
  const Layout layout(call.x, call.groups);
  const Forward<T> f(call);
  if (layout.places == 1) {
    parallel_for(layout.samples, items_per_chunk(math_grain, layout.channels),
                 [&](int64_t begin, int64_t end) {
                   for (int64_t i = begin; i < end; ++i) forward_rows(f, layout, i);
                 });
    return;
  }
  const int64_t at_once = layout.groups_at_once(), parts = chunk_count(layout.groups, at_once);
  const int64_t elements = layout.places * at_once * layout.width;
  parallel_for(layout.samples * parts, items_per_chunk(math_grain, elements),
               [&](int64_t begin, int64_t end) {
                 for (int64_t i = begin; i < end; ++i) {
                   const int64_t first = i % parts * at_once;
                   forward_places(f, layout, i / parts, first,
                                  std::min(layout.groups, first + at_once));
                 }
               });
}

// -- backward ------------------------------------------------------------------------------------

template <class T>
struct Backward {
  const T *x, *dy, *dsum, *weight, *mean, *rstd;
  T* dx;
  bool centered;

  explicit Backward(const kernels::GroupNormBackward& call)
      : x(call.x.as<T>()),
        dy(call.dy.as<T>()),
        dsum(call.dsum.as<T>()),
        weight(call.weight.as<T>()),
        mean(call.mean.as<T>()),
        rstd(call.rstd.as<T>()),
        dx(call.dx.as<T>()),
        centered(call.centered) {}
  T centre(int64_t group) const { return centered ? mean[group] : T(0); }
};

// Sums of the parameters' gradients, by channel: in T for a few rows, from there on in f64.
template <class T>
class ParameterSums {
 public:
  ParameterSums(double* weight, double* bias, int64_t channels)
      : weight(weight), bias(bias), channels_(channels), recent_(2 * channels) {
    std::fill_n(weight, channels, 0.0);
    std::fill_n(bias, channels, 0.0);
    std::fill_n(recent_.data(), 2 * channels, T(0));
  }
  T* recent_weight() const { return recent_.data(); }
  T* recent_bias() const { return recent_.data() + channels_; }
  void end_row(bool last) {
    if (++rows_ % 16 != 0 && !last) return;
    for (int64_t c = 0; c < channels_; ++c) {
      weight[c] += double(recent_weight()[c]);
      bias[c] += double(recent_bias()[c]);
    }
    std::fill_n(recent_.data(), 2 * channels_, T(0));
  }

  double *const weight, *const bias;

 private:
  int64_t channels_, rows_ = 0;
  Workspace<T> recent_;
};

// With g = dy * weight and centred x, dx = rstd * (g - offset - x * slope): offset is the mean of
// g, slope that of g * x times rstd^2 (Ba et al. 2016).
template <class T>
void backward_rows(const Backward<T>& call, const Layout& layout, int64_t sample,
                   const ParameterSums<T>& sums) {
  const int64_t width = layout.width;
  for (int64_t group = 0; group < layout.groups; ++group) {
    const int64_t channel = group * width, at = sample * layout.channels + channel;
    const T centre = call.centre(sample * layout.groups + group);
    const T rstd = call.rstd[sample * layout.groups + group];
    const T *x = call.x + at, *dy = call.dy + at;
    const T* const weight = call.weight ? call.weight + channel : nullptr;
    T *dweight = sums.recent_weight() + channel, *dbias = sums.recent_bias() + channel;
    // Sums first, of g and g * x among them, while x and dy come to the L1 cache.
    const auto g = [=](int64_t c, int64_t count) {
      const Vector<T> gradient = load_some(dy + c, count);
      return weight ? gradient * load_some(weight + c, count) : gradient;
    };
    const auto totals = row_sums<T, 2>(width, [=](int64_t c, int64_t count, Vector<T>* sum) {
      const Vector<T> gradient = load_some(dy + c, count), own = g(c, count);
      const Vector<T> centred = load_some(x + c, count) - centre;
      sum[0] += own;
      sum[1] += only_first<T>(own * centred, count);
      store_some(dweight + c, load_some(dweight + c, count) + gradient * (centred * rstd), count);
      store_some(dbias + c, load_some(dbias + c, count) + gradient, count);
    });
    if (!call.dx) continue;
    const T offset = call.centered ? T(totals[0] / double(width)) : T(0);
    const T slope = T(totals[1] / double(width) * double(rstd) * double(rstd));
    const T* const dsum = call.dsum ? call.dsum + at : nullptr;
    T* const dx = call.dx + at;
    each_vector<T>(width, [=](int64_t c, int64_t count) {
      const Vector<T> centred = load_some(x + c, count) - centre;
      Vector<T> value = rstd * (g(c, count) - offset - centred * slope);
      if (dsum) value += load_some(dsum + c, count);
      store_some(dx + c, value, count);
    });
  }
}

// Per channel of a sample of several places: dx = scale * dy - offset - centred x * slope.
template <class T>
struct Coefficients {
  T *centre, *scale, *offset, *slope;
};

template <class T>
void write_places(const Backward<T>& call, const Layout& layout, int64_t sample,
                  const Coefficients<T>& with) {
  const auto [centre, scale, offset, slope] = with;
  for (int64_t place = 0; place < layout.places; ++place) {
    const int64_t at = sample * layout.sample_elements() + place * layout.channels;
    const T *x = call.x + at, *dy = call.dy + at, *dsum = call.dsum ? call.dsum + at : nullptr;
    T* const dx = call.dx + at;
#pragma GCC ivdep
    for (int64_t c = 0; c < layout.channels; ++c) {
      const T value = scale[c] * dy[c] - offset[c] - (x[c] - centre[c]) * slope[c];
      dx[c] = dsum ? value + dsum[c] : value;
    }
  }
}

template <class T>
void backward_places(const Backward<T>& call, const Layout& layout, int64_t sample,
                     const ParameterSums<T>& sums) {
  const int64_t channels = layout.channels, width = layout.width;
  const Workspace<double> statistics(2 * channels);
  const Workspace<T> coefficients(4 * channels);
  double *gradients = statistics.data(), *products = gradients + channels;
  T* const first = coefficients.data();
  const Coefficients<T> with{first, first + channels, first + 2 * channels, first + 3 * channels};
  const T *x = call.x, *dy = call.dy, *centre = with.centre;
  for (int64_t c = 0; c < channels; ++c) {
    with.centre[c] = call.centre(sample * layout.groups + c / width);
  }
  const MatrixBlock block{sample * layout.places, (sample + 1) * layout.places, channels, channels};
  channel_sums<T>(block, gradients, [=](int64_t i, int64_t) { return dy[i]; });
  channel_sums<T>(block, products,
                  [=](int64_t i, int64_t c) { return dy[i] * (x[i] - centre[c]); });
  for (int64_t group = 0; group < layout.groups; ++group) {
    const double rstd = double(call.rstd[sample * layout.groups + group]);
    double total = 0, product = 0;
    for (int64_t c = group * width; c < (group + 1) * width; ++c) {
      const double weight = call.weight ? double(call.weight[c]) : 1.0;
      total += weight * gradients[c];
      product += weight * products[c];
      sums.bias[c] += gradients[c];
      sums.weight[c] += products[c] * rstd;
    }
    if (!call.centered) total = 0;
    for (int64_t c = group * width; c < (group + 1) * width; ++c) {
      with.scale[c] = T(rstd * (call.weight ? double(call.weight[c]) : 1.0));
      with.offset[c] = T(rstd * total / layout.group_elements());
      with.slope[c] = T(rstd * rstd * rstd * product / layout.group_elements());
    }
  }
  if (call.dx) write_places(call, layout, sample, with);
}

template <class T>
void backward(const kernels::GroupNormBackward& call) {
  const Layout layout(call.x, call.groups);
  const Backward<T> f(call);
  const int64_t channels = layout.channels;
  const int64_t grain = items_per_chunk(32768, layout.sample_elements());
  const int64_t chunks = chunk_count(layout.samples, grain);
  const Workspace<double> partials(2 * chunks * channels);
  parallel_chunks(layout.samples, grain, [&](int64_t chunk, int64_t begin, int64_t end) {
    double* const part = partials.data() + 2 * chunk * channels;
    ParameterSums<T> sums(part, part + channels, channels);
    for (int64_t i = begin; i < end; ++i) {
      if (layout.places == 1) {
        backward_rows(f, layout, i, sums);
        sums.end_row(i + 1 == end);
      } else {
        backward_places(f, layout, i, sums);
      }
    }
  });
  const auto add_up = [&](const TensorView& to, int64_t offset) {
    if (!to.defined()) return;
    for (int64_t c = 0; c < channels; ++c) {
      double total = 0;
      for (int64_t chunk = 0; chunk < chunks; ++chunk) {
        total += partials.data()[2 * chunk * channels + offset + c];
      }
      to.as<T>()[c] = T(total);
    }
  };
  add_up(call.dweight, 0);
  add_up(call.dbias, channels);
}

}  // namespace

void run(const kernels::GroupNormForward& call) {
  dispatch_float(call.x.dtype, call.name, [&](auto zero) {
    if (call.x.numel() > 0) forward<decltype(zero)>(call);
  });
}

void run(const kernels::GroupNormBackward& call) {
  dispatch_float(call.x.dtype, call.name, [&](auto zero) { backward<decltype(zero)>(call); });
}

}  // namespace adret::cpu
