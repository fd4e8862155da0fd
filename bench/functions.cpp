// Times single functions, forward and with their backward pass. Prints one JSON line each,
// comparable with bench/peers/torch_functions.py; bench/compare_functions runs both. A result is
// dropped at once, so that its memory, still in the cache, serves the next call, as in PyTorch.
//
//   functions [--only TEXT] [--device cpu|cuda] [--dtype f32|bf16] [--batch N] [--seconds S]
//             [--threads N] [--processor-time]
#include <adret/core/backend.h>
#include <adret/core/thread_pool.h>
#include <fmt/core.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <ctime>
#include <iterator>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "elementwise_cases.h"
#include "layer_cases.h"
#include "loss_cases.h"
#include "optimizer_cases.h"
#include "shape_cases.h"

namespace {

using namespace adret;
using namespace adret::bench;

// How long to measure each time, and by which clock.
struct Timing {
  double seconds = 0.1;
  bool in_processor_time = false;

  double now() const {
    if (in_processor_time) return double(std::clock()) / CLOCKS_PER_SEC;
    return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch())
        .count();
  }
};

// Microseconds of a call: the median of blocks of at least 5 ms, for `timing.seconds`.
template <class F>
double time(DeviceServices& services, const Timing& timing, const F& call) {
  const auto block = [&](int calls) {
    const double begin = timing.now();
    for (int i = 0; i < calls; ++i) call();
    services.synchronize();
    return timing.now() - begin;
  };
  block(2);
  int calls = 1;
  while (block(calls) < 5e-3) calls *= 2;
  std::vector<double> times;
  for (double sum = 0; sum < timing.seconds || times.size() < 5; sum += times.back()) {
    times.push_back(block(calls));
  }
  std::nth_element(times.begin(), times.begin() + int64_t(times.size() / 2), times.end());
  return times[times.size() / 2] / calls * 1e6;
}

nlohmann::ordered_json measure(const FunctionCase& test, const TensorOptions& options,
                               const Timing& timing) {
  DeviceServices& services = backend_for(options.device).services();
  std::vector<Tensor> inputs;
  for (const Shape& shape : test.shapes) {
    const bool in_f32 = test.weights_in_f32 && !inputs.empty();
    inputs.push_back(randn(shape).to(options.device).to(in_f32 ? DType::f32 : options.dtype));
    inputs.back().set_requires_grad(test.learns);
  }
  nlohmann::ordered_json result = {{"function", test.name}};
  Tensor dy;
  {
    const NoGrad no_grad;
    const Tensor y = test.function(inputs);
    if (test.learns) dy = randn(y.shape()).to(options.device).to(y.dtype());
  }
  {
    const NoGrad no_grad;  // A block of its own: y is gone
    result["forward_us"] = time(services, timing, [&] { test.function(inputs); });
  }
  if (!test.learns) return result;
  result["both_us"] = time(services, timing,
                           [&] { grad({test.function(inputs)}, inputs, {.grad_outputs = {dy}}); });
  return result;
}

std::vector<FunctionCase> function_cases(int64_t batch, const TensorOptions& options) {
  std::vector<FunctionCase> all;
  const auto append = [&](FunctionCases cases) {
    std::move(cases.list.begin(), cases.list.end(), std::back_inserter(all));
  };
  append(LayerCases(batch, options));
  append(ElementwiseCases(batch, options));
  append(ShapeCases(batch, options));
  append(LossCases(batch, options));
  append(OptimizerCases(batch, options));
  return all;
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app("Times functions, forward and with their backward pass; a line of JSON each.");
  std::string only, device = "cpu", dtype = "f32";
  int64_t batch = 32;
  Timing timing;
  int threads = num_threads();
  app.add_option("--only", only, "functions whose name holds this text");
  app.add_option("--device", device, "cpu, cuda or cuda:N")->capture_default_str();
  app.add_option("--dtype", dtype, "f32 or bf16")
      ->check(CLI::IsMember({"f32", "bf16"}))
      ->capture_default_str();
  app.add_option("--batch", batch, "images or sequences")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  app.add_option("--seconds", timing.seconds, "how long to measure each time")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  app.add_option("--threads", threads, "CPU threads")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  app.add_flag("--processor-time", timing.in_processor_time,
               "of all threads, for a machine that does other work: with --threads 1");
  CLI11_PARSE(app, argc, argv);
  try {
    set_num_threads(threads);
    const TensorOptions options{.dtype = dtype == "bf16" ? DType::bf16 : DType::f32,
                                .device = Device::parse(device)};
    for (const FunctionCase& test : function_cases(batch, options)) {
      if (test.name.find(only) == std::string::npos) continue;
      fmt::print("{}\n", measure(test, options, timing).dump());
      std::fflush(stdout);
    }
  } catch (const std::exception& error) {
    fmt::print(stderr, "functions: {}\n", error.what());
    return 1;
  }
}
