// Times the linear layer's kernels and matrix products by the choice without a race and by the best
// of one: a Markdown table.
#include <adret/core/compute_mode.h>
#include <adret/core/kernels/kernel.h>
#include <adret/core/tensor.h>
#include <fmt/core.h>

#include "timing.h"

#include <CLI/CLI.hpp>
#include <cstdlib>
#include <functional>
#include <string>
#include <vector>

namespace {

using namespace adret;
using namespace adret::bench;
using kernels::Activation;

struct Precision {
  const char* name;
  DType dtype;
  MathMode math;
};
constexpr Precision f32 = {"f32", DType::f32, MathMode::exact};
constexpr Precision tf32 = {"tf32", DType::f32, MathMode::tf32};
constexpr Precision bf16 = {"bf16", DType::bf16, MathMode::exact};

struct Case {
  std::string kernel, shape, precision;
  std::function<Call()> make;
};

struct Layer {
  int64_t batch, in, out;
  Activation activation = Activation::none;
  Activation before = Activation::none;  // of the layer that gave x
};

void add_layer(std::vector<Case>& cases, const Layer& l, const Precision& p) {
  const std::string shape = fmt::format("{} x {} -> {}", l.batch, l.in, l.out);
  struct Operands {
    Tensor x, weight, bias, y;
  };
  const auto operands = [=] {
    return Operands{random_tensor({l.batch, l.in}, p.dtype), random_tensor({l.out, l.in}, p.dtype),
                    random_tensor({l.out}, p.dtype), random_tensor({l.batch, l.out}, p.dtype)};
  };
  const std::string forward = fmt::format("linear_forward {}", to_string(l.activation));
  cases.push_back({forward, shape, p.name, [=] {
                     const auto [x, weight, bias, y] = operands();
                     return call_of({x, weight, bias, y},
                                    kernels::LinearForward{.x = x,
                                                           .weight = weight,
                                                           .bias = bias,
                                                           .y = y,
                                                           .activation = l.activation,
                                                           .math = p.math});
                   }});
  const std::string backward_input = fmt::format("linear_backward_input {}", to_string(l.before));
  cases.push_back({backward_input, shape, p.name, [=] {
                     const auto [x, weight, bias, dy] = operands();
                     const Tensor dx = random_tensor({l.batch, l.in}, p.dtype);
                     const bool activated = l.before != Activation::none;
                     return call_of({x, weight, dy, dx},
                                    kernels::LinearBackwardInput{
                                        .dy = dy,
                                        .weight = weight,
                                        .saved = activated ? TensorView(x) : TensorView(),
                                        .dx = dx,
                                        .activation = l.before,
                                        .math = p.math});
                   }});
  cases.push_back({"linear_backward_weight", shape, p.name, [=] {
                     const auto [x, dweight, dbias, dy] = operands();
                     return call_of(
                         {x, dweight, dbias, dy},
                         kernels::LinearBackwardWeight{
                             .x = x, .dy = dy, .dweight = dweight, .dbias = dbias, .math = p.math});
                   }});
}

void add_square(std::vector<Case>& cases, int64_t size, const Precision& p) {
  cases.push_back(
      {"matmul", fmt::format("{0} x {0} x {0}", size), p.name, [=] {
         const Tensor a = random_tensor({size, size}, p.dtype);
         const Tensor b = random_tensor({size, size}, p.dtype);
         const Tensor y = random_tensor({size, size}, p.dtype);
         return call_of({a, b, y}, kernels::Matmul{.a = a, .b = b, .y = y, .math = p.math});
       }});
}

std::vector<Case> all_cases() {
  constexpr Activation relu = Activation::relu;
  constexpr Activation none = Activation::none;
  std::vector<Case> cases;
  for (const Precision& precision : {f32, tf32, bf16}) {
    for (const int64_t batch : {64, 1024, 2048}) {
      add_layer(cases, {batch, 784, 256, relu}, precision);  // the MLP
      add_layer(cases, {batch, 256, 10, none, relu}, precision);
    }
    for (const int64_t batch : {64, 2048}) {
      add_layer(cases, {batch, 400, 120, relu}, precision);  // LeNet
      add_layer(cases, {batch, 120, 84, relu, relu}, precision);
      add_layer(cases, {batch, 84, 10, none, relu}, precision);
    }
    add_layer(cases, {64, 9216, 128, relu}, precision);  // MNIST's CNN
  }
  // A feed-forward layer of GPT-2.
  for (const Precision& precision : {tf32, bf16}) {
    add_layer(cases, {16384, 768, 3072, relu}, precision);
  }
  add_layer(cases, {16384, 768, 3072, Activation::gelu}, bf16);
  add_square(cases, 4096, f32);
  add_square(cases, 8192, tf32);
  add_square(cases, 8192, bf16);
  return cases;
}

struct Times {
  double captured, eager;
};

Times measure(const Call& call, PlanSearch plans, double seconds, cudaStream_t stream) {
  ComputeMode mode = compute_mode();
  mode.plans = plans;
  const ComputeModeScope scope(mode);
  call.run();
  const double eager_us = eager(call.run, seconds);
  return {captured(call.run, seconds, stream), eager_us};
}

void report(const Case& test, double seconds, cudaStream_t stream) {
  try {
    const Call call = test.make();
    const Times first = measure(call, PlanSearch::heuristic, seconds, stream);
    const Times best = measure(call, PlanSearch::measure, seconds, stream);
    fmt::print("| {} | {} | {} | {:.2f} | {:.2f} | {:.2f} | {:.1f} | {:.2f} | {:.2f} |\n",
               test.kernel, test.shape, test.precision, first.captured, best.captured,
               first.captured / best.captured, call.flops / best.captured * 1e-6, first.eager,
               best.eager);
  } catch (const Error& error) {
    fmt::print("| {} | {} | {} | {} |\n", test.kernel, test.shape, test.precision, error.what());
  }
  std::fflush(stdout);
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app(
      "Times the linear layer and matrix products, captured in a CUDA graph and eager, by the "
      "first "
      "suggestion and by the best of a race. ADRET_CACHE names a folder, empty at first, for the "
      "choices with the times of all candidates; none are kept without it.");
  double seconds = 0.03;
  std::string filter;
  app.add_option("--seconds", seconds, "how long to measure each case")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  app.add_option("--filter", filter, "only cases whose kernel, shape and precision contain this");
  CLI11_PARSE(app, argc, argv);
  setenv("ADRET_CACHE", "off", 0);
  try {
    const cudaStream_t stream = compute_stream();
    fmt::print(
        "| kernel | shape | precision | first us | race us | first / race | TFLOP/s | first eager "
        "us | race eager us |\n|---|---|---|--:|--:|--:|--:|--:|--:|\n");
    for (const Case& test : all_cases()) {
      const std::string name = fmt::format("{} {} {}", test.kernel, test.shape, test.precision);
      if (name.find(filter) != std::string::npos) report(test, seconds, stream);
    }
  } catch (const std::exception& error) {
    fmt::print(stderr, "bench_cuda_matmul: {}\n", error.what());
    return 1;
  }
}
