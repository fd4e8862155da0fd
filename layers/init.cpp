// Fans, bounds and the draws for initial weights.
#include <adret/autograd/grad_mode.h>
#include <adret/autograd/ops/check.h>
#include <adret/autograd/ops/inplace.h>
#include <adret/core/error.h>
#include <adret/core/holds.h>
#include <adret/core/kernels/kernel.h>
#include <adret/core/random.h>
#include <adret/core/thread_pool.h>
#include <adret/layers/init.h>
#include <adret/layers/orthonormalize.h>
#include <fmt/core.h>

#include <algorithm>
#include <cmath>

namespace adret::init {
namespace {

constexpr double sqrt3 = std::numbers::sqrt3;  // bound of a uniform distribution over its deviation

// Of a fan: without inputs there are no weights that a bound were for.
double at_least_one(int64_t fan) { return double(std::max<int64_t>(1, fan)); }

double kaiming_std(const Tensor& weight, const KaimingOptions& options) {
  const Fans f = fans(weight.shape());
  return options.gain / std::sqrt(at_least_one(options.fan == FanMode::in ? f.in : f.out));
}

double xavier_std(const Tensor& weight, const XavierOptions& options) {
  const Fans f = fans(weight.shape());
  return options.gain * std::sqrt(2 / at_least_one(f.in + f.out));
}

void check_dimensions(const Tensor& weight, const char* function, int64_t least, int64_t most) {
  const int64_t rank = weight.rank();
  if (rank >= least && rank <= most) return;
  throw ShapeError(fmt::format(
      "[{}] a weight {} has {} dimension(s); it takes {}", function, to_string(weight.shape()),
      rank, least == most ? fmt::format("{}", least) : fmt::format("{} to {}", least, most)));
}

void check_normal(const char* function, const Tensor& x, double mean, double std) {
  check::floating(function, {"x", x});
  if (!std::isfinite(mean) || !std::isfinite(std) || std < 0) {
    throw Error(fmt::format("[{}] mean is {} and std {}; both must be finite, std not negative",
                            function, mean, std));
  }
  for (const double number : {mean, std}) check_holds(function, number, x.dtype());
}

// A tensor of the shape on the CPU in f64, for what is worked out there.
Tensor like_exact(const Tensor& x) { return Tensor::empty(x.shape(), {.dtype = DType::f64}); }

void write(const Tensor& x, const Tensor& exact) {
  const NoGrad no_grad;
  copy_(x, exact.to(x.dtype()));
}

// z of erfc(z) = q, for q in (0, 1]: Winitzki's approximation (2008), which is off by less than
// 0.01, and steps of Halley's method, which triple the digits.
double inverse_erfc(double q) {
  constexpr double a = 0.147;
  const double log = std::log(q * (2 - q)), half = 2 / (std::numbers::pi * a) + log / 2;
  double z = std::sqrt(std::max(0.0, std::sqrt(half * half - log / a) - half));
  for (int i = 0; i < 3; ++i) {
    const double slope = -2 * std::numbers::inv_sqrtpi * std::exp(-z * z);
    const double step = (std::erfc(z) - q) / slope;
    z -= step / (1 + z * step);
  }
  return z;
}

double normal_cdf(double x) { return std::erfc(-x / std::numbers::sqrt2) / 2; }
double normal_quantile(double p) {
  if (p > 0.5) return -normal_quantile(1 - p);
  return -std::numbers::sqrt2 * inverse_erfc(2 * p);
}

// Far out, x >= 5, of a normal variable: the ratio of what lies above x to the density there
// (Mills; Laplace's continued fraction), and the logarithm of the share above x of that above a.
double mills(double x) {
  double rest = x;
  for (int k = 20; k >= 1; --k) rest = x + k / rest;
  return 1 / rest;
}
double log_share(double x, double ratio, double a, double ratio_of_a) {
  return -(x - a) * (x + a) / 2 + std::log(ratio / ratio_of_a);
}
// The number above which the share lies of what lies above a >= 5: Newton's method from the tail's
// exponential bound, on a function that is nearly linear.
double tail_quantile(double a, double ratio_of_a, double log_of_share) {
  double x = a - log_of_share / a;
  for (int i = 0; i < 5; ++i) {
    const double ratio = mills(x);
    x += (log_share(x, ratio, a, ratio_of_a) - log_of_share) * ratio;
  }
  return x;
}

}  // namespace

Fans fans(const Shape& weight) {
  if (weight.rank() < 2) {
    throw ShapeError(fmt::format(
        "[init] a weight {} has no fan; it takes at least two dimensions (O, ..., I): use uniform_ "
        "or normal_",
        to_string(weight)));
  }
  const int64_t area = weight.numel() / std::max<int64_t>(1, weight[0] * weight[-1]);
  return {.in = area * weight[-1], .out = area * weight[0]};
}

namespace {

void fill(const char* function, const Tensor& x, double value) {
  check::floating(function, {"x", x});
  const NoGrad no_grad;
  fill_(x, value);
}

}  // namespace

void zeros_(const Tensor& x) { fill("zeros_", x, 0); }
void ones_(const Tensor& x) { fill("ones_", x, 1); }
void constant_(const Tensor& x, double value) { fill("constant_", x, value); }

void uniform_(const Tensor& x, double low, double high) {
  check::floating("uniform_", {"x", x});
  for (const double end : {low, high}) check_holds("uniform_", end, x.dtype());
  const DType wide = x.dtype() == DType::f64 ? DType::f64 : DType::f32;
  const double span = wide == DType::f64 ? high - low : double(float(high) - float(low));
  if (!(span >= 0) || !std::isfinite(span)) {
    throw Error(
        fmt::format("[uniform_] the bounds are {} and {}; wanted finite ones in order, whose "
                    "distance is finite in {}",
                    low, high, name(wide)));
  }
  const Tensor step = random::step_word(x.device());
  run(kernels::RandomUniform{
      .y = x, .step = step, .key = random::next(RandomStream::init), .low = low, .high = high});
  x.bump_version();
}

// Drawn on the CPU for every device, as RandomNormal says.
void normal_(const Tensor& x, double mean, double std) {
  check_normal("normal_", x, mean, std);
  const Tensor step = random::step_word(Device::cpu());
  const Tensor drawn = x.device().is_cpu() ? x : Tensor::empty(x.shape(), {.dtype = x.dtype()});
  run(kernels::RandomNormal{
      .y = drawn, .step = step, .key = random::next(RandomStream::init), .mean = mean, .std = std});
  const NoGrad no_grad;
  if (!x.device().is_cpu()) copy_(x, drawn);
  x.bump_version();
}

// By the inverse of the distribution function, below the mean where it is exact, with bounds above
// mirrored; far out, where it underflows, by shares of what lies beyond the nearer bound.
void trunc_normal_(const Tensor& x, const TruncatedNormalOptions& options) {
  const auto [mean, std, low, high] = options;
  check_normal("trunc_normal_", x, mean, std);
  if (!(std > 0 && low < high)) {
    throw Error(
        fmt::format("[trunc_normal_] wants a std above 0 and low below high, got {}, {} and {}",
                    std, low, high));
  }
  const double sign = low > mean ? -1 : 1;
  // Of the distribution or its mirror image, so that `to` is above 0 only with `from` below.
  const double from = (sign > 0 ? low - mean : mean - high) / std;
  const double to = (sign > 0 ? high - mean : mean - low) / std;
  const double nearer = std::min(-to, 1e300), farther = -from;
  const double first = normal_cdf(from), last = normal_cdf(to);
  const double ratio = mills(nearer);
  const double kept = -std::expm1(log_share(farther, mills(farther), nearer, ratio));
  const auto quantile = [&](double drawn) {
    if (nearer > 5) return -tail_quantile(nearer, ratio, std::log1p(-drawn * kept));
    return normal_quantile(std::max(first + drawn * (last - first), 0x1p-1022));
  };
  const Tensor exact = like_exact(x);
  uniform_(exact, 0, 1);
  for (double& value : exact.span<double>()) {
    value = std::clamp(mean + sign * std * quantile(value), low, high);
  }
  write(x, exact);
}

void kaiming_uniform_(const Tensor& weight, const KaimingOptions& options) {
  check::floating("kaiming_uniform_", {"weight", weight});
  const double bound = sqrt3 * kaiming_std(weight, options);
  uniform_(weight, -bound, bound);
}

void kaiming_normal_(const Tensor& weight, const KaimingOptions& options) {
  check::floating("kaiming_normal_", {"weight", weight});
  normal_(weight, 0, kaiming_std(weight, options));
}

void xavier_uniform_(const Tensor& weight, const XavierOptions& options) {
  check::floating("xavier_uniform_", {"weight", weight});
  const double bound = sqrt3 * xavier_std(weight, options);
  uniform_(weight, -bound, bound);
}

void xavier_normal_(const Tensor& weight, const XavierOptions& options) {
  check::floating("xavier_normal_", {"weight", weight});
  normal_(weight, 0, xavier_std(weight, options));
}

void orthogonal_(const Tensor& weight, const OrthogonalOptions& options) {
  check::floating("orthogonal_", {"weight", weight});
  if (weight.rank() < 2) {
    throw ShapeError(fmt::format(
        "[orthogonal_] a weight {} is no matrix; it takes at least two dimensions (O, ..., I)",
        to_string(weight.shape())));
  }
  if (weight.numel() == 0) return;
  const int64_t rows = weight.size(0), columns = weight.numel() / rows;
  const int64_t count = std::min(rows, columns), length = std::max(rows, columns);
  const Tensor vectors = Tensor::empty({count, length}, {.dtype = DType::f64});
  normal_(vectors, 0, 1);
  double* q = vectors.span<double>().data();
  orthonormalize(q, count, length);
  const Tensor exact = like_exact(weight);
  double* to = exact.span<double>().data();
  for (int64_t row = 0; row < rows; ++row) {
    for (int64_t column = 0; column < columns; ++column) {
      const bool wide = rows <= columns;
      to[row * columns + column] =
          options.gain * (wide ? q[row * length + column] : q[column * length + row]);
    }
  }
  write(weight, exact);
}

void sparse_(const Tensor& weight, const SparseOptions& options) {
  check::floating("sparse_", {"weight", weight});
  check_dimensions(weight, "sparse_", 2, 2);
  if (!(options.sparsity >= 0 && options.sparsity <= 1)) {
    throw Error(fmt::format("[sparse_] sparsity is {}; it must lie in 0..1", options.sparsity));
  }
  const int64_t rows = weight.size(0), columns = weight.size(1);
  const auto zeros = size_t(std::ceil(options.sparsity * double(rows)));
  const Tensor exact = like_exact(weight);
  normal_(exact, 0, options.std);
  const RandomKey key = random::next(RandomStream::init);
  for (int64_t column = 0; column < columns; ++column) {
    const std::vector<int64_t> order = random::permutation(rows, key, column);
    for (size_t i = 0; i < zeros; ++i) {
      exact.span<double>()[size_t(order[i] * columns + column)] = 0;
    }
  }
  write(weight, exact);
}

void eye_(const Tensor& weight) {
  check::floating("eye_", {"weight", weight});
  check_dimensions(weight, "eye_", 2, 2);
  const Tensor exact = Tensor::zeros(weight.shape(), {.dtype = DType::f64});
  const int64_t columns = weight.size(1);
  for (int64_t i = 0; i < std::min(weight.size(0), columns); ++i) {
    exact.span<double>()[size_t(i * columns + i)] = 1;
  }
  write(weight, exact);
}

void dirac_(const Tensor& weight, const DiracOptions& options) {
  check::floating("dirac_", {"weight", weight});
  check_dimensions(weight, "dirac_", 3, 5);
  const int64_t outputs = weight.size(0), inputs = weight.size(-1), groups = options.groups;
  if (groups < 1 || outputs % groups != 0) {
    throw ShapeError(fmt::format("[dirac_] {} groups do not divide the {} outputs of {}", groups,
                                 outputs, to_string(weight.shape())));
  }
  if (weight.numel() == 0) return;
  int64_t middle = 0;  // of the kernel
  for (int64_t dim = 1; dim < weight.rank() - 1; ++dim) {
    middle = middle * weight.size(dim) + weight.size(dim) / 2;
  }
  const Tensor exact = Tensor::zeros(weight.shape(), {.dtype = DType::f64});
  const int64_t of_output = weight.numel() / std::max<int64_t>(1, outputs);
  for (int64_t output = 0; output < outputs; ++output) {
    const int64_t channel = output % (outputs / groups);
    if (channel >= inputs) continue;
    exact.span<double>()[size_t(output * of_output + middle * inputs + channel)] = 1;
  }
  write(weight, exact);
}

void fan_in_uniform_(const Tensor& weight, const Tensor& bias) {
  check::floating("fan_in_uniform_", {"weight", weight});
  const double bound = 1 / std::sqrt(at_least_one(fans(weight.shape()).in));
  uniform_(weight, -bound, bound);
  if (bias.defined()) uniform_(bias, -bound, bound);
}

}  // namespace adret::init
