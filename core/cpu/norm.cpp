// Batch normalisation, channels last: rows (..., C), all loops along the channels.
#include <adret/core/cpu/channel_sums.h>
#include <adret/core/cpu/dispatch.h>
#include <adret/core/cpu/grain.h>
#include <adret/core/cpu/kernels.h>
#include <adret/core/cpu/workspace.h>
#include <adret/core/thread_pool.h>
#include <adret/core/vector_math.h>

#include <algorithm>
#include <cmath>

namespace adret::cpu {
namespace {

constexpr int64_t chunk_elements = 32768;

// x seen as a matrix, and how its rows are cut into chunks.
struct Rows {
  int64_t count, channels;

  explicit Rows(const TensorView& x)
      : count(x.numel() / std::max<int64_t>(1, x.shape[-1])), channels(x.shape[-1]) {}
  int64_t per_chunk(int64_t elements) const { return items_per_chunk(elements, channels); }
};

// Mean and sum of squared deviations of one chunk. Values are taken relative to the first row, then
// to the mean, so that a large mean costs no precision.
template <class T>
void chunk_moments(const T* x, int64_t first, int64_t last, int64_t channels, double* mean,
                   double* squares, T* pivot) {
  std::copy_n(x + first * channels, channels, pivot);
  const MatrixBlock rows{first, last, channels, channels};
  channel_sums<T>(rows, mean, [=](int64_t i, int64_t c) { return x[i] - pivot[c]; });
  for (int64_t c = 0; c < channels; ++c) {
    mean[c] = double(pivot[c]) + mean[c] / double(last - first);
    pivot[c] = T(mean[c]);
  }
  channel_sums<T>(rows, squares, [=](int64_t i, int64_t c) {
    const T deviation = x[i] - pivot[c];
    return deviation * deviation;
  });
  // About the rounded mean; moved to the mean itself (Steiner).
  for (int64_t c = 0; c < channels; ++c) {
    const double rounding = mean[c] - double(pivot[c]);
    squares[c] =
        std::max(squares[c] - double(last - first) * rounding * rounding, 0.0);  // NaN stays
  }
}

// mean and squares (C) of all rows: the chunks' combined in order (Chan, Golub and LeVeque 1983).
template <class T>
void moments(const T* x, const Rows& rows, double* mean, double* squares) {
  const int64_t channels = rows.channels, grain = rows.per_chunk(chunk_elements);
  const int64_t chunks = chunk_count(rows.count, grain);
  const Workspace<double> partials(chunks * channels * 2);
  const Workspace<T> pivots(chunks * channels);
  parallel_chunks(rows.count, grain, [&](int64_t chunk, int64_t begin, int64_t end) {
    double* part = partials.data() + chunk * channels * 2;
    chunk_moments(x, begin, end, channels, part, part + channels, pivots.data() + chunk * channels);
  });
  std::copy_n(partials.data(), channels, mean);
  std::copy_n(partials.data() + channels, channels, squares);
  for (int64_t chunk = 1; chunk < chunks; ++chunk) {
    const double* part = partials.data() + chunk * channels * 2;
    const double before = double(chunk * grain);
    const double added = double(std::min(grain, rows.count - chunk * grain));
    const double share = added / (before + added);
    for (int64_t c = 0; c < channels; ++c) {
      const double difference = part[c] - mean[c];
      mean[c] += difference * share;
      squares[c] += part[channels + c] + difference * difference * before * share;
    }
  }
}

template <class T>
T relu(T value) {
  return value <= 0 ? T(0) : value;  // keeps NaN
}

// The gradient behind a relu of `value`. Taken by value, so that both are loaded and the loop can
// be vectorised.
template <class T>
T pass(T value, T gradient) {
  return value <= 0 ? T(0) : gradient;
}

// (x - mean) * scale + shift, per channel.
template <class T>
struct Affine {
  const T *mean, *scale, *shift;
  T operator()(T x, int64_t c) const { return multiply_add(x - mean[c], scale[c], shift[c]); }
};

// y = finish(affine(x), element).
template <class T, class F>
void map_channels(const T* x, T* y, const Rows& rows, const Affine<T>& affine, F finish) {
  const int64_t channels = rows.channels;
  parallel_for(rows.count, rows.per_chunk(memory_grain), [=](int64_t begin, int64_t end) {
    for (int64_t row = begin; row < end; ++row) {
      const int64_t at = row * channels;
#pragma GCC ivdep
      for (int64_t c = 0; c < channels; ++c) y[at + c] = finish(affine(x[at + c], c), at + c);
    }
  });
}

// call.y, of a forward kernel.
template <class T, class Call>
void normalise(const Call& call, const Rows& rows, const Affine<T>& affine) {
  const auto map = [&](auto finish) {
    map_channels(call.x.template as<T>(), call.y.template as<T>(), rows, affine, finish);
  };
  const bool activate = call.activation == kernels::Activation::relu;
  const T* added = call.residual.template as<T>();
  if (call.residual.defined()) {
    if (activate) return map([=](T value, int64_t i) { return relu(value + added[i]); });
    return map([=](T value, int64_t i) { return value + added[i]; });
  }
  if (activate) return map([](T value, int64_t) { return relu(value); });
  map([](T value, int64_t) { return value; });
}

template <class T>
T value_or(const TensorView& view, int64_t at, T otherwise) {
  return view.defined() ? view.as<T>()[at] : otherwise;
}

// running = (1 - momentum) * running + momentum * value
template <class T>
void update(const TensorView& running, int64_t at, double momentum, double value) {
  if (!running.defined()) return;
  T& old = running.as<T>()[at];
  old = T((1 - momentum) * double(old) + momentum * value);
}

template <class T>
void forward(const kernels::BatchNormForward& call) {
  const Rows rows(call.x);
  const int64_t channels = rows.channels;
  const Workspace<double> statistics(channels * 2);
  double *mean = statistics.data(), *squares = mean + channels;
  if (rows.count == 0) {
    std::fill_n(mean, channels * 2, 0.0);
  } else {
    moments(call.x.as<T>(), rows, mean, squares);
  }
  const Workspace<T> coefficients(channels * 2);
  T *scale = coefficients.data(), *shift = scale + channels;
  T *saved_mean = call.mean.as<T>(), *rstd = call.rstd.as<T>();
  const double n = double(rows.count);
  if (call.num_batches.defined()) ++*call.num_batches.as<int64_t>();
  for (int64_t c = 0; c < channels; ++c) {
    const double variance = squares[c] / std::max(1.0, n);
    const double reciprocal = 1 / std::sqrt(variance + call.epsilon);
    saved_mean[c] = T(mean[c]);
    rstd[c] = T(reciprocal);
    scale[c] = T(reciprocal * double(value_or<T>(call.weight, c, 1)));
    // What rounding the mean lost goes into the shift.
    const double lost = mean[c] - double(saved_mean[c]);
    shift[c] = T(double(value_or<T>(call.bias, c, 0)) - lost * double(scale[c]));
    if (rows.count == 0) continue;
    update<T>(call.running_mean, c, call.momentum, mean[c]);
    update<T>(call.running_var, c, call.momentum, squares[c] / std::max(1.0, n - 1));
  }
  normalise<T>(call, rows, {saved_mean, scale, shift});
}

template <class T>
void inference(const kernels::BatchNormInference& call) {
  const Rows rows(call.x);
  const Workspace<T> coefficients(rows.channels * 2);
  T *scale = coefficients.data(), *shift = scale + rows.channels;
  const T* var = call.var.as<T>();
  for (int64_t c = 0; c < rows.channels; ++c) {
    const double rstd = 1 / std::sqrt(double(var[c]) + call.epsilon);
    scale[c] = T(rstd * double(value_or<T>(call.weight, c, 1)));
    shift[c] = value_or<T>(call.bias, c, 0);
  }
  normalise<T>(call, rows, {call.mean.as<T>(), scale, shift});
}

// sums (C) of the gradient, and products (C) of it and the normalised x; gradient(i, c) is that
// of element i, behind the activation. It is kept as dresidual, if that is defined.
template <class T, class F>
void gradient_sums(const kernels::BatchNormBackward& call, const Rows& rows, F gradient,
                   double* sums, double* products) {
  const int64_t channels = rows.channels, grain = rows.per_chunk(chunk_elements);
  const int64_t chunks = chunk_count(rows.count, grain);
  const T* x = call.x.as<T>();
  const T *mean = call.mean.as<T>(), *rstd = call.rstd.as<T>();
  T* kept = call.dresidual.as<T>();
  const Workspace<double> partials(chunks * channels * 2);
  parallel_chunks(rows.count, grain, [&](int64_t chunk, int64_t begin, int64_t end) {
    double* part = partials.data() + chunk * channels * 2;
    if (kept) {
      for (int64_t row = begin; row < end; ++row) {
        const int64_t at = row * channels;
#pragma GCC ivdep
        for (int64_t c = 0; c < channels; ++c) kept[at + c] = gradient(at + c, c);
      }
    }
    const MatrixBlock block{begin, end, channels, channels};
    channel_sums<T>(block, part, gradient);
    channel_sums<T>(block, part + channels,
                    [=](int64_t i, int64_t c) { return gradient(i, c) * (x[i] - mean[c]); });
  });
  std::fill_n(sums, channels, 0.0);
  std::fill_n(products, channels, 0.0);
  for (int64_t chunk = 0; chunk < chunks; ++chunk) {
    const double* part = partials.data() + chunk * channels * 2;
    for (int64_t c = 0; c < channels; ++c) {
      sums[c] += part[c];
      products[c] += part[channels + c];
    }
  }
  for (int64_t c = 0; c < channels; ++c) products[c] *= double(rstd[c]);
}

// dx = weight * rstd * (dy - mean(dy) - normalised x * mean(dy * normalised x)) (Ioffe and Szegedy
// 2015, section 3), dy behind the activation.
template <class T, class F>
void backward(const kernels::BatchNormBackward& call, const Rows& rows, F gradient) {
  const int64_t channels = rows.channels;
  const Workspace<double> statistics(channels * 2);
  double *sums = statistics.data(), *products = sums + channels;
  gradient_sums<T>(call, rows, gradient, sums, products);
  if (call.dbias.defined()) std::copy_n(sums, channels, call.dbias.as<T>());
  if (call.dweight.defined()) std::copy_n(products, channels, call.dweight.as<T>());
  if (!call.dx.defined() || rows.count == 0) return;

  const Workspace<T> coefficients(channels * 3);
  T *scale = coefficients.data(), *offset = scale + channels, *slope = offset + channels;
  const T *mean = call.mean.as<T>(), *rstd = call.rstd.as<T>();
  for (int64_t c = 0; c < channels; ++c) {
    scale[c] = rstd[c] * value_or<T>(call.weight, c, 1);
    offset[c] = T(sums[c] / double(rows.count));
    slope[c] = T(products[c] / double(rows.count) * double(rstd[c]));
  }
  const T* x = call.x.as<T>();
  T* dx = call.dx.as<T>();
  parallel_for(rows.count, rows.per_chunk(memory_grain), [=](int64_t begin, int64_t end) {
    for (int64_t row = begin; row < end; ++row) {
      const int64_t at = row * channels;
#pragma GCC ivdep
      for (int64_t c = 0; c < channels; ++c) {
        const T centred = gradient(at + c, c) - offset[c];
        dx[at + c] = scale[c] * multiply_add(mean[c] - x[at + c], slope[c], centred);
      }
    }
  });
}

template <class T>
void backward(const kernels::BatchNormBackward& call) {
  const Rows rows(call.x);
  const T *x = call.x.as<T>(), *y = call.y.as<T>(), *dy = call.dy.as<T>();
  if (call.activation != kernels::Activation::relu) {
    return backward<T>(call, rows, [=](int64_t i, int64_t) { return dy[i]; });
  }
  if (const T* added = call.dy_added.as<T>()) {
    return backward<T>(call, rows,
                       [=](int64_t i, int64_t) { return pass(y[i], dy[i] + added[i]); });
  }
  if (call.y.defined()) {
    return backward<T>(call, rows, [=](int64_t i, int64_t) { return pass(y[i], dy[i]); });
  }
  const Workspace<T> coefficients(rows.channels * 2);
  T *scale = coefficients.data(), *shift = scale + rows.channels;
  for (int64_t c = 0; c < rows.channels; ++c) {
    scale[c] = call.rstd.as<T>()[c] * value_or<T>(call.weight, c, 1);
    shift[c] = value_or<T>(call.bias, c, 0);
  }
  const Affine<T> affine{call.mean.as<T>(), scale, shift};
  backward<T>(call, rows, [=](int64_t i, int64_t c) { return pass(affine(x[i], c), dy[i]); });
}

}  // namespace

void run(const kernels::BatchNormForward& call) {
  dispatch_float(call.x.dtype, call.name, [&](auto zero) { forward<decltype(zero)>(call); });
}

void run(const kernels::BatchNormInference& call) {
  dispatch_float(call.x.dtype, call.name, [&](auto zero) { inference<decltype(zero)>(call); });
}

void run(const kernels::BatchNormBackward& call) {
  dispatch_float(call.x.dtype, call.name, [&](auto zero) { backward<decltype(zero)>(call); });
}

}  // namespace adret::cpu
