// Moments, norms and logarithms of sums, composed of reductions.
#include <adret/autograd/ops/arithmetic.h>
#include <adret/autograd/ops/check.h>
#include <adret/autograd/ops/logic.h>
#include <adret/autograd/ops/statistics.h>
#include <fmt/core.h>

#include <algorithm>
#include <cmath>

namespace adret {
namespace {

// f(x) of numbers that are not negative, with value and derivative 0 at 0.
template <class F>
Tensor flat_at_zero(const Tensor& x, F f) {
  const Tensor is_zero = equal(x, scalar_like(x, 0));
  return where(is_zero, 0, f(where(is_zero, 1, x)));
}

Tensor square_root(const Tensor& x) {
  return flat_at_zero(x, [](const Tensor& positive) { return sqrt(positive); });
}
Tensor power(const Tensor& x, double exponent) {
  return flat_at_zero(x, [=](const Tensor& positive) { return pow(positive, exponent); });
}

// In x's wide dtype.
Tensor variance(const Tensor& x, const VarianceOptions& options) {
  const Tensor wide = x.to(wide_dtype(x));
  const Tensor deviation = wide - mean(wide, {.dims = options.dims, .keepdim = true});
  const Tensor squares = sum(square(deviation), {options.dims, options.keepdim});
  const double count = double(x.numel()) / double(std::max<int64_t>(1, squares.numel()));
  return squares / std::max(0.0, count - options.correction);
}

}  // namespace

Tensor var(const Tensor& x, const VarianceOptions& options) {
  const FunctionScope scope("var");
  check::floating("var", {"x", x});
  return variance(x, options).to(x.dtype());
}

Tensor stddev(const Tensor& x, const VarianceOptions& options) {
  const FunctionScope scope("stddev");
  check::floating("stddev", {"x", x});
  return square_root(variance(x, options)).to(x.dtype());
}

Tensor logsumexp(const Tensor& x, const ReduceOptions& options) {
  const FunctionScope scope("logsumexp");
  check::floating("logsumexp", {"x", x});
  const Tensor wide = x.to(wide_dtype(x));
  if (x.numel() == 0) return log(sum(exp(wide), options)).to(x.dtype());
  // The result is the same for any shift, which therefore counts as a constant; infinite ones are
  // of no use.
  const Tensor largest = max(wide.detach(), {.dims = options.dims, .keepdim = true});
  const Tensor shift = where(isfinite(largest), largest, 0);
  const Tensor sums = sum(exp(wide - shift), options);
  return (log(sums) + shift.reshape(sums.shape())).to(x.dtype());
}

Tensor norm(const Tensor& x, double p, const ReduceOptions& options) {
  const FunctionScope scope("norm");
  check::floating("norm", {"x", x});
  if (!(p >= 0)) check::refuse("norm", fmt::format("p is {}, wanted 0 or more", p));
  if (p == 0) return count_nonzero(x, options).to(x.dtype());
  const Tensor wide = x.to(wide_dtype(x));
  const auto value = [&] {
    if (p == 1) return sum(abs(wide), options);
    if (p == 2) return square_root(sum(square(wide), options));
    if (std::isinf(p)) return max(abs(wide), options);
    return power(sum(power(abs(wide), p), options), 1 / p);
  };
  return value().to(x.dtype());
}

}  // namespace adret
