// Times normalisation of samples: a Markdown table with the share of the memory's speed.
#include <adret/core/kernels/kernel.h>
#include <adret/core/tensor.h>
#include <fmt/core.h>

#include "timing.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <functional>
#include <string>
#include <vector>

namespace {

using namespace adret;
using namespace adret::bench;

struct Case {
  const char* name;
  Shape shape;  // (N, S, C)
  int64_t groups = 1;
  bool centered = true, sum = false;
};

// GPT-2 small's rows and ViT-S's, with what residuals add; rows of other lengths; group norm of a
// ResNet and of a diffusion model, instance norm of a style network.
const Case cases[] = {
    {"layer norm", {16384, 1, 768}},
    {"layer norm of a sum", {16384, 1, 768}, 1, true, true},
    {"RMS norm", {16384, 1, 768}, 1, false},
    {"layer norm", {50432, 1, 384}},
    {"layer norm of a sum", {50432, 1, 384}, 1, true, true},
    {"layer norm", {16384, 1, 1024}},
    {"layer norm", {16384, 1, 1280}},
    {"RMS norm", {8192, 1, 4096}, 1, false},
    {"RMS norm", {393216, 1, 64}, 1, false},
    {"layer norm, odd", {65536, 1, 195}},
    {"layer norm, long", {256, 1, 100352}},
    {"group norm", {64, 784, 512}, 32},
    {"group norm", {16, 4096, 320}, 32},
    {"instance norm", {8, 65536, 32}, 32},
};

// Of one call; several of them together are larger than the L2, which so holds none.
struct Operands {
  Tensor x, added, dy, y, sum, dx, weight, bias, mean, rstd, dweight, dbias;

  Operands(const Case& of, DType dtype) {
    for (Tensor* t : {&x, &dy, &y, &dx}) *t = random_tensor(of.shape, dtype);
    if (of.sum) {
      for (Tensor* t : {&added, &sum}) *t = random_tensor(of.shape, dtype);
    }
    for (Tensor* t : {&weight, &bias, &dweight, &dbias})
      *t = random_tensor({of.shape[2]}, DType::f32);
    for (Tensor* t : {&mean, &rstd}) *t = random_tensor({of.shape[0], of.groups}, DType::f32);
  }
  kernels::GroupNormForward forward(const Case& of) const {
    return {.x = x,
            .added = added,
            .weight = weight,
            .bias = bias,
            .sum = sum,
            .y = y,
            .mean = mean,
            .rstd = rstd,
            .groups = of.groups,
            .centered = of.centered};
  }
  kernels::GroupNormBackward backward(const Case& of) const {
    return {.x = of.sum ? sum : x,
            .dy = dy,
            .dsum = added,
            .weight = weight,
            .mean = mean,
            .rstd = rstd,
            .dx = dx,
            .dweight = dweight,
            .dbias = dbias,
            .groups = of.groups,
            .centered = of.centered};
  }
};

struct Bench {
  double seconds = 0.05, peak = 4.8;  // TB/s
  DType dtype = DType::bf16;

  template <class Call>
  void print_row(const char* direction, const Case& of, const std::vector<Call>& calls) const {
    for (const Call& call : calls) run(call);
    backend_for(Device::cuda()).services().synchronize();
    size_t next = 0;
    const double us = captured([&] { run(calls[next++ % calls.size()]); }, seconds,
                               compute_stream(), int(calls.size()) * 5);
    const double rate = bytes_moved(calls[0]) / us * 1e-6;
    fmt::print("| {} | {} | {} groups {} | {} | {:.1f} | {:.2f} | {:.0f} % |\n", of.name, direction,
               to_string(of.shape), of.groups, adret::name(dtype), us, rate, 100 * rate / peak);
    std::fflush(stdout);
  }

  void measure(const Case& of) const {
    const int64_t bytes = of.shape.numel() * int64_t(size_of(dtype)) * 2;
    std::vector<Operands> sets;
    for (int64_t i = 0; i < std::clamp<int64_t>(400'000'000 / bytes, 1, 8); ++i) {
      sets.emplace_back(of, dtype);
    }
    std::vector<kernels::GroupNormForward> forward;
    std::vector<kernels::GroupNormBackward> backward;
    for (const Operands& set : sets) {
      forward.push_back(set.forward(of));
      backward.push_back(set.backward(of));
    }
    print_row("forward", of, forward);
    print_row("backward", of, backward);
  }
};

}  // namespace

int main(int argc, char** argv) {
  CLI::App app("Times layer, RMS, group and instance norm, captured in a CUDA graph.");
  Bench bench;
  bool in_f32 = false;
  app.add_option("--seconds", bench.seconds, "how long to measure each case")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  app.add_option("--peak", bench.peak, "the memory's TB/s")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  app.add_flag("--f32", in_f32, "in f32, not in bf16");
  CLI11_PARSE(app, argc, argv);
  if (in_f32) bench.dtype = DType::f32;
  try {
    fmt::print(
        "| norm | direction | shape | dtype | us | TB/s | of the peak |\n"
        "|---|---|---|---|--:|--:|--:|\n");
    for (const Case& of : cases) bench.measure(of);
  } catch (const std::exception& error) {
    fmt::print(stderr, "bench_cuda_group_norm: {}\n", error.what());
    return 1;
  }
}
