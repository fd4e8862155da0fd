// Where a training step's time goes: each kernel against the device's ceilings of arithmetic and
// memory, by the time lost below them. Prints a Markdown table a case.
//
//   roofline lenet:64:tf32 ... [--device cpu|cuda|auto] [--steps N] [--top N] [--places] [--json]
#include <adret/core/backend.h>
#include <adret/core/decorators/profile.h>
#include <adret/core/decorators/roofline.h>
#include <adret/core/error.h>
#include <adret/core/thread_pool.h>
#include <adret/train/progress.h>
#include <fmt/core.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "ceilings.h"
#include "training.h"

namespace {

using namespace adret;
using namespace adret::bench;

struct Options {
  int steps = 20;
  size_t top = 30;
  bool places = false;
};

// A kernel's share of a step; the times and counts are those of one step.
struct Line {
  ProfileRow row;
  Roofline roofline;
};

struct Report {
  std::string test;
  Device device;
  Ceilings ceilings;
  std::vector<Line> lines;  // the most time lost first
  double eager = 0;         // seconds of a step by the host's clock
  double ahead = 0;         // of a step that was launched before the device began it
  double kernels = 0, least = 0, lost = 0;  // the lines' together
};

// Mean seconds of a step by the device's clock, launched in full before it begins.
double seconds_ahead(Training& training, DeviceServices& services, int steps, double hold) {
  double sum = 0;
  for (int i = 0; i < steps; ++i) {
    services.hold(hold);
    const Moment begin = services.timestamp();
    training.step(i);
    const Moment end = services.timestamp();
    sum += end->seconds_since(*begin);
  }
  return sum / steps;
}

double seconds_eager(Training& training, DeviceServices& services, int steps) {
  services.synchronize();
  const double begin = steady_seconds();
  for (int i = 0; i < steps; ++i) training.step(i);
  services.synchronize();
  return (steady_seconds() - begin) / steps;
}

// How long the device has to be held for a profiled step to be launched meanwhile. Queues have an
// end, and so has the wait.
double hold_for_launching(Training& training, DeviceServices& services) {
  constexpr double longest = 20e-3;
  Profile profile;
  services.synchronize();
  const double begin = steady_seconds();
  training.step(0);
  return std::min(2 * (steady_seconds() - begin), longest);
}

std::vector<ProfileRow> profile_steps(Training& training, DeviceServices& services, int steps,
                                      double hold) {
  Profile profile;
  for (int i = 0; i < steps; ++i) {
    services.hold(hold);
    training.step(i);
    services.synchronize();
  }
  return profile.rows();
}

Report measure(const std::string& text, Device device, MeasuredCeilings& ceilings,
               const Options& options) {
  constexpr int warm_up = 5;
  const Case test = parse_case(text, device);
  const ComputeModeScope scope(mode_of(test));
  DeviceServices& services = backend_for(device).services();
  Training training(test, device);
  for (int i = 0; i < warm_up; ++i) training.step(i);
  const double hold = hold_for_launching(training, services);
  std::vector<ProfileRow> rows = profile_steps(training, services, options.steps, hold);
  if (!options.places) rows = merge_places(rows);
  Report report{.test = text,
                .device = device,
                .ceilings = ceilings.with(rows),
                .eager = seconds_eager(training, services, options.steps),
                .ahead = seconds_ahead(training, services, options.steps, hold)};
  for (ProfileRow& row : rows) {
    row.seconds /= options.steps;
    row.flops /= options.steps;
    row.bytes /= options.steps;
    const Roofline line = roofline(row, report.ceilings);
    report.kernels += row.seconds;
    report.least += line.least_seconds;
    report.lost += line.lost_seconds;
    report.lines.push_back({row, line});
  }
  std::ranges::stable_sort(report.lines, std::ranges::greater(),
                           [](const Line& line) { return line.roofline.lost_seconds; });
  return report;
}

// -- printing ------------------------------------------------------------------------------------

void print_line(const Line& line, const Report& report, const Options& options) {
  const auto& [row, roofline] = line;
  fmt::print(
      "| {} {}{} | {:.4g} | {:.2f} | {:.1f} | {:.3f} | {:.2f} | {:.1f} | {:.1f} | {:.2f} |\n",
      row.kernel, row.operands, options.places ? ", in " + row.place : "",
      double(row.calls) / options.steps, row.seconds * 1e6, row.seconds / report.kernels * 100,
      row.flops * 1e-9, row.bytes * 1e-6, roofline.of_arithmetic * 100, roofline.of_memory * 100,
      roofline.lost_seconds * 1e6);
}

// The sum of lines, from one to the last.
void print_sum(const std::string& label, const Report& report, size_t first,
               const Options& options) {
  double calls = 0, seconds = 0, flops = 0, bytes = 0, lost = 0;
  for (size_t i = first; i < report.lines.size(); ++i) {
    const auto& [row, roofline] = report.lines[i];
    calls += double(row.calls) / options.steps;
    seconds += row.seconds;
    flops += row.flops;
    bytes += row.bytes;
    lost += roofline.lost_seconds;
  }
  fmt::print("| {} | {:.4g} | {:.2f} | {:.1f} | {:.3f} | {:.2f} | | | {:.2f} |\n", label, calls,
             seconds * 1e6, seconds / report.kernels * 100, flops * 1e-9, bytes * 1e-6, lost * 1e6);
}

std::string text_of(const Ceilings& ceilings) {
  std::string text = fmt::format("memory {:.1f} GB/s", ceilings.bytes_per_second * 1e-9);
  for (const auto& [arithmetic, peak] : ceilings.flops_per_second) {
    text += fmt::format(", {} {:.2f} TFLOP/s", to_string(arithmetic), peak * 1e-12);
  }
  return text;
}

void print_table(const Report& report, const Options& options) {
  fmt::print("{} on {}; ceilings: {}\n\n", report.test, to_string(report.device),
             text_of(report.ceilings));
  fmt::print(
      "| kernel | calls | us | % of step | GFLOP | MB | % of arithmetic | % of memory | us lost |\n"
      "|---|---|---|---|---|---|---|---|---|\n");
  const size_t shown = std::min(options.top, report.lines.size());
  for (size_t i = 0; i < shown; ++i) print_line(report.lines[i], report, options);
  if (shown < report.lines.size()) {
    print_sum(fmt::format("{} others", report.lines.size() - shown), report, shown, options);
  }
  print_sum("all", report, 0, options);
  const std::string ahead =
      report.device.is_cpu()
          ? ""
          : fmt::format(" {:.1f} us launched ahead of the device,", report.ahead * 1e6);
  fmt::print("\nA step takes {:.1f} us eagerly,{} {:.1f} us at the kernels' ceilings.\n\n",
             report.eager * 1e6, ahead, report.least * 1e6);
}

void print_json(const Report& report, const Options& options) {
  nlohmann::ordered_json ceilings{{"bytes_per_s", report.ceilings.bytes_per_second}};
  for (const auto& [arithmetic, peak] : report.ceilings.flops_per_second) {
    ceilings[std::string("flops_per_s_") + to_string(arithmetic)] = peak;
  }
  nlohmann::ordered_json rows = nlohmann::ordered_json::array();
  for (const auto& [row, roofline] : report.lines) {
    rows.push_back({{"kernel", row.kernel},
                    {"operands", row.operands},
                    {"place", row.place},
                    {"arithmetic", to_string(row.arithmetic)},
                    {"calls", double(row.calls) / options.steps},
                    {"us", row.seconds * 1e6},
                    {"flops", row.flops},
                    {"bytes", row.bytes},
                    {"of_arithmetic", roofline.of_arithmetic},
                    {"of_memory", roofline.of_memory},
                    {"us_lost", roofline.lost_seconds * 1e6}});
  }
  const nlohmann::ordered_json result{{"case", report.test},
                                      {"device", to_string(report.device)},
                                      {"ceilings", ceilings},
                                      {"us_eager", report.eager * 1e6},
                                      {"us_ahead", report.ahead * 1e6},
                                      {"us_kernels", report.kernels * 1e6},
                                      {"us_least", report.least * 1e6},
                                      {"us_lost", report.lost * 1e6},
                                      {"rows", rows}};
  fmt::print("{}\n", result.dump());
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app("Training steps, kernel by kernel, against the device's ceilings.");
  std::vector<std::string> cases;
  Options options;
  int threads = num_threads();
  std::string device_name = "auto";
  bool json = false;
  app.add_option("cases", cases, "workload:batch:precision, as lenet:64:fp32")->required();
  app.add_option("--device", device_name, "cpu, cuda, cuda:N, or auto: a GPU if there is one")
      ->capture_default_str();
  app.add_option("--threads", threads, "CPU threads")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  app.add_option("--steps", options.steps, "steps that are averaged")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  app.add_option("--top", options.top, "kernels in the table")->capture_default_str();
  app.add_flag("--places", options.places, "the same kernel apart for each module that runs it");
  app.add_flag("--json", json, "a line of JSON a case, with all kernels");
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : 1;
  }
  try {
    set_num_threads(threads);
    const Device device = Device::parse(device_name);
    MeasuredCeilings ceilings(device);
    for (const std::string& text : cases) {
      const Report report = measure(text, device, ceilings, options);
      json ? print_json(report, options) : print_table(report, options);
      std::fflush(stdout);
    }
  } catch (const std::exception& error) {
    fmt::print(stderr, "roofline: {}\n", error.what());
    return 1;
  }
}
