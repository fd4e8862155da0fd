// Are the chosen plans of convolutions the best ones, and how long does choosing take? ResNet-50 in
// bf16 at batch 256, two of ResNet-18's layers for CIFAR in bf16, LeNet and MNIST's CNN in f32.
// Exits with 1 when a target is missed.
#include <adret/core/backend.h>
#include <adret/core/compute_mode.h>
#include <adret/core/cuda/conv_plan.h>
#include <adret/core/cuda/plan_file.h>
#include <adret/core/kernels/kernel.h>
#include <adret/core/tensor.h>
#include <fmt/core.h>
#include <unistd.h>

#include "timing.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <filesystem>
#include <string>
#include <vector>

#include "tests/support/resnet50_convs.h"

namespace {

using namespace adret;
using namespace adret::cuda;
using bench::random_tensor;

double seconds_since(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

// -- cases ---------------------------------------------------------------------------------------

struct Case {
  std::string name;
  std::vector<Tensor> tensors;
  ConvCall call;
};

struct Layer {
  std::string name;
  int64_t size, channels, outputs, kernel;
  kernels::Conv2dParams params;
  bool has_bias = false, is_first = false;
  kernels::Activation activation = kernels::Activation::none;
};

void add_cases(std::vector<Case>& cases, const Layer& l, int64_t batch, DType dtype,
               MathMode math) {
  const int64_t out = (l.size + 2 * l.params.padding.h - l.kernel) / l.params.stride.h + 1;
  const Tensor x = random_tensor({batch, l.size, l.size, l.channels}, dtype);
  const Tensor weight = random_tensor({l.outputs, l.kernel, l.kernel, l.channels}, dtype);
  const Tensor y = random_tensor({batch, out, out, l.outputs}, dtype);
  const Tensor bias = random_tensor({l.outputs}, dtype);
  const auto add = [&](const char* direction, const ConvCall& call) {
    cases.push_back({fmt::format("{} {}", l.name, direction), {x, weight, y, bias}, call});
  };
  add("forward",
      conv_call(kernels::Conv2dForward{.x = x,
                                       .weight = weight,
                                       .bias = l.has_bias ? TensorView(bias) : TensorView(),
                                       .y = y,
                                       .conv = l.params,
                                       .activation = l.activation,
                                       .math = math}));
  if (!l.is_first) {
    add("input", conv_call(kernels::Conv2dBackwardInput{
                     .dy = y, .weight = weight, .dx = x, .conv = l.params, .math = math}));
  }
  add("weight",
      conv_call(kernels::Conv2dBackwardWeight{.x = x,
                                              .dy = y,
                                              .dweight = weight,
                                              .dbias = l.has_bias ? TensorView(bias) : TensorView(),
                                              .conv = l.params,
                                              .math = math}));
}

std::vector<Case> resnet50() {
  std::vector<Case> cases;
  for (const test::SquareConv& c : test::resnet50_convs) {
    add_cases(cases,
              {.name = fmt::format("{}->{} {}x{} @{} /{}", c.channels, c.outputs, c.kernel,
                                   c.kernel, c.size, c.stride),
               .size = c.size,
               .channels = c.channels,
               .outputs = c.outputs,
               .kernel = c.kernel,
               .params = c.params(),
               .is_first = c.channels == 3},
              256, DType::bf16, MathMode::exact);
  }
  return cases;
}

// ResNet-18's layers for CIFAR that our kernels are for.
std::vector<Case> resnet18() {
  std::vector<Case> cases;
  for (const int64_t batch : {128, 512}) {
    add_cases(cases,
              {.name = fmt::format("64->64 @{}", batch),
               .size = 32,
               .channels = 64,
               .outputs = 64,
               .kernel = 3,
               .params = {.padding = 1}},
              batch, DType::bf16, MathMode::exact);
    add_cases(cases,
              {.name = fmt::format("stem @{}", batch),
               .size = 32,
               .channels = 3,
               .outputs = 64,
               .kernel = 3,
               .params = {.padding = 1},
               .is_first = true},
              batch, DType::bf16, MathMode::exact);
  }
  return cases;
}

std::vector<Case> lenet(MathMode math, int64_t batch) {
  std::vector<Case> cases;
  const Layer layers[] = {
      {"c1", 28, 1, 6, 5, {.padding = 2}, true, true},
      {"c2", 14, 6, 16, 5, {}, true, false},
  };
  for (const Layer& layer : layers) add_cases(cases, layer, batch, DType::f32, math);
  return cases;
}

std::vector<Case> mnist_cnn(MathMode math) {
  std::vector<Case> cases;
  const Layer layers[] = {
      {"c1", 28, 1, 32, 3, {}, true, true, kernels::Activation::relu},
      {"c2", 26, 32, 64, 3, {}, true, false},
  };
  for (const Layer& layer : layers) add_cases(cases, layer, 64, DType::f32, math);
  return cases;
}

// -- measuring -----------------------------------------------------------------------------------

struct Targets {
  double search, worst;  // seconds, times the best
};

// Finds all plans and returns the seconds that took.
double find_all(Context& context, const std::vector<Case>& cases,
                const std::filesystem::path& folder, std::vector<std::string>* names) {
  PlanFile file(folder, "conv", "benchmark");
  ConvPlanCache cache(context, &file);
  const auto start = std::chrono::steady_clock::now();
  for (const Case& c : cases) {
    const ConvPlan& plan = cache.find(c.call.problem, c.call.operands);
    if (names) names->push_back(plan.name());
  }
  return seconds_since(start);
}

bool report(bool holds, const std::string& what) {
  fmt::print("{} {}\n", holds ? "pass" : "FAIL", what);
  return holds;
}

// Whether all targets are met.
bool measure(Context& context, const std::string& model, const std::vector<Case>& cases,
             const std::filesystem::path& folder, bool lists_all, Targets targets) {
  const bool is_known = std::filesystem::exists(folder);
  std::vector<std::string> names;
  const double first = find_all(context, cases, folder, &names);
  const double disk = find_all(context, cases, folder, nullptr);

  fmt::print(
      "\n## {}\n\n| convolution | chosen us | best us | ratio | tried | chosen | best |\n"
      "|---|---|---|---|---|---|---|\n",
      model);
  double worst = 0, chosen_sum = 0, best_sum = 0;
  ConvPlanCache cache(context, nullptr);
  for (size_t i = 0; i < cases.size(); ++i) {
    const ConvCall& call = cases[i].call;
    std::vector<ConvSample> all = cache.measure_all(call.problem, call.operands);
    std::sort(all.begin(), all.end(), [](const ConvSample& a, const ConvSample& b) {
      return a.microseconds < b.microseconds;
    });
    const auto chosen = std::find_if(
        all.begin(), all.end(), [&](const ConvSample& sample) { return sample.plan == names[i]; });
    if (all.empty() || chosen == all.end()) {
      fmt::print("| {} | | | | {} | {} | |\n", cases[i].name, all.size(), names[i]);
      continue;
    }
    const double ratio = chosen->microseconds / all.front().microseconds;
    worst = std::max(worst, ratio);
    chosen_sum += chosen->microseconds;
    best_sum += all.front().microseconds;
    fmt::print("| {} | {:.2f} | {:.2f} | {:.3f} | {} | {} ({} KiB) | {} |\n", cases[i].name,
               chosen->microseconds, all.front().microseconds, ratio, all.size(), names[i],
               chosen->workspace >> 10, all.front().plan);
    for (const ConvSample& sample : all) {
      if (lists_all) {
        fmt::print("    {:9.2f} us {:8} KiB {}\n", sample.microseconds, sample.workspace >> 10,
                   sample.plan);
      }
    }
  }
  fmt::print("\nall together: chosen {:.1f} us, best {:.1f} us\n", chosen_sum, best_sum);
  bool holds =
      report(worst <= targets.worst, fmt::format("{}: the worst choice takes {:.3f} of the "
                                                 "best, at most {}",
                                                 model, worst, targets.worst));
  if (is_known) {
    holds &=
        report(first <= 0.05, fmt::format("{}: {} plans from disk in a new process in {:.4f} s, "
                                          "at most 0.05",
                                          model, cases.size(), first));
  } else {
    holds &=
        report(first <= targets.search, fmt::format("{}: search for {} plans {:.3f} s, at most {}",
                                                    model, cases.size(), first, targets.search));
  }
  holds &= report(disk <= 0.05,
                  fmt::format("{}: from disk again in {:.4f} s, at most 0.05", model, disk));
  return holds;
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app("Plans of convolutions: the chosen ones against the best, and the time to choose");
  std::vector<std::string> models = {"lenet", "lenet2048", "cnn", "resnet18", "resnet50"};
  std::string folder, only;
  bool lists_all = false;
  app.add_option("--models", models, "which ones, with commas between")
      ->delimiter(',')
      ->capture_default_str();
  app.add_option("--only", only, "convolutions with this in their name, as \"c1 weight\"");
  app.add_option("--cache", folder,
                 "folder for the choices; run twice to time a new process (default: a new one)");
  app.add_flag("--all", lists_all, "print every candidate");
  CLI11_PARSE(app, argc, argv);
  try {
    const std::filesystem::path cache = folder.empty() ? std::filesystem::temp_directory_path() /
                                                             fmt::format("adret-bench-{}", getpid())
                                                       : std::filesystem::path(folder);
    Context context(0);
    ComputeMode mode = compute_mode();
    mode.plans = PlanSearch::measure;
    const ComputeModeScope scope(mode);
    const auto wants = [&](const char* model) {
      return std::find(models.begin(), models.end(), model) != models.end();
    };
    bool holds = true;
    const auto measure_model = [&](const std::string& name, std::vector<Case> cases,
                                   Targets targets) {
      std::erase_if(cases, [&](const Case& c) { return c.name.find(only) == std::string::npos; });
      if (cases.empty()) return;
      backend_for(Device::cuda()).services().synchronize();
      holds &= measure(context, name, cases, cache / name, lists_all, targets);
    };
    if (wants("lenet")) {
      measure_model("lenet-f32", lenet(MathMode::exact, 64), {1.5, 1.2});
      measure_model("lenet-tf32", lenet(MathMode::tf32, 64), {1.5, 1.2});
    }
    if (wants("lenet2048")) {
      measure_model("lenet2048-tf32", lenet(MathMode::tf32, 2048), {1.5, 1.2});
    }
    if (wants("cnn")) {
      measure_model("cnn-f32", mnist_cnn(MathMode::exact), {1.5, 1.2});
      measure_model("cnn-tf32", mnist_cnn(MathMode::tf32), {1.5, 1.2});
    }
    if (wants("resnet18")) measure_model("resnet18-bf16", resnet18(), {1.5, 1.2});
    if (wants("resnet50")) measure_model("resnet50-bf16", resnet50(), {8, 1.05});
    if (folder.empty()) std::filesystem::remove_all(cache);
    return holds ? 0 : 1;
  } catch (const std::exception& error) {
    fmt::print(stderr, "{}\n", error.what());
    return 2;
  }
}
