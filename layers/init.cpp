// Fans, bounds and the draws for initial weights.
#include <adret/autograd/grad_mode.h>
#include <adret/autograd/ops/inplace.h>
#include <adret/core/error.h>
#include <adret/core/kernels/kernel.h>
#include <adret/core/random.h>
#include <adret/layers/init.h>
#include <fmt/core.h>

#include <algorithm>

namespace adret::init {
namespace {

constexpr double sqrt3 = std::numbers::sqrt3;  // bound of a uniform distribution over its deviation

double kaiming_std(const Tensor& weight, const KaimingOptions& options) {
  const Fans f = fans(weight.shape());
  return options.gain / std::sqrt(double(options.fan == FanMode::in ? f.in : f.out));
}

double xavier_std(const Tensor& weight, const XavierOptions& options) {
  const Fans f = fans(weight.shape());
  return options.gain * std::sqrt(2.0 / double(f.in + f.out));
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

void constant_(const Tensor& x, double value) {
  const NoGrad no_grad;
  fill_(x, value);
}

void uniform_(const Tensor& x, double low, double high) {
  const Tensor step = random::step_word(x.device());
  run(kernels::RandomUniform{
      .y = x, .step = step, .key = random::next(RandomStream::init), .low = low, .high = high});
  x.bump_version();
}

// Drawn on the CPU for every device, as RandomNormal says.
void normal_(const Tensor& x, double mean, double std) {
  const Tensor step = random::step_word(Device::cpu());
  const Tensor drawn = x.device().is_cpu() ? x : Tensor::empty(x.shape(), {.dtype = x.dtype()});
  run(kernels::RandomNormal{
      .y = drawn, .step = step, .key = random::next(RandomStream::init), .mean = mean, .std = std});
  const NoGrad no_grad;
  if (!x.device().is_cpu()) copy_(x, drawn);
  x.bump_version();
}

void kaiming_uniform_(const Tensor& weight, const KaimingOptions& options) {
  const double bound = sqrt3 * kaiming_std(weight, options);
  uniform_(weight, -bound, bound);
}

void kaiming_normal_(const Tensor& weight, const KaimingOptions& options) {
  normal_(weight, 0, kaiming_std(weight, options));
}

void xavier_uniform_(const Tensor& weight, const XavierOptions& options) {
  const double bound = sqrt3 * xavier_std(weight, options);
  uniform_(weight, -bound, bound);
}

void xavier_normal_(const Tensor& weight, const XavierOptions& options) {
  normal_(weight, 0, xavier_std(weight, options));
}

void fan_in_uniform_(const Tensor& weight, const Tensor& bias) {
  const double bound = 1 / std::sqrt(double(fans(weight.shape()).in));
  uniform_(weight, -bound, bound);
  if (bias.defined()) uniform_(bias, -bound, bound);
}

}  // namespace adret::init
