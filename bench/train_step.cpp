// Times whole training steps: forward, cross-entropy, backward, SGD with momentum or AdamW. Prints
// one JSON line a case, comparable with bench/peers.
//
//   train_step lenet:64:tf32:graph ... [--device cpu|cuda|auto] [--seconds S]
//   train_step lenet:64:tf32:eager --first-step    the time from the start of the process
#include <adret/core/backend.h>
#include <adret/core/error.h>
#include <adret/core/thread_pool.h>
#include <adret/train/progress.h>
#include <fmt/core.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "../examples/process_clock.h"
#include "training.h"

namespace {

using namespace adret;
using namespace adret::bench;

// Milliseconds of a step in each block of steps, at least 50 ms long, for `seconds`.
std::vector<double> time_blocks(Training& training, DeviceServices& services, double seconds) {
  for (int i = 0; i < 10; ++i) training.step(i);
  services.synchronize();
  services.pool().reset_peak();
  std::vector<double> blocks;
  int steps = 4;
  for (const double end = steady_seconds() + seconds;
       steady_seconds() < end || blocks.size() < 5;) {
    const double begin = steady_seconds();
    for (int i = 0; i < steps; ++i) training.step(i);
    services.synchronize();
    const double elapsed = steady_seconds() - begin;
    if (elapsed < 0.05 && blocks.empty()) {
      steps *= 2;
      continue;
    }
    blocks.push_back(elapsed / steps * 1e3);
  }
  return blocks;
}

double median(std::vector<double> values) {
  std::nth_element(values.begin(), values.begin() + std::ptrdiff_t(values.size() / 2),
                   values.end());
  return values[values.size() / 2];
}

nlohmann::ordered_json describe(const Case& test, Device device) {
  return {{"workload", test.workload},
          {"batch", test.batch},
          {"precision", test.precision},
          {"mode", test.mode},
          {"device", to_string(device)}};
}

nlohmann::ordered_json measure(const Case& test, Device device, double seconds) {
  DeviceServices& services = backend_for(device).services();
  Training training(test, device);
  const double ms = median(time_blocks(training, services, seconds));
  nlohmann::ordered_json result = describe(test, device);
  result["ms_per_step"] = ms;
  result["items_per_s"] = double(test.batch) / ms * 1e3;
  const StepReport& report = training.report();
  result["peak_mib"] = double(services.pool().stats().peak + report.scratch_bytes) / (1 << 20);
  if (report.replays > 0) {
    result["kernels"] = report.kernels;
    result["captured"] = report.captured;
    result["planned_mib"] = double(report.planned_bytes) / (1 << 20);
    if (!report.reason.empty()) result["reason"] = report.reason;
  }
  if (device.is_cpu()) {
    result["threads"] = num_threads();
    result["cpu_arch"] = cpu_arch();
  }
  return result;
}

nlohmann::ordered_json measure_first_step(const Case& test, Device device) {
  Training training(test, device);
  const double before = adret::examples::seconds_since_start();
  training.step(0);
  backend_for(device).services().synchronize();
  nlohmann::ordered_json result = describe(test, device);
  result["before_first_step_s"] = before;
  result["first_step_s"] = adret::examples::seconds_since_start();
  return result;
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app("Times training steps; a line of JSON per case.");
  std::vector<std::string> cases;
  double seconds = 3;
  int threads = num_threads();
  std::string device_name = "auto";
  bool first_step = false;
  app.add_option("cases", cases, "workload:batch:precision:mode, as lenet:64:fp32:eager")
      ->required();
  app.add_option("--seconds", seconds, "how long to measure each case")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  app.add_option("--device", device_name, "cpu, cuda, cuda:N, or auto: a GPU if there is one")
      ->capture_default_str();
  app.add_flag("--first-step", first_step,
               "of one case: seconds from the start of the process to the end of the first step");
  app.add_option("--threads", threads, "CPU threads")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : 1;
  }
  try {
    set_num_threads(threads);
    const Device device = Device::parse(device_name);
    if (first_step && cases.size() > 1) throw Error("[train_step] --first-step is of one case");
    for (const std::string& text : cases) {
      const Case test = parse_case(text, device);
      const ComputeModeScope scope(mode_of(test));
      const auto result =
          first_step ? measure_first_step(test, device) : measure(test, device, seconds);
      fmt::print("{}\n", result.dump());
      std::fflush(stdout);
    }
  } catch (const std::exception& error) {
    fmt::print(stderr, "train_step: {}\n", error.what());
    return 1;
  }
}
