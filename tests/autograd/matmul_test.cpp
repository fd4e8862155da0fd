// Matrix products and the linear function.
#include <adret/autograd/engine.h>
#include <adret/autograd/ops/activation.h>
#include <adret/autograd/ops/arithmetic.h>
#include <adret/autograd/ops/inplace.h>
#include <adret/autograd/ops/matmul.h>
#include <adret/autograd/ops/reduce.h>
#include <adret/autograd/ops/shape.h>
#include <adret/core/error.h>

#include <algorithm>

#include "tests/support/expect_error.h"
#include "tests/support/gradients.h"
#include "tests/support/seen_kernels.h"

namespace adret {
namespace {

using namespace test;
using Inputs = std::vector<Tensor>;

// Values: PyTorch 1.13.
TEST(Matmul, OfBatchesHasPyTorchsValuesAndGradients) {
  const Tensor a = variable({2, 2, 3}), b = variable({2, 3, 2}, 7);
  const Tensor y = matmul(a, b);
  expect_values(y, {2, 2, 2},
                {1.823486328, 1.691650391, 1.730712891, 1.696533203, 1.377685547, -2.208251953,
                 -1.433349609, 1.390869141});
  const std::vector<Tensor> d = gradients(y, {a, b});
  expect_values(
      d[0], {2, 2, 3},
      {2.084472656, -1.071289062, -0.5776367188, -0.8876953125, 2.016113281, -1.392578125,
       0.4926757812, -0.4565429688, -1.455078125, 0.7563476562, 1.230957031, -1.006835938});
  expect_values(d[1], {2, 3, 2},
                {1.294433594, 2.000976562, 0.5356445312, 0.2666015625, -0.2231445312, -1.467773438,
                 0.5654296875, -1.27734375, -0.4462890625, 0.384765625, 1.254394531, 1.109863281});
}

TEST(Matmul, HasDerivativesForEveryTransposition) {
  for (const bool ta : {false, true}) {
    for (const bool tb : {false, true}) {
      SCOPED_TRACE(testing::Message() << ta << tb);
      const auto product = [=](const Inputs& in) {
        return matmul(in[0], in[1], {.transpose_a = ta, .transpose_b = tb});
      };
      const Shape a = ta ? Shape{3, 2} : Shape{2, 3}, b = tb ? Shape{4, 3} : Shape{3, 4};
      expect_gradients(product, {variable(a), variable(b, 5)});
      expect_gradients(product, {variable(a.inserted(0, 2)), variable(b.inserted(0, 2), 5)});
      expect_values(product({sequence(a), sequence(b, 5)}), {2, 4},
                    matmul(ta ? transpose(sequence(a), 0, 1) : sequence(a),
                           tb ? transpose(sequence(b, 5), 0, 1) : sequence(b, 5))
                        .to_vector<double>());
    }
  }
}

TEST(Matmul, TakesBroadcastAndTransposedOperands) {
  const Tensor row = Tensor::from({1.0, 2.0}, {1, 2}), column = transpose(row, 0, 1);
  expect_values(matmul(broadcast_to(row, {3, 2}), column), {3, 1}, {5, 5, 5});
}

TEST(Matmul, OfNothing) {
  EXPECT_EQ(matmul(Tensor::ones({0, 3}), Tensor::ones({3, 2})).shape(), Shape({0, 2}));
  expect_values(matmul(Tensor::ones({2, 0}), Tensor::ones({0, 2})), {2, 2}, {0, 0, 0, 0});
  const Tensor a = variable({0, 3}), b = variable({3, 2});
  expect_values(gradients(matmul(a, b), {b})[0], {3, 2}, {0, 0, 0, 0, 0, 0});
}

TEST(Matmul, RefusesShapesThatDoNotMultiply) {
  expect_error<ShapeError>(
      [] {
        return matmul(Tensor::ones({2, 3}), Tensor::ones({2, 3}));
      },
      "[matmul] a (2, 3) and b (2, 3) do not multiply: 3 columns meet 2 rows");
  expect_error<ShapeError>(
      [] {
        return matmul(Tensor::ones({2, 3}), Tensor::ones({3, 4}), {.transpose_b = true});
      },
      "[matmul] a (2, 3) and b (3, 4) transposed do not multiply: 3 columns meet 4 rows");
  expect_error<ShapeError>(
      [] {
        return matmul(Tensor::ones({2, 2, 3}), Tensor::ones({5, 3, 2}));
      },
      "[matmul] shapes (2,) and (5,) do not broadcast");
  expect_error<ShapeError>(
      [] {
        return matmul(Tensor::ones({2}), Tensor::ones({3, 2}));
      },
      "[matmul] a (2,) and b (3, 2) do not multiply: 2 columns meet 3 rows");
  expect_error<ShapeError>(
      [] {
        return matmul(Tensor::ones({2, 3}), Tensor::ones({2}));
      },
      "[matmul] a (2, 3) and b (2,) do not multiply: 3 columns meet 2 rows");
  expect_error<ShapeError>([] { return matmul(Tensor::ones({}), Tensor::ones({2})); },
                           "[matmul] a is (), wanted (..., M, K)");
  expect_error<ShapeError>(
      [] {
        return matmul(Tensor::ones({2, 3}), Tensor::ones({3}), {.transpose_b = true});
      },
      "[matmul] b is (3,), wanted two dimensions to transpose");
}

// Shapes of all ranks, batches that broadcast, and both transpositions, against sums of products.
TEST(Matmul, BroadcastsBatchesOfAnyRank) {
  struct Case {
    Shape a, b, y;
  };
  const Case cases[] = {{{3}, {3}, {}},
                        {{3}, {3, 2}, {2}},
                        {{2, 3}, {3}, {2}},
                        {{3}, {4, 3, 2}, {4, 2}},
                        {{4, 2, 3}, {3}, {4, 2}},
                        {{4, 2, 3}, {3, 5}, {4, 2, 5}},
                        {{2, 3}, {4, 3, 5}, {4, 2, 5}},
                        {{4, 1, 2, 3}, {2, 3, 5}, {4, 2, 2, 5}},
                        {{1, 2, 3}, {3, 5}, {1, 2, 5}},
                        {{2, 3}, {1, 1, 3, 5}, {1, 1, 2, 5}},
                        {{2, 2, 2, 3}, {2, 2, 3, 1}, {2, 2, 2, 1}},
                        {{0, 2, 3}, {3, 5}, {0, 2, 5}},
                        {{2, 0, 3}, {2, 3, 5}, {2, 0, 5}},
                        {{2, 2, 0}, {0, 5}, {2, 2, 5}}};
  const auto wide = [](const Tensor& x, int at, bool swap) {  // as (..., M, K), untransposed
    const Tensor matrix = x.rank() == 1 ? unsqueeze(x, at) : x;
    return swap ? transpose(matrix, -1, -2) : matrix;
  };
  for (const auto& [a, b, y] : cases) {
    for (const auto& [ta, tb] :
         {std::pair{false, false}, {true, false}, {false, true}, {true, true}}) {
      if ((ta && a.rank() == 1) || (tb && b.rank() == 1)) continue;
      SCOPED_TRACE(testing::Message() << a << " " << b << " " << ta << tb);
      const Tensor left = ta ? transpose(variable(a), -1, -2).detach() : variable(a);
      const Tensor right = tb ? transpose(variable(b, 7), -1, -2).detach() : variable(b, 7);
      Tensor left_leaf = left.detach(), right_leaf = right.detach();
      left_leaf.set_requires_grad(true);
      right_leaf.set_requires_grad(true);
      const MatmulOptions options{.transpose_a = ta, .transpose_b = tb};
      const Tensor found = matmul(left_leaf, right_leaf, options);
      ASSERT_EQ(found.shape(), y);
      // (..., M, K, 1) times (..., 1, K, N), summed over K.
      const Tensor slow =
          sum(unsqueeze(wide(left, 0, ta), -1) * unsqueeze(wide(right, 1, tb), -3), {.dims = {-2}});
      expect_values(found, y, slow.to_vector<double>());
      expect_gradients([&](const Inputs& in) { return matmul(in[0], in[1], options); },
                       {left_leaf, right_leaf});
    }
  }
}

TEST(Matmul, WithOneMatrixCopiesNothing) {
  const Tensor a = variable({4, 2, 3}), b = variable({3, 5}, 7);
  SeenKernels kernels;
  const Tensor y = matmul(a, b);
  EXPECT_EQ(kernels.names(), (std::vector<std::string>{"matmul"}));
  grad({y}, {a, b}, {.grad_outputs = {sequence(y.shape())}});
  EXPECT_EQ(std::ranges::count(kernels.names(), "matmul"), 3);
}

// Values: PyTorch 1.13.
TEST(Linear, HasPyTorchsValuesAndGradients) {
  const Tensor x = variable({2, 3}), weight = variable({2, 3}, 5), bias = variable({2}, 9);
  const Tensor y = linear(x, weight, bias);
  expect_values(y, {2, 2}, {1.713134766, 2.473876953, 1.464111328, 2.517822266});
  const std::vector<Tensor> d = gradients(y, {x, weight, bias});
  expect_values(
      d[0], {2, 3},
      {2.474609375, 0.37890625, -1.716796875, 0.1225585938, -0.2749023438, -0.6723632812});
  expect_values(
      d[1], {2, 3},
      {1.294433594, 0.5356445312, -0.2231445312, 2.000976562, 0.2666015625, -1.467773438});
  expect_values(d[2], {2}, {-0.65625, -1.5});
}

TEST(Linear, HasDerivativesWithAndWithoutBiasAndActivation) {
  for (const Activation activation :
       {Activation::none, Activation::relu, Activation::gelu, Activation::gelu_tanh}) {
    const auto with_bias = [=](const Inputs& in) {
      return linear(in[0], in[1], in[2], {.activation = activation});
    };
    const auto without = [=](const Inputs& in) {
      return linear(in[0], in[1], {}, {.activation = activation});
    };
    for (const Shape& x : {Shape{3, 4}, Shape{4}, Shape{2, 2, 4}, Shape{0, 4}}) {
      SCOPED_TRACE(to_string(x));
      expect_gradients(with_bias, {variable(x, 1), variable({3, 4}, 50), variable({3}, 9)});
      expect_gradients(without, {variable(x, 1), variable({3, 4}, 50)});
    }
    // Each operand alone.
    expect_gradients(with_bias, {variable({3, 4}), sequence({2, 4}, 50), sequence({2}, 9)});
    expect_gradients(with_bias, {sequence({3, 4}), variable({2, 4}, 50), sequence({2}, 9)});
    expect_gradients(with_bias, {sequence({3, 4}), sequence({2, 4}, 50), variable({2}, 9)});
  }
}

TEST(Linear, WithReluEqualsTheTwoFunctions) {
  const Tensor x = variable({3, 4}), weight = variable({5, 4}, 50), bias = variable({5}, 9);
  const Tensor fused = linear(x, weight, bias, {.activation = Activation::relu});
  const Tensor apart = maximum(linear(x, weight, bias), Tensor::zeros({}, {.dtype = DType::f64}));
  expect_values(fused, {3, 5}, apart.to_vector<double>());
  const Inputs inputs = {x, weight, bias};
  const std::vector<Tensor> d = gradients(fused, inputs), wanted = gradients(apart, inputs);
  for (size_t i = 0; i < 3; ++i)
    expect_values(d[i], inputs[i].shape(), wanted[i].to_vector<double>());
}

void expect_gelu_equals_two_functions(Activation activation, Tensor (*function)(const Tensor&)) {
  const Tensor x = variable({2, 3, 4}), weight = variable({5, 4}, 50), bias = variable({5}, 9);
  const Tensor fused = linear(x, weight, bias, {.activation = activation});
  const Tensor apart = function(linear(x, weight, bias));
  expect_values(fused, {2, 3, 5}, apart.to_vector<double>());
  const Inputs inputs = {x, weight, bias};
  const std::vector<Tensor> d = gradients(fused, inputs), wanted = gradients(apart, inputs);
  for (size_t i = 0; i < 3; ++i) {
    expect_values(d[i], inputs[i].shape(), wanted[i].to_vector<double>());
  }
  const NoGrad no_grad;
  expect_values(linear(x, weight, bias, {.activation = activation}), {2, 3, 5},
                apart.to_vector<double>());
}

TEST(Linear, WithGeluEqualsTheTwoFunctions) {
  expect_gelu_equals_two_functions(Activation::gelu, gelu);
  expect_gelu_equals_two_functions(Activation::gelu_tanh, gelu_tanh);
}

TEST(Linear, OfAnEmptyBatchGivesZeroGradients) {
  const Tensor x = variable({0, 3}), weight = variable({2, 3}), bias = variable({2});
  const std::vector<Tensor> d = gradients(linear(x, weight, bias), {x, weight, bias});
  EXPECT_EQ(d[0].shape(), Shape({0, 3}));
  expect_values(d[1], {2, 3}, {0, 0, 0, 0, 0, 0});
  expect_values(d[2], {2}, {0, 0});
}

TEST(Linear, NoticesAWeightThatWasOverwrittenOnlyWhenItIsNeeded) {
  const Tensor constant = sequence({2, 3}), x = variable({2, 3}), weight = variable({2, 3}, 5);
  const Tensor first = sum(linear(constant, weight)), second = sum(linear(x, weight));
  {
    NoGrad no_grad;
    fill_(weight, 0);
  }
  first.backward();
  expect_error<Error>([&] { return second.backward(), 0; }, "[linear] a tensor (2, 3) f64 that");
}

TEST(Linear, RefusesWhatDoesNotGoTogether) {
  const Tensor weight = Tensor::ones({10, 784});
  expect_error<ShapeError>(
      [&] {
        return linear(Tensor::ones({64, 100}), weight);
      },
      "[linear] x (64, 100) has 100 features, weight (10, 784) wants 784");
  expect_error<ShapeError>(
      [&] {
        return linear(Tensor::ones({2, 784}), weight, Tensor::ones({5}));
      },
      "[linear] bias is (5,), wanted (10,)");
  expect_error<ShapeError>(
      [&] {
        return linear(Tensor::ones({2, 784}, {DType::f64}), weight);
      },
      "[linear] x (2, 784) is f64, weight (10, 784) is f32; dtypes must be");
  expect_error<ShapeError>(
      [&] {
        return linear(Tensor::ones({2, 784}), Tensor::ones({784}));
      },
      "[linear] weight is (784,), wanted (O, I)");
}

}  // namespace
}  // namespace adret
