// Batch normalisation: values and gradients of PyTorch, derivatives, statistics and refusals.
#include <adret/autograd/engine.h>
#include <adret/autograd/ops/activation.h>
#include <adret/autograd/ops/arithmetic.h>
#include <adret/autograd/ops/norm.h>
#include <adret/autograd/ops/reduce.h>
#include <adret/core/error.h>

#include <cmath>
#include <utility>

#include "tests/support/expect_error.h"
#include "tests/support/gradients.h"

namespace adret {
namespace {

using namespace test;
using Inputs = std::vector<Tensor>;

struct Fixture {
  Tensor x = variable({2, 2, 1, 2}), weight = variable({2}, 1), bias = variable({2}, 2);
  Tensor mean = Tensor::from({0.5, -0.25}, {2}), var = Tensor::from({2.0, 0.5}, {2});

  // d(sum of y cos(1.7 i + 0.4))/d(x, weight, bias).
  std::vector<Tensor> gradients_of(const Tensor& y) const {
    std::vector<double> dy;
    for (int i = 0; i < 8; ++i) dy.push_back(std::cos(1.7 * i + 0.4));
    return grad({y}, {x, weight, bias}, {.grad_outputs = {Tensor::from(dy, y.shape())}});
  }
};

// Values: PyTorch 1.13.
TEST(BatchNorm, InTrainingHasPyTorchsValuesGradientsAndStatistics) {
  const Fixture f;
  const Tensor y = batch_norm(f.x, f.weight, f.bias, f.mean, f.var);
  expect_values(y, {2, 2, 1, 2},
                {0.4383989606, -0.2152427696, -3.663665524, 0.1739142525, -2.16696632,
                 -0.8926642525, -0.6702671163, -0.5035072304});
  expect_values(f.mean, {2}, {0.40234375, -0.2359375});
  expect_values(f.var, {2}, {1.901391602, 0.5456380208});
  const std::vector<Tensor> d = f.gradients_of(y);
  expect_values(d[0], {2, 2, 1, 2},
                {-0.4716440965, 0.3361583845, 0.4542105923, -0.03897103673, -1.257743904,
                 0.1811781098, 1.275177408, -0.4783654576});
  expect_values(d[1], {2}, {-1.795111385, -1.606757404});
  expect_values(d[2], {2}, {0.3531064058, 0.3031210783});
}

// Values: PyTorch 1.13, with the statistics that the training step above leaves.
TEST(BatchNorm, InEvaluationHasPyTorchsValuesAndGradients) {
  const Fixture f;
  const Tensor mean = Tensor::from({0.40234375, -0.2359375}, {2});
  const Tensor var = Tensor::from({1.901391602, 0.5456380208}, {2});
  const Tensor y = batch_norm(f.x, f.weight, f.bias, mean, var, {.training = false});
  expect_values(y, {2, 2, 1, 2},
                {0.7060794604, -0.2610484661, -1.888100107, 0.1851391665, -0.9415751296,
                 -1.037745456, 0.004949847667, -0.5915578236});
  expect_values(mean, {2}, {0.40234375, -0.2359375});
  const std::vector<Tensor> d = f.gradients_of(y);
  expect_values(d[0], {2, 2, 1, 2},
                {-1.033253021, 0.2669701787, 0.8873134169, -0.3747551868, -0.6824529945,
                 0.4576550959, 0.4322752264, -0.5101650523});
  expect_values(d[1], {2}, {-1.360310002, -1.790290684});
  expect_values(d[2], {2}, {0.3531064058, 0.3031210783});
}

TEST(BatchNorm, HasDerivativesOfFirstAndSecondOrder) {
  const Tensor mean = Tensor::from({0.5, -0.25}, {2}), var = Tensor::from({2.0, 0.5}, {2});
  for (const Shape& shape : {Shape{4, 2}, Shape{1, 2, 3, 2}}) {
    SCOPED_TRACE(to_string(shape));
    const Inputs all = {variable(shape), variable({2}, 1), variable({2}, 2)};
    expect_gradients([](const Inputs& in) { return batch_norm(in[0], in[1], in[2], {}, {}); }, all);
    expect_gradients([](const Inputs& in) { return batch_norm(in[0], {}, {}, {}, {}); },
                     {variable(shape)});
    const BatchNormOptions evaluation{.training = false};
    expect_gradients(
        [&](const Inputs& in) { return batch_norm(in[0], in[1], in[2], mean, var, evaluation); },
        all);
    expect_gradients(
        [&](const Inputs& in) { return batch_norm(in[0], {}, {}, mean, var, evaluation); },
        {variable(shape)});
  }
}

// batch_norm with `options` and then the fused functions one by one.
Tensor composed(const Fixture& f, BatchNormOptions options) {
  const Tensor residual = std::exchange(options.residual, {});
  const Activation activation = std::exchange(options.activation, Activation::none);
  Tensor y = batch_norm(f.x, f.weight, f.bias, f.mean, f.var, options);
  if (residual.defined()) y = y + residual;
  return activation == Activation::relu ? relu(y) : y;
}

TEST(BatchNorm, WithAResidualAndReluIsTheSameAsOneByOne) {
  for (const bool training : {true, false}) {
    for (const bool has_residual : {true, false}) {
      for (const Activation activation : {Activation::none, Activation::relu}) {
        const Fixture f, other;
        Inputs inputs = {f.x, f.weight, f.bias};
        BatchNormOptions options{.training = training, .activation = activation};
        if (has_residual) {
          options.residual = variable(f.x.shape(), 40);
          inputs.push_back(options.residual);
        }
        const Tensor y = batch_norm(f.x, f.weight, f.bias, f.mean, f.var, options);
        const Tensor expected = composed({f.x, f.weight, f.bias, other.mean, other.var}, options);
        expect_values(y, f.x.shape(), expected.to_vector<double>(), 1e-12);
        expect_values(f.mean, {2}, other.mean.to_vector<double>());
        const Inputs wanted = gradients(expected, inputs);
        for (const bool create_graph : {false, true}) {
          const Inputs d = grad({y}, inputs,
                                {.grad_outputs = {sequence(y.shape(), 3)},
                                 .create_graph = create_graph,
                                 .retain_graph = true});
          for (size_t i = 0; i < d.size(); ++i) {
            expect_values(d[i], inputs[i].shape(), wanted[i].to_vector<double>(), 1e-12);
          }
        }
      }
    }
  }
}

TEST(BatchNorm, WithAResidualAndReluHasDerivativesOfFirstAndSecondOrder) {
  const Tensor mean = Tensor::from({0.5, -0.25}, {2}), var = Tensor::from({2.0, 0.5}, {2});
  const Inputs all = {variable({1, 2, 3, 2}), variable({2}, 1), variable({2}, 2)};
  Inputs with_residual = all;
  with_residual.push_back(variable({1, 2, 3, 2}, 40));
  for (const bool training : {true, false}) {
    const auto normalised = [&](const Inputs& in) {
      return batch_norm(in[0], in[1], in[2], training ? Tensor() : mean, training ? Tensor() : var,
                        {.training = training,
                         .residual = in.size() > 3 ? in[3] : Tensor(),
                         .activation = Activation::relu});
    };
    expect_gradients(normalised, all);
    expect_gradients(normalised, with_residual);
  }
}

TEST(BatchNorm, GivesTheResidualItsGradientAlone) {
  const Fixture f;
  const Tensor x = f.x.detach(), residual = variable(x.shape(), 40);
  const Tensor y = batch_norm(x, {}, {}, {}, {}, {.residual = residual});
  expect_values(gradients(y, {residual})[0], x.shape(), sequence(x.shape(), 3).to_vector<double>());
}

TEST(BatchNorm, ComposesTheSameGradientAsItsKernel) {
  const Fixture f;
  const Tensor y = batch_norm(f.x, f.weight, f.bias, {}, {});
  const std::vector<Tensor> inputs = {f.x, f.weight, f.bias};
  const GradOptions options{.grad_outputs = {sequence(y.shape(), 3)}, .retain_graph = true};
  const std::vector<Tensor> fused = grad({y}, inputs, options);
  const std::vector<Tensor> composed =
      grad({y}, inputs, {.grad_outputs = options.grad_outputs, .create_graph = true});
  for (size_t i = 0; i < 3; ++i) {
    EXPECT_TRUE(composed[i].requires_grad() || i == 2);
    expect_values(composed[i], inputs[i].shape(), fused[i].to_vector<double>(), 1e-12);
  }
}

TEST(BatchNorm, NormalisesASingleSampleOfALargerImageButNoSingleValue) {
  const Tensor image = sequence({1, 2, 2, 3});
  const Tensor y = batch_norm(image, {}, {}, {}, {});
  expect_values(mean(y, {.dims = {0, 1, 2}}), {3}, {0, 0, 0}, 1e-12);

  const Tensor single = Tensor::ones({1, 1, 1, 16});
  const Tensor running = Tensor::ones({16});
  expect_error<ShapeError>([&] { return batch_norm(single, {}, {}, running, running); },
                           "[batch_norm] training needs more than one value per channel, x "
                           "(1, 1, 1, 16) has 1; use a larger batch or image, or evaluation mode");
  EXPECT_EQ(batch_norm(single, {}, {}, running, running, {.training = false}).shape(),
            single.shape());
}

TEST(BatchNorm, OfAnEmptyBatchInEvaluation) {
  const Tensor x = variable({0, 2, 2, 3}), weight = variable({3}), bias = variable({3});
  const Tensor running = Tensor::ones({3}, {.dtype = DType::f64});
  const Tensor y = batch_norm(x, weight, bias, running, running, {.training = false});
  EXPECT_EQ(y.shape(), x.shape());
  const std::vector<Tensor> d = gradients(y, {x, weight, bias});
  EXPECT_EQ(d[0].shape(), x.shape());
  expect_values(d[1], {3}, {0, 0, 0});
  expect_values(d[2], {3}, {0, 0, 0});
}

TEST(BatchNorm, NoticesStatisticsThatWereUpdatedBeforeTheBackward) {
  const Fixture f;
  const Tensor y = batch_norm(f.x, f.weight, f.bias, f.mean, f.var, {.training = false});
  batch_norm(f.x, f.weight, f.bias, f.mean, f.var);
  expect_error<Error>([&] { return gradients(y, {f.x}); }, "[batch_norm] a tensor (2,) f64 that");
}

TEST(BatchNorm, RefusesOperandsThatDoNotGoTogether) {
  const Tensor x = Tensor::ones({4, 3}), three = Tensor::ones({3}), two = Tensor::ones({2});
  expect_error<ShapeError>([&] { return batch_norm(x, two, three, {}, {}); },
                           "[batch_norm] weight is (2,), wanted (3,)");
  expect_error<ShapeError>(
      [&] { return batch_norm(x, three, three.to(DType::f64), {}, {}); },
      "[batch_norm] bias (3,) is f64, wanted f32; convert it with to(DType::f32)");
  expect_error<ShapeError>(
      [&] { return batch_norm(x, {}, {}, {}, {}, {.training = false}); },
      "[batch_norm] running_mean and running_var must both be defined, or neither in training");
  expect_error<ShapeError>([&] { return batch_norm(three, {}, {}, {}, {}); },
                           "[batch_norm] x is (3,), wanted (N, ..., C)");
  expect_error<ShapeError>([&] { return batch_norm(x, {}, {}, {}, {}, {.residual = three}); },
                           "[batch_norm] residual is (3,), wanted (4, 3)");
  expect_error<ShapeError>(
      [&] { return batch_norm(x, {}, {}, {}, {}, {.residual = x.to(DType::f64)}); },
      "[batch_norm] x (4, 3) is f32, residual (4, 3) is f64");
  expect_error<ShapeError>(
      [&] { return batch_norm(x, {}, {}, {}, {}, {.activation = Activation::gelu}); },
      "[batch_norm] activation gelu is not fused, wanted none or relu; apply it to the result");
}

}  // namespace
}  // namespace adret
