// The linear layer's function.
#include <adret/autograd/ops/bilinear.h>
#include <adret/autograd/ops/check.h>
#include <adret/autograd/ops/matmul.h>
#include <adret/core/kernels/kernel.h>
#include <fmt/core.h>

namespace adret {
namespace {

using namespace kernels;

// x (N, I), weight (O, I), bias (O), y (N, O); see Note [Bilinear products].
struct LinearProduct {
  static constexpr const char* name = "linear";
  static constexpr const char* input_name = LinearBackwardInput::name;
  static constexpr const char* weight_name = LinearBackwardWeight::name;
  MathMode math = compute_mode().math;

  void forward(const BilinearForward& call) const {
    run(LinearForward{.x = call.x,
                      .weight = call.weight,
                      .bias = call.bias,
                      .y = call.y,
                      .before = call.before,
                      .activation = call.activation,
                      .math = math});
  }
  void backward_input(const Tensor& dy, const Tensor& weight, const Tensor& dx) const {
    run(LinearBackwardInput{.dy = dy, .weight = weight, .dx = dx, .math = math});
  }
  void backward_weight(const Tensor& x, const Tensor& dy, const WeightGradients& out) const {
    run(LinearBackwardWeight{
        .x = x, .dy = dy, .dweight = out.weight, .dbias = out.bias, .math = math});
  }
};

}  // namespace

Tensor linear(const Tensor& x, const Tensor& weight, const Tensor& bias,
              const LinearOptions& options) {
  const FunctionScope scope("linear");
  check::alike("linear", {"x", x}, {"weight", weight});
  check::alike("linear", {"x", x}, {"bias", bias});
  check::floating("linear", {"x", x});
  check::rank("linear", {"weight", weight}, 2, "(O, I)");
  const int64_t features = weight.size(0);
  if (x.rank() == 0 || x.size(-1) != weight.size(1)) {
    check::refuse("linear", fmt::format("x {} has {} features, weight {} wants {}",
                                        to_string(x.shape()), x.rank() ? x.size(-1) : 0,
                                        to_string(weight.shape()), weight.size(1)));
  }
  check::shape("linear", {"bias", bias}, {features});

  const int last = x.rank() - 1;
  const int64_t rows = last == 1 ? x.size(0) : x.shape().without(last).numel();
  const Tensor flat = last == 1 ? x : x.reshape({rows, x.size(last)});
  Tensor y = bilinear(LinearProduct{}, {.x = flat,
                                        .weight = weight,
                                        .bias = bias,
                                        .y = empty_like(x, {rows, features}),
                                        .activation = options.activation});
  return last == 1 ? y : y.reshape(x.shape().with(last, features));
}

}  // namespace adret
