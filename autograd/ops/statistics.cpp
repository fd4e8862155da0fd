// Moments, norms and logarithms of sums: reductions of their own, or composed of others.
#include <adret/autograd/ops/arithmetic.h>
#include <adret/autograd/ops/check.h>
#include <adret/autograd/ops/logic.h>
#include <adret/autograd/ops/reduce_parts.h>
#include <adret/autograd/ops/shape.h>
#include <adret/autograd/ops/statistics.h>
#include <adret/autograd/saved_tensor.h>
#include <adret/core/kernels/kernel.h>
#include <fmt/core.h>

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

using namespace kernels;

// Of the 2-norm, the variance and logsumexp, in x's wide dtype.
struct StatisticBackward final : Node {
  StatisticBackward(const Reduce& call, const Tensor& x, const Tensor& y, const Tensor& mean,
                    const Reduced& reduced)
      : op(call.op), correction(call.correction), x(x), y(y), mean(mean), reduced(reduced) {}
  const char* name() const override { return to_string(op); }
  std::vector<Tensor> backward(const std::vector<Tensor>& grads) override {
    const Tensor in = x.unpack(*this), out = y.unpack(*this);
    if (grad_enabled())
      return {again(in.to(out.dtype()), out.reshape(reduced.kept), grads[0].reshape(reduced.kept))
                  .to(in.dtype())};
    const Tensor dx = grad_buffer(0);
    ReduceBackward call{.x = in, .dy = grads[0], .dx = dx, .dims = reduced.dims, .op = op};
    call.correction = correction;
    (op == ReduceOp::var ? call.mean : call.y) = op == ReduceOp::var ? mean.unpack(*this) : out;
    run(call);
    return {dx};
  }

  // The same in functions that have derivatives.
  Tensor again(const Tensor& in, const Tensor& out, const Tensor& dy) const {
    switch (op) {
      case ReduceOp::norm: {
        const Tensor is_zero = equal(out, scalar_like(out, 0));
        return in * where(is_zero, 0, dy / where(is_zero, 1, out));
      }
      case ReduceOp::var: {
        std::vector<int> dims;
        for (int d = 0; d < in.rank(); ++d) {
          if (reduced.dims >> d & 1) dims.push_back(d);
        }
        const Tensor center = dims.empty() ? in : adret::mean(in, {.dims = dims, .keepdim = true});
        return (in - center) * (dy * (2 / var_divisor(reduced.count, correction)));
      }
      default: return dy * exp(in - out);
    }
  }

  ReduceOp op;
  double correction;
  SavedTensor x;
  SavedOutput y;
  SavedTensor mean;
  Reduced reduced;
};

// In x's wide dtype.
Tensor statistic(ReduceOp op, const Tensor& x, const ReduceOptions& options,
                 double correction = 0) {
  check::floating(to_string(op), {"x", x});
  const Reduced reduced = Reduced::of(to_string(op), x.shape(), options.dims);
  const TensorOptions wide{.dtype = wide_dtype(x), .device = x.device()};
  const Tensor y = Tensor::empty(options.keepdim ? reduced.kept : reduced.squeezed, wide);
  Tensor mean;
  if (op == ReduceOp::var && grad_enabled() && any_requires_grad({&x, 1}))
    mean = Tensor::empty(y.shape(), wide);
  const Reduce call{
      .x = x, .y = y, .mean = mean, .dims = reduced.dims, .op = op, .correction = correction};
  run(call);
  record<StatisticBackward>({y}, {x}, call, x, y, mean, reduced);
  return y;
}

Tensor variance(const Tensor& x, const VarianceOptions& options) {
  return statistic(ReduceOp::var, x, {options.dims, options.keepdim}, options.correction);
}

}  // namespace

Tensor var(const Tensor& x, const VarianceOptions& options) {
  const FunctionScope scope("var");
  return variance(x, options).to(x.dtype());
}

Tensor stddev(const Tensor& x, const VarianceOptions& options) {
  const FunctionScope scope("stddev");
  check::floating("stddev", {"x", x});
  return square_root(variance(x, options)).to(x.dtype());
}

Tensor logsumexp(const Tensor& x, const ReduceOptions& options) {
  const FunctionScope scope("logsumexp");
  return statistic(ReduceOp::logsumexp, x, options).to(x.dtype());
}

Tensor norm(const Tensor& x, double p, const ReduceOptions& options) {
  const FunctionScope scope("norm");
  check::floating("norm", {"x", x});
  if (!(p >= 0)) check::refuse("norm", fmt::format("p is {}, wanted 0 or more", p));
  if (p == 0) return count_nonzero(x, options).to(x.dtype());
  if (p == 2) return statistic(ReduceOp::norm, x, options).to(x.dtype());
  const Tensor wide = x.to(wide_dtype(x));
  const auto value = [&] {
    if (p == 1) return sum(abs(wide), options);
    if (std::isinf(p)) return max(abs(wide), options);
    return power(sum(power(abs(wide), p), options), 1 / p);
  };
  return value().to(x.dtype());
}

}  // namespace adret
