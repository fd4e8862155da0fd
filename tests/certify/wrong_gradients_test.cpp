// Layers with wrong gradients, or with parameters that gradients do not reach: each fails in the
// check that is about it.
#include <adret/autograd/grad_mode.h>
#include <adret/autograd/node.h>
#include <adret/autograd/ops/arithmetic.h>
#include <adret/autograd/saved_tensor.h>
#include <adret/core/error.h>
#include <adret/layers/linear.h>

#include "tests/certify/wrong_layers.h"

namespace adret {
namespace {

using namespace test;

// y = x * x, with a derivative of `slope` times x.
struct SquareBackward final : Node {
  SquareBackward(const Tensor& x, double slope) : x(x), slope(slope) {}
  const char* name() const override { return "square"; }
  std::vector<Tensor> backward(const std::vector<Tensor>& grads) override {
    return {grads[0] * x.unpack(*this) * slope};
  }
  SavedTensor x;
  double slope;
};

Tensor square_of(const Tensor& x, double slope) {
  Tensor y;
  {
    const NoGrad no_grad;
    y = x * x;
  }
  record<SquareBackward>({y}, {x}, x, slope);
  return y;
}

TEST(WrongGradients, OfAnInput) {
  const auto wrong = [](const Tensor& a, const Tensor& b) { return a + square_of(b, 1.9); };
  const CertifyOptions options = quick({.inputs = {{.name = "a"}, {.name = "b"}},
                                        .skip = {{"second derivative", "of the wrong first"}}});
  const Certificate c = certify("square", wrong, {{4, 3}, {4, 3}}, options);
  expect_failure(c, "gradients", "in training: b (4, 3), element 0 at (0, 0): backward gives");
  EXPECT_THAT(c.row("gradients").reason, testing::HasSubstr("central differences"));
  EXPECT_THAT(c.row("gradients").reason, testing::Not(testing::HasSubstr("a (4, 3)")));
}

// a + b, with a wrong gradient of a where both are wanted, or of one sample.
struct SumBackward final : Node {
  SumBackward(double both, double of_one) : both(both), of_one(of_one) {}
  const char* name() const override { return "sum"; }
  std::vector<Tensor> backward(const std::vector<Tensor>& grads) override {
    const double single = grads[0].shape()[0] == 1 ? of_one : 1;
    return {grads[0] * (needs_gradient(1) ? both : 1) * single, grads[0]};
  }
  double both, of_one;
};

auto sum_with(double both, double of_one) {
  return [=](const Tensor& a, const Tensor& b) {
    Tensor y;
    {
      const NoGrad no_grad;
      y = a + b;
    }
    record<SumBackward>({y}, {a, b}, both, of_one);
    return y;
  };
}

TEST(WrongGradients, OfTwoAtOnce) {
  expect_failure(certify("sum", sum_with(2, 1), {{4, 3}, {4, 3}}, quick()), "gradients",
                 "with all gradients wanted, input 0 (4, 3)");
}

TEST(WrongGradients, OfASingleSample) {
  expect_failure(certify("sum", sum_with(1, 2), {{4, 3}, {4, 3}}, quick()), "batch sizes",
                 "a batch of 1 in training: input 0 (1, 3)");
}

struct WrongScale : Layer<WrongScale> {
  Parameter& scale = parameter("scale", Tensor::full({3}, 0.5));
  Tensor forward(const Tensor& x) { return x * square_of(scale, 2.5); }
  WrongScale rebuild() const { return {}; }
};

TEST(WrongGradients, OfAParameter) {
  WrongScale layer;
  const Certificate c =
      certify(layer, {{4, 3}}, quick({.skip = {{"second derivative", "of the wrong first"}}}));
  expect_failure(c, "gradients", "scale (3,), element 0 at (0,): backward gives");
}

TEST(WrongGradients, InF32WhereF64IsNotTaken) {
  const auto wrong = [](const Tensor& x) { return square_of(x, 1.5); };
  const Certificate c = certify("square", wrong, {{4, 3}}, quick({.dtypes = {DType::f32}}));
  expect_failure(c, "gradients", "input 0 (4, 3), element 0");
  EXPECT_EQ(c.row("second derivative").verdict, Verdict::skipped);
  const Certificate right = certify(
      "square", [](const Tensor& x) { return square_of(x, 2); }, {{4, 3}},
      quick({.dtypes = {DType::f32}}));
  EXPECT_TRUE(right.passed()) << right;
  EXPECT_EQ(right.row("gradients").reason, "input 0, coarsely in f32");
}

// The right derivative, but not recorded when it is to be differentiated again.
struct DetachedBackward final : Node {
  explicit DetachedBackward(const Tensor& x, bool refuses) : x(x), refuses(refuses) {}
  const char* name() const override { return "square"; }
  std::vector<Tensor> backward(const std::vector<Tensor>& grads) override {
    if (refuses && grad_enabled()) throw Error("[square] has no second derivative");
    return {(grads[0] * x.unpack(*this) * 2.0).detach()};
  }
  SavedTensor x;
  bool refuses;
};

Tensor detached_square(const Tensor& x, bool refuses) {
  Tensor y;
  {
    const NoGrad no_grad;
    y = x * x;
  }
  record<DetachedBackward>({y}, {x}, x, refuses);
  return y;
}

TEST(WrongGradients, OfTheGradient) {
  const Certificate c = certify(
      "square", [](const Tensor& x) { return detached_square(x, false); }, {{4, 3}}, quick());
  expect_failure(c, "second derivative", "gradient of the gradient, input 0 (4, 3), element 0");
}

TEST(WrongGradients, ARefusedSecondDerivativeIsNoFailure) {
  const Certificate c = certify(
      "square", [](const Tensor& x) { return detached_square(x, true); }, {{4, 3}}, quick());
  EXPECT_TRUE(c.passed()) << c;
  EXPECT_EQ(c.row("second derivative").verdict, Verdict::refused);
  EXPECT_THAT(c.row("second derivative").reason,
              testing::HasSubstr("[square] has no second derivative"));
}

// -- parameters -----------------------------------------------------------------------------------

struct UnregisteredScale : Layer<UnregisteredScale> {
  Tensor scale = Tensor::full({3}, 0.5).set_requires_grad(true);
  Tensor forward(const Tensor& x) {
    // Converted at each call, as to() does not know of it.
    return x * scale.to(x.dtype());
  }
  UnregisteredScale rebuild() const { return {}; }
};

TEST(WrongParameters, NotRegistered) {
  const Certificate c = certify(UnregisteredScale(), {{4, 3}}, quick({.eager_step = true}));
  expect_failure(c, "parameters",
                 "a tensor (3,) that requires a gradient is used and not registered, so that it "
                 "would never learn; declare it as a Parameter&");
}

// Requires no gradient either, so that only who reads it tells of it.
struct PlainScale : Layer<PlainScale> {
  Tensor scale = Tensor::full({3}, 0.5);
  Tensor forward(const Tensor& x) { return x * scale.to(x.dtype()).to(x.device()); }
  PlainScale rebuild() const { return {}; }
};

TEST(WrongParameters, OfAPlainTensor) {
  const Certificate c = certify(PlainScale(), {{4, 3}}, quick());
  expect_failure(
      c, "parameters",
      "binary reads a tensor (3,) f32 cpu that is no input, parameter or buffer; declare "
      "it with parameter(\"name\", ...) if it is to learn, else with buffer(");
}

struct HeldLinear : Layer<HeldLinear> {
  Linear linear{3, 2};
  Tensor forward(const Tensor& x) { return linear(x.to(DType::f32)).to(x.dtype()); }
  HeldLinear rebuild() const { return {}; }
};

TEST(WrongParameters, OfALayerWithoutAdd) {
  const Certificate c = certify(HeldLinear(), {{4, 3}}, quick());
  EXPECT_FALSE(c.passed());
  EXPECT_EQ(c.row("parameters").verdict, Verdict::failed);
  EXPECT_THAT(c.row("parameters").reason,
              testing::HasSubstr("is used that is not among the layer's: it belongs to one that is "
                                 "held without add(\"name\", ...)"));
  // Drawn anew in each copy.
  EXPECT_EQ(c.row("copies").verdict, Verdict::failed) << c;
  EXPECT_EQ(c.row("state").verdict, Verdict::failed) << c;
}

struct UnusedShift : Layer<UnusedShift> {
  Parameter& scale = parameter("scale", Tensor::full({3}, 0.5));
  Parameter& shift = parameter("shift", Tensor::zeros({3}));
  Tensor forward(const Tensor& x) { return x * scale; }
  UnusedShift rebuild() const { return {}; }
};

TEST(WrongParameters, NotReached) {
  expect_failure(certify(UnusedShift(), {{4, 3}}, quick()), "parameters",
                 "no gradient reaches shift (3,); use it in forward");
}

TEST(WrongParameters, OfAFunction) {
  const Tensor weight = Tensor::full({3}, 0.5).set_requires_grad(true);
  const Certificate c = certify(
      "scaled", [&](const Tensor& x) { return x * weight.to(x.dtype()); }, {{4, 3}}, quick());
  EXPECT_EQ(c.row("parameters").verdict, Verdict::failed);
  EXPECT_THAT(c.row("parameters").reason,
              testing::HasSubstr("a tensor (3,) that requires a gradient is used and is no input"));
}

}  // namespace
}  // namespace adret
