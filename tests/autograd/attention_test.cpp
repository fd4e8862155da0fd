// Attention: what it refuses, both layouts, dropout, and gradients of a part of its operands.
#include <adret/autograd/engine.h>
#include <adret/autograd/ops/arithmetic.h>
#include <adret/autograd/ops/attention.h>
#include <adret/autograd/ops/matmul.h>
#include <adret/autograd/ops/reduce.h>
#include <adret/autograd/ops/shape.h>
#include <adret/autograd/ops/softmax.h>
#include <adret/core/error.h>
#include <adret/core/random.h>
#include <gtest/gtest.h>

#include "tests/support/expect_error.h"
#include "tests/support/gradients.h"

namespace adret {
namespace {

using namespace test;
using Inputs = std::vector<Tensor>;

Tensor attend(const Tensor& q, const Tensor& k, const Tensor& v,
              const AttentionOptions& options = {}) {
  return scaled_dot_product_attention(q, k, v, options);
}

TEST(Attention, RefusesOperandsThatDoNotAgree) {
  const Tensor q = Tensor::ones({2, 3, 4, 8}), k = Tensor::ones({2, 5, 4, 8});
  expect_error<ShapeError>(
      [&] {
        return attend(Tensor::ones({3, 8}), k, k);
      },
      "[scaled_dot_product_attention] q is (3, 8), wanted (N, T, H, D)");
  expect_error<ShapeError>(
      [&] {
        return attend(q, Tensor::ones({2, 5, 2, 8}), k);
      },
      "k is (2, 5, 2, 8), wanted (2, 5, 4, 8)");
  expect_error<ShapeError>([&] { return attend(q, k, q); },
                           "v is (2, 3, 4, 8), wanted (2, 5, 4, 8)");
  expect_error<ShapeError>([&] { return attend(q, k.to(DType::f64), k); },
                           "q (2, 3, 4, 8) is f32, k (2, 5, 4, 8) is f64; dtypes must be equal");
  const Tensor integers = Tensor::ones({2, 3, 4, 8}, {.dtype = DType::i32});
  expect_error<ShapeError>([&] { return attend(integers, integers, integers); },
                           "q (2, 3, 4, 8) is i32, wanted a floating dtype");
  expect_error<ShapeError>(
      [&] { return scaled_dot_product_attention_packed(q); },
      "[scaled_dot_product_attention_packed] qkv is (2, 3, 4, 8), wanted (N, T, 3, H, D)");
}

TEST(Attention, RefusesOptionsThatDoNotFit) {
  const Tensor q = Tensor::ones({2, 3, 4, 8}), k = Tensor::ones({2, 5, 4, 8});
  expect_error<ShapeError>(
      [&] { return attend(q, k, k, {.causal = true}); },
      "causal wants as many keys as queries: q is (2, 3, 4, 8), k (2, 5, 4, 8)");
  expect_error<ShapeError>(
      [&] {
        return attend(q, k, k, {.mask = Tensor::ones({3, 4})});
      },
      "mask is (1, 1, 3, 4), wanted (2 or 1, 4 or 1, 3 or 1, 5), or the last two of these");
  expect_error<ShapeError>(
      [&] {
        return attend(q, k, k, {.mask = Tensor::ones({3, 5}, {.dtype = DType::f64})});
      },
      "mask (1, 1, 3, 5) is f64, wanted boolean, or q's f32 to be added to the scores");
  expect_error<ShapeError>([&] { return attend(q, k, k, {.lengths = Tensor::ones({2})}); },
                           "lengths (2,) is f32, wanted i32");
  expect_error<ShapeError>(
      [&] {
        return attend(q, k, k, {.lengths = Tensor::from({1, 2, 3}, {3})});
      },
      "lengths is (3,), wanted (2,)");
  expect_error<ShapeError>([&] { return attend(q, k, k, {.dropout = 1.5}); },
                           "dropout is 1.5, wanted a probability in 0..1");
}

TEST(Attention, OfOnePackedTensorIsThatOfItsParts) {
  const Tensor qkv = variable({2, 5, 3, 2, 4});
  const auto part = [&](int64_t i) { return slice(qkv, 2, i, i + 1).reshape({2, 5, 2, 4}); };
  const AttentionOptions options{.causal = true};
  const Tensor y = scaled_dot_product_attention_packed(qkv, options),
               parts = attend(part(0), part(1), part(2), options);
  EXPECT_EQ(y.to_vector<double>(), parts.to_vector<double>());
  EXPECT_EQ(gradients(y, {qkv})[0].to_vector<double>(),
            gradients(parts, {qkv})[0].to_vector<double>());
}

TEST(Attention, GivesTheGradientsThatAreAskedFor) {
  const Tensor q = variable({1, 3, 2, 4}), k = variable({1, 5, 2, 4}, 1),
               v = variable({1, 5, 2, 4}, 2);
  const std::vector<Tensor> all = gradients(attend(q, k, v), {q, k, v});
  const std::vector<Tensor> one = gradients(attend(q.detach(), k, v.detach()), {k});
  EXPECT_EQ(one[0].to_vector<double>(), all[1].to_vector<double>());
}

TEST(Attention, DropsTheSameWeightsInAllDerivatives) {
  const auto dropping = [](const Inputs& in) {
    random::manual_seed(3);
    return attend(in[0], in[1], in[2], {.causal = true, .dropout = 0.4});
  };
  const Tensor q = variable({1, 5, 2, 3}), k = variable({1, 5, 2, 3}, 1),
               v = variable({1, 5, 2, 3}, 2);
  expect_gradients(dropping, {q, k, v});
  random::manual_seed(3);
  // The fused kernels and the composition, which a mask with a gradient takes.
  const Tensor mask = leaf(std::vector<double>(25, 0), {5, 5});
  const Tensor composed = attend(q, k, v, {.mask = mask, .causal = true, .dropout = 0.4});
  expect_values(composed, {1, 5, 2, 3}, dropping({q, k, v}).to_vector<double>(), 1e-14);
}

TEST(Attention, WithEverythingDroppedIsZeroWithAZeroGradient) {
  const Tensor q = variable({1, 5, 2, 3});
  const Tensor y = attend(q, q, q, {.dropout = 1});
  for (double value : y.to_vector<double>()) EXPECT_EQ(value, 0);
  for (double value : gradients(y, {q})[0].to_vector<double>()) EXPECT_EQ(value, 0);
}

// Rows that a mask of -1e9 hides, a common way to write -inf, see all keys alike; others see none
// of what it hides. The gradients are those of the formula.
TEST(Attention, TakesFiniteMasksOfAnySize) {
  for (const double hidden : {-5e3, -1e9, -3e38}) {
    for (const DType dtype : {DType::f32, DType::f64}) {
      const auto of = [&](const Shape& shape, int offset) {
        Tensor x = sequence(shape, offset).to(dtype).clone();
        x.set_requires_grad(true);
        return x;
      };
      const Tensor q = of({1, 2, 1, 4}, 1), k = of({1, 4, 1, 4}, 30), v = of({1, 4, 1, 4}, 60);
      const Tensor mask =
          Tensor::from(std::vector<double>{hidden, hidden, hidden, hidden, 0, 0, hidden, hidden},
                       {2, 4})
              .to(dtype);
      const Tensor y = attend(q, k, v, {.mask = mask});
      const Tensor dy = sequence(y.shape(), 7).to(dtype);
      const std::vector<Tensor> found =
          grad({y}, {q, k, v}, {.grad_outputs = {dy}, .retain_graph = true});
      const std::vector<Tensor> formula =
          grad({y}, {q, k, v}, {.grad_outputs = {dy}, .create_graph = true});
      for (size_t i = 0; i < 3; ++i) {
        const auto a = found[i].to(DType::f64).to_vector<double>();
        const auto b = formula[i].detach().to(DType::f64).to_vector<double>();
        for (size_t j = 0; j < a.size(); ++j) EXPECT_NEAR(a[j], b[j], 1e-3) << hidden << " " << i;
      }
      // The visible keys' own: the second query's weights of the hidden ones are 0.
      const std::vector<double> weights =
          softmax(matmul(q.detach().reshape({2, 4}), k.detach().reshape({4, 4}),
                         {.transpose_b = true}) *
                      0.5 +
                  maximum(mask, Tensor::full({}, -1e4, {.dtype = dtype})))
              .to(DType::f64)
              .to_vector<double>();
      EXPECT_EQ(weights[6], 0);
      const auto dv = found[2].to(DType::f64).to_vector<double>();
      const auto out = dy.to(DType::f64).to_vector<double>();
      for (size_t j = 0; j < 4; ++j) {
        for (size_t c = 0; c < 4; ++c) {
          EXPECT_NEAR(dv[j * 4 + c], weights[j] * out[c] + weights[4 + j] * out[4 + c], 1e-3);
        }
      }
    }
  }
}

}  // namespace
}  // namespace adret
