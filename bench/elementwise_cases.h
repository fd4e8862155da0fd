// Functions of each element by itself.
#pragma once

#include <utility>

#include "function_cases.h"

namespace adret::bench {

struct ElementwiseCases : FunctionCases {
  ElementwiseCases(int64_t n, const TensorOptions& options) : FunctionCases{n, options} {
    of_one();
    of_two();
  }

  void of_one() {
    unary("relu", [](const Tensor& x) { return relu(x); });
    unary("leaky_relu", [](const Tensor& x) { return leaky_relu(x); });
    unary("gelu", [](const Tensor& x) { return gelu(x); });
    unary("silu", [](const Tensor& x) { return silu(x); });
    unary("mish", [](const Tensor& x) { return mish(x); });
    unary("elu", [](const Tensor& x) { return elu(x); });
    unary("softplus", [](const Tensor& x) { return softplus(x); });
    unary("hardswish", [](const Tensor& x) { return hardswish(x); });
    unary("sigmoid", [](const Tensor& x) { return sigmoid(x); });
    unary("tanh", [](const Tensor& x) { return tanh(x); });
    unary("exp", [](const Tensor& x) { return exp(x); });
    unary("log1p of square", [](const Tensor& x) { return log1p(square(x)); });
    unary("sin", [](const Tensor& x) { return sin(x); });
    unary("erf", [](const Tensor& x) { return erf(x); });
    unary("log of square", [](const Tensor& x) { return log(square(x)); });
    unary("sqrt of square", [](const Tensor& x) { return sqrt(square(x)); });
    const std::pair<const char*, Tensor (*)(const Tensor&)> others[] = {
        {"cos", cos},
        {"tan", tan},
        {"atan", atan},
        {"sinh", sinh},
        {"expm1", expm1},
        {"erfc", erfc},
        {"selu", selu},
        {"logsigmoid", logsigmoid},
        {"hardsigmoid", hardsigmoid}};
    for (const auto& [name, f] : others) unary(name, f);
    unary("abs", [](const Tensor& x) { return abs(x); });
    unary("clamp", [](const Tensor& x) { return clamp(x, -0.5, 0.5); });
    unary("pow", [](const Tensor& x) { return pow(x, 3); });
    unary("floor", [](const Tensor& x) { return floor(x); });
    unary("dropout", [](const Tensor& x) { return dropout(x, 0.1, true); });
  }

  void of_two() {
    const std::vector<Shape> two = {images(32, 64), images(32, 64)};
    add("add", two, [](Inputs x) { return x[0] + x[1]; });
    add("multiply", two, [](Inputs x) { return x[0] * x[1]; });
    add("divide", two, [](Inputs x) { return x[0] / x[1]; });
    add("maximum", two, [](Inputs x) { return maximum(x[0], x[1]); });
    add("atan2", two, [](Inputs x) { return atan2(x[0], x[1]); });
    add("hypot", two, [](Inputs x) { return hypot(x[0], x[1]); });
    add("fmod", two, [](Inputs x) { return fmod(x[0], x[1]); });
    add("remainder", two, [](Inputs x) { return remainder(x[0], x[1]); });
    add("add of channels", {images(32, 64), {64}}, [](Inputs x) { return x[0] + x[1]; });
    add(
        "less", two, [](Inputs x) { return less(x[0], x[1]); }, false);
    const Tensor chosen = less(constant(images(32, 64)), constant(images(32, 64)));
    add("where", two, [=](Inputs x) { return where(chosen, x[0], x[1]); });
    add("masked_fill", {images(32, 64)}, [=](Inputs x) { return masked_fill(x[0], chosen, 1); });
  }
};

}  // namespace adret::bench
