// The table of calls, and the file of what PyTorch gives for them.
#include "tests/support/functions.h"

#include <adret/autograd/ops/activation.h>
#include <adret/autograd/ops/arithmetic.h>
#include <adret/autograd/ops/create.h>
#include <adret/autograd/ops/elementary.h>
#include <adret/autograd/ops/extreme.h>
#include <adret/autograd/ops/logic.h>
#include <adret/autograd/ops/matmul.h>
#include <adret/autograd/ops/reduce.h>
#include <adret/autograd/ops/scan.h>
#include <adret/autograd/ops/shape.h>
#include <adret/autograd/ops/shrink.h>
#include <adret/autograd/ops/softmax.h>
#include <adret/autograd/ops/statistics.h>
#include <adret/train/safetensors.h>
#include <fmt/format.h>

#include <limits>
#include <map>
#include <set>

#include "tests/support/function_lists.h"
#include "tests/support/mirror.h"

namespace adret::test {
namespace {

using Inputs = std::vector<Tensor>;
using OfOne = Tensor (*)(const Tensor&);
using OfTwo = Tensor (*)(const Tensor&, const Tensor&);

constexpr double inf = std::numeric_limits<double>::infinity();

FunctionCase one(const char* name, OfOne function) {
  return {name, [=](const Inputs& in) { return function(in[0]); }};
}
FunctionCase two(const char* name, OfTwo function) {
  return {name, [=](const Inputs& in) { return function(in[0], in[1]); }};
}

using Cases = std::vector<FunctionCase>;

Cases unary_cases() {
  return {
      one("exp", exp),
      one("exp2", exp2),
      one("expm1", expm1),
      one("erf", erf),
      one("erfc", erfc),
      one("sin", sin),
      one("cos", cos),
      one("atan", atan),
      one("sinh", sinh),
      one("cosh", cosh),
      one("abs", abs),
      one("sign", sign),
      one("floor", floor),
      one("ceil", ceil),
      one("round", round),
      one("trunc", trunc),
      one("frac", frac),
      one("square", square),
      one("negative", negative),
      one("log", log),
      one("log2", log2),
      one("sqrt", sqrt),
      one("rsqrt", rsqrt),
      one("log1p", log1p),
      one("tan", tan),
      one("asin", asin),
      one("acos", acos),
      one("expm1/small", expm1),
      one("log1p/small", log1p),
      one("sin/large", sin),
      one("round/halves", round),
      one("sign/integers", sign),
      one("abs/integers", abs),
      one("negative/integers", negative),
      {"clamp", [](const Inputs& in) { return clamp(in[0], -1.25, 0.5); }},
      {"clamp/one_side", [](const Inputs& in) { return clamp(in[0], 0.25, inf); }},
      {"clamp/integers", [](const Inputs& in) { return clamp(in[0], -2, 5); }},
      {"clamp/ends", [](const Inputs& in) { return clamp(in[0], -1, 1); }},
      {"affine", [](const Inputs& in) { return affine(in[0], -2.5, 1); }},
      {"reciprocal", [](const Inputs& in) { return reciprocal(in[0], 3); }},
      {"pow/constant", [](const Inputs& in) { return pow(in[0], -1.5); }},
  };
}

Cases activation_cases() {
  return {
      one("relu", relu),
      one("relu6", relu6),
      one("sigmoid", sigmoid),
      one("tanh", tanh),
      one("gelu", gelu),
      one("gelu_tanh", gelu_tanh),
      one("silu", silu),
      one("silu/tails", silu),
      one("mish", mish),
      one("mish/tails", mish),
      one("softsign", softsign),
      one("logsigmoid", logsigmoid),
      one("logsigmoid/tails", logsigmoid),
      one("hardsigmoid", hardsigmoid),
      one("hardswish", hardswish),
      one("selu", selu),
      {"hardtanh", [](const Inputs& in) { return hardtanh(in[0]); }},
      {"hardtanh/bounds", [](const Inputs& in) { return hardtanh(in[0], -2, 0.5); }},
      {"softplus", [](const Inputs& in) { return softplus(in[0]); }},
      {"softplus/beta",
       [](const Inputs& in) { return softplus(in[0], {.beta = 2, .threshold = 3}); }},
      {"elu", [](const Inputs& in) { return elu(in[0]); }},
      {"elu/alpha", [](const Inputs& in) { return elu(in[0], 0.7); }},
      {"elu/zero", [](const Inputs& in) { return elu(in[0]); }},
      {"leaky_relu", [](const Inputs& in) { return leaky_relu(in[0]); }},
      {"leaky_relu/slope", [](const Inputs& in) { return leaky_relu(in[0], 0.3); }},
      two("prelu", prelu),
      two("prelu/one", prelu),
      {"glu", [](const Inputs& in) { return glu(in[0]); }},
      {"celu", [](const Inputs& in) { return celu(in[0]); }},
      {"celu/alpha", [](const Inputs& in) { return celu(in[0], 0.5); }},
      {"celu/zero", [](const Inputs& in) { return celu(in[0], 2); }},
      {"threshold", [](const Inputs& in) { return threshold(in[0], 0.25, -3); }},
      {"threshold/limit", [](const Inputs& in) { return threshold(in[0], 1, 7); }},
      {"hardshrink", [](const Inputs& in) { return hardshrink(in[0]); }},
      {"hardshrink/ends", [](const Inputs& in) { return hardshrink(in[0], 1); }},
      {"softshrink", [](const Inputs& in) { return softshrink(in[0]); }},
      {"softshrink/ends", [](const Inputs& in) { return softshrink(in[0], 1); }},
      one("tanhshrink", tanhshrink),
      {"glu/first", [](const Inputs& in) { return glu(in[0], 0); }},
  };
}

Cases binary_cases() {
  return {
      two("add", add),
      two("add/broadcast", add),
      two("subtract", subtract),
      two("subtract/broadcast", subtract),
      two("multiply", multiply),
      two("multiply/broadcast", multiply),
      two("maximum", maximum),
      two("maximum/broadcast", maximum),
      two("minimum", minimum),
      two("minimum/broadcast", minimum),
      two("hypot", hypot),
      two("hypot/broadcast", hypot),
      two("hypot/large", hypot),
      two("divide", divide),
      two("pow", pow),
      two("atan2", atan2),
      two("atan2/broadcast", atan2),
      two("fmod", fmod),
      two("fmod/integers", fmod),
      two("remainder", remainder),
      two("remainder/negative", remainder),
      two("remainder/integers", remainder),
      {"lerp", [](const Inputs& in) { return lerp(in[0], in[1], in[2]); }},
      {"lerp/constant", [](const Inputs& in) { return lerp(in[0], in[1], 0.3); }},
  };
}

Cases logic_cases() {
  const auto choose = [](const Inputs& in) { return where(in[0], in[1], in[2]); };
  return {
      {"where", choose},
      {"where/broadcast", choose},
      {"where/integers", choose},
      {"where/constant", [](const Inputs& in) { return where(in[0], in[1], 0.5); }},
      one("isnan", isnan),
      one("isnan/integers", isnan),
      one("isinf", isinf),
      one("isfinite", isfinite),
      one("isfinite/integers", isfinite),
      one("logical_not", logical_not),
      two("logical_and", logical_and),
      two("logical_and/broadcast", logical_and),
      two("logical_or", logical_or),
      two("logical_or/broadcast", logical_or),
      two("logical_xor", logical_xor),
      two("logical_xor/broadcast", logical_xor),
      two("equal", equal),
      two("not_equal", not_equal),
      two("less", less),
      two("less_equal", less_equal),
      two("greater", greater),
      two("greater_equal", greater_equal),
  };
}

using Reduction = Tensor (*)(const Tensor&, const ReduceOptions&);
FunctionCase reduction(const char* name, Reduction function, const ReduceOptions& options = {}) {
  return {name, [=](const Inputs& in) { return function(in[0], options); }};
}
FunctionCase norm_case(const char* name, double p, const ReduceOptions& options = {}) {
  return {name, [=](const Inputs& in) { return norm(in[0], p, options); }};
}

Cases reduce_cases() {
  return {
      reduction("sum", sum),
      reduction("sum/dims", sum, {{0, 2}, true}),
      reduction("mean", mean),
      reduction("mean/dims", mean, {{0, 2}, true}),
      reduction("max", max),
      reduction("max/dims", max, {{1}}),
      reduction("min", min),
      reduction("min/dims", min, {{1}}),
      reduction("prod", prod),
      reduction("prod/dim", prod, {{1}, true}),
      reduction("prod/dims", prod, {{0, 2}}),
      reduction("prod/zero", prod, {{1}}),
      reduction("logsumexp", logsumexp),
      reduction("logsumexp/dims", logsumexp, {{0, 2}, true}),
      reduction("logsumexp/infinite", logsumexp, {{1}}),
      {"var", [](const Inputs& in) { return var(in[0]); }},
      {"var/dims",
       [](const Inputs& in) {
         return var(in[0], {.dims = {0, 2}, .keepdim = true, .correction = 0});
       }},
      {"stddev", [](const Inputs& in) { return stddev(in[0]); }},
      {"stddev/dims", [](const Inputs& in) { return stddev(in[0], {.dims = {1}}); }},
      norm_case("norm", 2),
      norm_case("norm/dims", 2, {{0, 2}}),
      norm_case("norm/one", 1, {{1}}),
      norm_case("norm/infinity", inf, {{1}}),
      norm_case("norm/three", 3, {{1}, true}),
      norm_case("norm/zero", 0, {{1}}),
      reduction("any", any),
      reduction("any/dim", any, {{1}}),
      reduction("all", all),
      reduction("all/dim", all, {{1}, true}),
      reduction("count_nonzero", count_nonzero),
      reduction("count_nonzero/dim", count_nonzero, {{0}}),
      {"sum_to",
       [](const Inputs& in) {
         return sum_to(in[0], {1, 5});
       }},
      {"softmax", [](const Inputs& in) { return softmax(in[0]); }},
      {"log_softmax", [](const Inputs& in) { return log_softmax(in[0], 1); }},
  };
}

FunctionCase values_case(const char* name, Extremes (*function)(const Tensor&, const AlongOptions&),
                         const AlongOptions& options) {
  return {name, [=](const Inputs& in) { return function(in[0], options).values; }};
}
FunctionCase place_case(const char* name, Tensor (*function)(const Tensor&, const AlongOptions&),
                        const AlongOptions& options) {
  return {name, [=](const Inputs& in) { return function(in[0], options); }};
}

Cases line_cases() {
  return {
      values_case("max_with_indices", max_with_indices, {.dim = 1}),
      values_case("max_with_indices/keepdim", max_with_indices, {.dim = 0, .keepdim = true}),
      values_case("max_with_indices/ties", max_with_indices, {.dim = 1}),
      values_case("min_with_indices", min_with_indices, {.dim = 1}),
      values_case("min_with_indices/keepdim", min_with_indices, {.dim = 0, .keepdim = true}),
      values_case("min_with_indices/ties", min_with_indices, {.dim = 1}),
      place_case("argmax", argmax, {}),
      place_case("argmax/dim", argmax, {.dim = 1}),
      place_case("argmax/integers", argmax, {.dim = 1}),
      place_case("argmax/nan", argmax, {.dim = 1}),
      place_case("argmin", argmin, {}),
      place_case("argmin/dim", argmin, {.dim = 1}),
      place_case("argmin/integers", argmin, {.dim = 1}),
      place_case("argmin/nan", argmin, {.dim = 1}),
      {"cumsum", [](const Inputs& in) { return cumsum(in[0], 1); }},
      {"cumsum/last", [](const Inputs& in) { return cumsum(in[0], -1); }},
      {"cumsum/reverse", [](const Inputs& in) { return cumsum(in[0], 0, {.reverse = true}); }},
      {"cumsum/exclusive", [](const Inputs& in) { return cumsum(in[0], 1, {.exclusive = true}); }},
      {"cumprod", [](const Inputs& in) { return cumprod(in[0], 1); }},
      {"cumprod/zero", [](const Inputs& in) { return cumprod(in[0], -1); }},
      {"cumprod/reverse", [](const Inputs& in) { return cumprod(in[0], 2, {.reverse = true}); }},
      {"linear_recurrence", [](const Inputs& in) { return linear_recurrence(in[0], in[1], 1); }},
  };
}

Cases shape_cases() {
  return {
      {"reshape",
       [](const Inputs& in) {
         return reshape(in[0], std::vector<int64_t>{6, 10});
       }},
      one("flatten", flatten),
      {"transpose", [](const Inputs& in) { return transpose(in[0], 0, 2); }},
      {"permute",
       [](const Inputs& in) {
         return permute(in[0], {1, 2, 0});
       }},
      {"slice", [](const Inputs& in) { return slice(in[0], 1, 1, 3); }},
      {"concatenate", [](const Inputs& in) { return concatenate(in, 1); }},
      {"broadcast_to",
       [](const Inputs& in) {
         return broadcast_to(in[0], {2, 3, 5});
       }},
      {"matmul", [](const Inputs& in) { return matmul(in[0], in[1]); }},
      {"linear", [](const Inputs& in) { return linear(in[0], in[1], in[2]); }},
  };
}

Cases creation_cases() {
  const TensorOptions f64{.dtype = DType::f64}, i64{.dtype = DType::i64};
  return {
      {"arange", [=](const Inputs&) { return arange(-1, 2.3, 0.3, f64); }},
      {"arange/integers", [=](const Inputs&) { return arange(7, -4, -2, i64); }},
      {"linspace", [=](const Inputs&) { return linspace(-3, 11, 8, f64); }},
      {"eye", [=](const Inputs&) { return eye(3, f64); }},
      {"eye/wide", [=](const Inputs&) { return eye(2, 4, f64); }},
      {"one_hot", [](const Inputs& in) { return one_hot(in[0], 5, DType::i64); }},
  };
}

using Names = std::map<std::string, Tensor>;

const Names& golden_tensors() {
  static const Names tensors = [] {
    Names named;
    for (const char* part : {"", "_shape", "_norm", "_loss", "_attention", "_image", "_recurrent",
                             "_volume", "_integer"}) {
      const auto path =
          source_dir() / "tests/golden" / fmt::format("functions{}.safetensors", part);
      for (const auto& [name, tensor] : read_tensors(path).tensors) named[name] = tensor;
    }
    return named;
  }();
  return tensors;
}

}  // namespace

const std::vector<FunctionCase>& function_cases() {
  static const Cases all = [] {
    Cases list;
    for (const Cases& part : {unary_cases(), activation_cases(), binary_cases(), logic_cases(),
                              reduce_cases(), line_cases(), shape_cases(), creation_cases(),
                              rearrange_cases(), norm_cases(), loss_cases(), attention_cases(),
                              image_cases(), recurrent_cases(), volume_cases(), integer_cases()}) {
      list.insert(list.end(), part.begin(), part.end());
    }
    return list;
  }();
  return all;
}

bool FunctionGolden::has_gradient() const {
  for (const Tensor& gradient : gradients) {
    if (gradient.defined()) return true;
  }
  return false;
}

FunctionGolden golden_of(const FunctionCase& test) {
  const Names& tensors = golden_tensors();
  const std::string name = test.name;
  FunctionGolden golden;
  golden.y = tensors.at(name + ":y");
  for (int i = 0; tensors.contains(name + ":" + std::to_string(i)); ++i) {
    golden.inputs.push_back(tensors.at(name + ":" + std::to_string(i)));
    const auto gradient = tensors.find(name + ":d" + std::to_string(i));
    golden.gradients.push_back(gradient == tensors.end() ? Tensor() : gradient->second);
  }
  return golden;
}

size_t golden_count() {
  std::set<std::string> names;
  for (const auto& [name, tensor] : golden_tensors()) names.insert(name.substr(0, name.find(':')));
  return names.size();
}

std::vector<Tensor> inputs_of(const FunctionGolden& golden, DType dtype) {
  std::vector<Tensor> inputs;
  for (size_t i = 0; i < golden.inputs.size(); ++i) {
    const Tensor& given = golden.inputs[i];
    inputs.push_back(is_floating(given.dtype()) ? given.clone().to(dtype) : given);
    if (golden.gradients[i].defined()) inputs.back().set_requires_grad(true);
  }
  return inputs;
}

}  // namespace adret::test
