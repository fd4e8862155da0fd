// Elementwise functions, reductions and rearrangements name themselves in their errors.
#include <adret/adret.h>
#include <gtest/gtest.h>

#include <utility>
#include <vector>

#include "tests/support/expect_error.h"
#include "tests/support/named_errors.h"

namespace adret {
namespace {

using namespace test;

TEST(NamedErrors, OfActivations) {
  expect_names({
      one("relu", relu),
      one("relu6", relu6),
      one("sigmoid", sigmoid),
      one("tanh", tanh),
      one("gelu", gelu),
      one("gelu_tanh", gelu_tanh),
      one("silu", silu),
      one("mish", mish),
      one("softsign", softsign),
      one("logsigmoid", logsigmoid),
      one("hardsigmoid", hardsigmoid),
      one("hardswish", hardswish),
      one("selu", selu),
      any_shape("hardtanh", [](const Tensor& x) { hardtanh(x); }),
      any_shape("softplus", [](const Tensor& x) { softplus(x); }),
      any_shape("elu", [](const Tensor& x) { elu(x); }),
      any_shape("celu", [](const Tensor& x) { celu(x); }),
      any_shape("threshold", [](const Tensor& x) { threshold(x, 0, 0); }),
      any_shape("hardshrink", [](const Tensor& x) { hardshrink(x); }),
      any_shape("softshrink", [](const Tensor& x) { softshrink(x); }),
      any_shape("tanhshrink", [](const Tensor& x) { tanhshrink(x); }),
      any_shape("leaky_relu", [](const Tensor& x) { leaky_relu(x); }),
      {"prelu", {ones({2, 4}), ones({4})}, [](const Inputs& in) { prelu(in[0], in[1]); }},
      {"glu", {ones({2, 4})}, [](const Inputs& in) { glu(in[0]); }},
  });
}

TEST(NamedErrors, OfElementwiseFunctions) {
  expect_names({
      one("exp", exp),
      one("log", log),
      one("sqrt", sqrt),
      one("abs", abs),
      one("sign", sign),
      one("negative", negative),
      one("square", square),
      one("exp2", exp2),
      one("expm1", expm1),
      one("log2", log2),
      one("log1p", log1p),
      one("rsqrt", rsqrt),
      one("erf", erf),
      one("erfc", erfc),
      one("sin", sin),
      one("cos", cos),
      one("tan", tan),
      one("asin", asin),
      one("acos", acos),
      one("atan", atan),
      one("sinh", sinh),
      one("cosh", cosh),
      one("floor", floor),
      one("ceil", ceil),
      one("round", round),
      one("trunc", trunc),
      one("frac", frac),
      any_shape("affine", [](const Tensor& x) { affine(x, 2, 1); }),
      any_shape("clamp", [](const Tensor& x) { clamp(x, 0, 1); }),
      any_shape("pow", [](const Tensor& x) { pow(x, 2); }),
      any_shape("reciprocal", [](const Tensor& x) { reciprocal(x); }),
      any_shape("isnan", isnan, 1),
      any_shape("isinf", isinf, 1),
      any_shape("isfinite", isfinite, 1),
      any_shape("logical_not", logical_not, 1),
  });
}

// What the user wrote, whatever kernel does it: in errors, and in the steps and gradients that
// reports name.
TEST(NamedErrors, OfOperatorsWithAScalar) {
  expect_names({
      any_shape("add", [](const Tensor& x) { x + 1; }),
      any_shape("add", [](const Tensor& x) { 1 + x; }),
      any_shape("subtract", [](const Tensor& x) { x - 1; }),
      any_shape("subtract", [](const Tensor& x) { 1 - x; }),
      any_shape("multiply", [](const Tensor& x) { x * 2; }),
      any_shape("multiply", [](const Tensor& x) { 2 * x; }),
      any_shape("divide", [](const Tensor& x) { x / 2; }),
      any_shape("divide", [](const Tensor& x) { 2 / x; }),
      any_shape("pow", [](const Tensor& x) { pow(x, 0.5); }),
      any_shape("negative", [](const Tensor& x) { -x; }),
  });
  const Tensor integers = Tensor::zeros({2}, {.dtype = DType::i32});
  expect_error<ShapeError>([&] { return integers + 0.5; }, "[add] value 0.5 does not fit i32");
  expect_error<ShapeError>([&] { return 2 / integers; },
                           "[divide] b (2,) is i32, wanted a floating dtype");
  const auto name_of = [](const Tensor& y) { return static_cast<const Node&>(*y.node()).name(); };
  Tensor x = ones({2});
  x.set_requires_grad(true);
  EXPECT_STREQ(name_of(1 + x), "add");
  EXPECT_STREQ(name_of(1 - x), "subtract");
  EXPECT_STREQ(name_of(x * 2), "multiply");
  EXPECT_STREQ(name_of(x / 2), "divide");
  EXPECT_STREQ(name_of(2 / x), "divide");
  EXPECT_STREQ(name_of(pow(x, 0.5)), "pow");
  EXPECT_STREQ(name_of(-x), "negative");
  // Also of the gradient's own graph.
  EXPECT_STREQ(name_of(grad({sum(square(x * 2))}, {x}, {.create_graph = true})[0]), "multiply");
}

TEST(NamedErrors, OfFunctionsOfTwo) {
  Calls calls = {
      two("add", add),
      two("subtract", subtract),
      two("multiply", multiply),
      two("divide", divide),
      two("maximum", maximum),
      two("minimum", minimum),
      two("pow", pow),
      two("equal", equal),
      two("not_equal", not_equal),
      two("less", less),
      two("less_equal", less_equal),
      two("greater", greater),
      two("greater_equal", greater_equal),
      two("atan2", atan2),
      two("hypot", hypot),
      two("fmod", fmod),
      two("remainder", remainder),
      {"lerp",
       {ones({2, 3}), ones({2, 3}), ones({2, 3})},
       [](const Inputs& in) { lerp(in[0], in[1], in[2]); }},
      {"lerp", {ones({2, 3}), ones({2, 3})}, [](const Inputs& in) { lerp(in[0], in[1], 0.5); }},
      {"where",
       {truths({2, 3}), ones({2, 3}), ones({2, 3})},
       [](const Inputs& in) { where(in[0], in[1], in[2]); }},
      {"where",
       {ones({2, 3}), truths({2, 3})},
       [](const Inputs& in) { where(in[1], in[0], 1); },
       1},
      {"where",
       {ones({2, 3}), truths({2, 3})},
       [](const Inputs& in) { where(in[1], 1, in[0]); },
       1},
      {"masked_fill",
       {ones({2, 3}), truths({2, 3})},
       [](const Inputs& in) { masked_fill(in[0], in[1], 1); },
       1},
  };
  for (const auto& [name, f] : {std::pair<const char*, OfTwo>{"logical_and", logical_and},
                                {"logical_or", logical_or},
                                {"logical_xor", logical_xor}}) {
    calls.push_back(two(name, f));
    calls.back().any_dtype = 2;
  }
  expect_names(calls);
}

TEST(NamedErrors, OfReductionsAndScans) {
  expect_names({
      any_shape(
          "sum", [](const Tensor& x) { sum(x); }, 1),
      any_shape("mean", [](const Tensor& x) { mean(x); }),
      any_shape("max", [](const Tensor& x) { max(x); }),
      any_shape("min", [](const Tensor& x) { min(x); }),
      any_shape(
          "prod", [](const Tensor& x) { prod(x); }, 1),
      any_shape(
          "any", [](const Tensor& x) { any(x); }, 1),
      any_shape(
          "all", [](const Tensor& x) { all(x); }, 1),
      any_shape(
          "count_nonzero", [](const Tensor& x) { count_nonzero(x); }, 1),
      {"sum_to", {ones({2, 4})}, [](const Inputs& in) { sum_to(in[0], {4}); }},
      any_shape("var", [](const Tensor& x) { var(x); }),
      any_shape("stddev", [](const Tensor& x) { stddev(x); }),
      any_shape("logsumexp", [](const Tensor& x) { logsumexp(x); }),
      any_shape("norm", [](const Tensor& x) { norm(x, 1.5); }),
      any_shape("max_with_indices", [](const Tensor& x) { max_with_indices(x); }),
      any_shape("min_with_indices", [](const Tensor& x) { min_with_indices(x); }),
      any_shape("argmax", [](const Tensor& x) { argmax(x); }),
      any_shape("argmin", [](const Tensor& x) { argmin(x); }),
      any_shape(
          "cumsum", [](const Tensor& x) { cumsum(x, 0); }, 1),
      any_shape(
          "cumprod", [](const Tensor& x) { cumprod(x, 0); }, 1),
      {"linear_recurrence",
       {ones({2, 3}), ones({2, 3})},
       [](const Inputs& in) { linear_recurrence(in[0], in[1], 0); }},
      any_shape("softmax", [](const Tensor& x) { softmax(x); }),
      any_shape("log_softmax", [](const Tensor& x) { log_softmax(x); }),
      any_shape(
          "sort", [](const Tensor& x) { sort(x); }, 1),
      any_shape(
          "argsort", [](const Tensor& x) { argsort(x); }, 1),
      any_shape(
          "topk", [](const Tensor& x) { topk(x, 1); }, 1),
  });
}

TEST(NamedErrors, OfReductionsOverDimensionsThatAreNotThere) {
  expect_names({
      {"sum", {ones({2, 3, 4, 5, 6, 7})}, [](const Inputs& in) { sum(in[0], {{5}}); }, 1, 1},
  });
  const Tensor x = ones({2, 3});
  const ReduceOptions third{.dims = {2}};
  const auto refuses = [&](const char* name, auto call) {
    expect_named({name, {x}, [=](const Inputs& in) { call(in[0]); }}, {x}, "a third dimension");
  };
  refuses("any", [=](const Tensor& x) { any(x, third); });
  refuses("all", [=](const Tensor& x) { all(x, third); });
  refuses("count_nonzero", [=](const Tensor& x) { count_nonzero(x, third); });
  refuses("logsumexp", [=](const Tensor& x) { logsumexp(x, third); });
  refuses("norm", [=](const Tensor& x) { norm(x, 3, third); });
  refuses("var", [=](const Tensor& x) { var(x, {.dims = {2}}); });
  refuses("stddev", [=](const Tensor& x) { stddev(x, {.dims = {2}}); });
  refuses("cosine_similarity", [=](const Tensor& x) { cosine_similarity(x, x, {.dim = 2}); });
  refuses("celu", [=](const Tensor& x) { celu(x, 0); });
  refuses("softshrink", [=](const Tensor& x) { softshrink(x, -1); });
  refuses("hardtanh", [=](const Tensor& x) { hardtanh(x, 1, -1); });
  refuses("alpha_dropout", [=](const Tensor& x) { alpha_dropout(x, 2, true); });
  refuses("feature_alpha_dropout", [=](const Tensor& x) { feature_alpha_dropout(x, 2, true); });
  refuses("dropout2d", [=](const Tensor& x) { dropout2d(x, 2, true); });
  refuses("repeat", [=](const Tensor& x) { repeat(x, {1, 1, 1, 1, 1, 1, 1}); });
  refuses("repeat", [=](const Tensor& x) { repeat(x, {int64_t(1) << 60, 8}); });
  refuses("repeat", [=](const Tensor& x) { repeat(x, {int64_t(1) << 40, int64_t(1) << 40}); });
  refuses("pad", [=](const Tensor& x) { pad(x, {{int64_t(1) << 40, 0}, {int64_t(1) << 40, 0}}); });
  refuses("unsqueeze", [](const Tensor&) { unsqueeze(ones({1, 1, 1, 1, 1, 1}), 0); });
  refuses("stack", [](const Tensor&) { stack({ones({1, 1, 1, 1, 1, 1})}, 0); });
}

TEST(NamedErrors, OfRearrangements) {
  const auto first = [](const std::vector<Tensor>& parts) { return parts.at(0); };
  expect_names({
      {"reshape",
       {ones({2, 4})},
       [](const Inputs& in) {
         in[0].reshape({4, 2});
       },
       1},
      {"reshape",
       {ones({2, 4})},
       [](const Inputs& in) {
         in[0].reshape(Shape{4, 2});
       },
       1},
      {"reshape",
       {ones({2, 4})},
       [](const Inputs& in) {
         reshape(in[0], std::vector<int64_t>{4, 2});
       },
       1},
      any_shape("flatten", flatten, 1),
      any_shape(
          "transpose", [](const Tensor& x) { transpose(x, 0, 1); }, 1),
      {"permute",
       {ones({2, 4})},
       [](const Inputs& in) {
         permute(in[0], {1, 0});
       },
       1},
      any_shape(
          "slice", [](const Tensor& x) { slice(x, 0, 0, 1); }, 1),
      {"concatenate", {ones({2, 4}), ones({2, 4})}, [](const Inputs& in) { concatenate(in, 0); }},
      {"stack", {ones({2, 4}), ones({2, 4})}, [](const Inputs& in) { stack(in, 0); }},
      any_shape(
          "split", [=](const Tensor& x) { first(split(x, 1, 0)); }, 1),
      any_shape(
          "chunk", [=](const Tensor& x) { first(chunk(x, 2, 0)); }, 1),
      any_shape(
          "unbind", [=](const Tensor& x) { first(unbind(x)); }, 1),
      {"squeeze", {ones({2, 1})}, [](const Inputs& in) { squeeze(in[0], 1); }, 1, 1},
      {"unsqueeze", {ones({2, 1})}, [](const Inputs& in) { unsqueeze(in[0], 1); }, 1},
      {"broadcast_to",
       {ones({4})},
       [](const Inputs& in) {
         broadcast_to(in[0], {2, 4});
       },
       1},
      {"pad",
       {ones({2, 4})},
       [](const Inputs& in) {
         pad(in[0], {{1, 1}, {}});
       },
       1},
      any_shape(
          "flip", [](const Tensor& x) { flip(x, {0}); }, 1),
      any_shape(
          "roll", [](const Tensor& x) { roll(x, {1}, {0}); }, 1),
      {"repeat",
       {ones({2, 4})},
       [](const Inputs& in) {
         repeat(in[0], {1, 2});
       },
       1},
      any_shape(
          "repeat_interleave", [](const Tensor& x) { repeat_interleave(x, 2, 0); }, 1),
      any_shape(
          "clone", [](const Tensor& x) { static_cast<void>(x.clone()); }, 1),
      any_shape(
          "to", [](const Tensor& x) { static_cast<void>(x.to(DType::f64)); }, 1),
  });
}

TEST(NamedErrors, OfIndexingAndCreation) {
  const NoGrad no_grad;
  expect_names({
      {"gather",
       {ones({2, 4}), whole({2, 4})},
       [](const Inputs& in) { gather(in[0], 1, in[1]); },
       1},
      {"index_select",
       {ones({2}), whole({3})},
       [](const Inputs& in) { index_select(in[0], 0, in[1]); },
       1,
       1},
      {"scatter",
       {ones({2, 4}), whole({2, 4}), ones({2, 4})},
       [](const Inputs& in) { scatter(in[0], 1, in[1], in[2]); }},
      {"scatter_add",
       {ones({2, 4}), whole({2, 4}), ones({2, 4})},
       [](const Inputs& in) { scatter_add(in[0], 1, in[1], in[2]); }},
      {"index_add",
       {ones({2, 4}), whole({3}), ones({2, 3})},
       [](const Inputs& in) { index_add(in[0], 1, in[1], in[2]); }},
      {"embedding",
       {ones({5, 3}), whole({2})},
       [](const Inputs& in) { embedding(in[1], in[0]); },
       1},
      {"one_hot", {whole({2})}, [](const Inputs& in) { one_hot(in[0], 3); }},
      any_shape("bernoulli", bernoulli),
      any_shape("dropout", [](const Tensor& x) { dropout(x, 0.5, true); }),
      any_shape("dropout2d", [](const Tensor& x) { dropout2d(x, 0.5, true); }),
      any_shape("drop_path", [](const Tensor& x) { drop_path(x, 0.5, true); }),
      any_shape(
          "fill_", [](const Tensor& x) { fill_(x, 1); }, 1),
      {"copy_", {ones({2}), ones({2})}, [](const Inputs& in) { copy_(in[0], in[1]); }},
      {"add_", {ones({2}), ones({2})}, [](const Inputs& in) { add_(in[0], in[1]); }},
  });
}

TEST(NamedErrors, OfWhatIsMadeOfNumbers) {
  const TensorOptions integers{.dtype = DType::i32}, truths{.dtype = DType::boolean};
  const auto refuses = [](const char* name, auto call) {
    expect_named({name, {}, [=](const Inputs&) { call(); }}, {}, "numbers that make no sense");
  };
  refuses("arange", [] { arange(0, 1, 0); });
  refuses("arange", [=] { arange(0, 3, 1, truths); });
  refuses("linspace", [] { linspace(0, 1, -1); });
  refuses("linspace", [=] { linspace(0, 1, 3, truths); });
  refuses("eye", [] { eye(-1); });
  refuses("one_hot", [] { one_hot(whole({2}), -1); });
  refuses("rand", [=] { rand({2}, integers); });
  refuses("randn", [=] { randn({2}, integers); });
  refuses("randint", [] { randint(3, 3, {2}); });
  refuses("randperm", [] { randperm(-1); });
}

}  // namespace
}  // namespace adret
