// Times attention by our kernels and by cuDNN's engines, for shapes of models: a Markdown table.
#include <adret/core/backend.h>
#include <adret/core/cuda/attention.h>
#include <adret/core/cuda/attention_plan.h>
#include <adret/core/cuda/context.h>
#include <adret/core/kernels/kernel.h>
#include <adret/core/tensor.h>
#include <fmt/core.h>

#include "timing.h"

#include <CLI/CLI.hpp>
#include <cmath>
#include <functional>
#include <string>
#include <vector>

namespace {

using namespace adret;
using namespace adret::bench;

struct Case {
  const char* name;
  int64_t samples, tokens, heads, width;
  bool causal;
};
constexpr Case cases[] = {
    {"GPT-2 small", 16, 1024, 12, 64, true}, {"GPT-2 medium, long", 4, 4096, 16, 64, true},
    {"ViT-S/16", 128, 197, 6, 64, false},    {"ViT-B/16", 64, 197, 12, 64, false},
    {"BERT base", 32, 512, 12, 64, false},   {"heads of 128", 8, 2048, 16, 128, true},
    {"heads of 32", 32, 256, 8, 32, false}};

struct Bench {
  cuda::Context context{0};
  double seconds;
  double dropout;

  double time(const std::function<void()>& call) const {
    call();
    ADRET_BENCH_CHECK(cudaStreamSynchronize(context.compute));
    return captured(call, seconds, context.compute, 10);
  }

  template <class K>
  void print_rows(const Case& test, const char* direction, const K& call) {
    const auto row = [&](const std::string& way, double us) {
      fmt::print("| {} | {} | {} | {} | {:.1f} | {:.0f} |\n", test.name, to_string(call.q.shape),
                 direction, way, us, call.flops() / us * 1e-6);
      std::fflush(stdout);
    };
    row("own", time([&] { cuda::attend(context, call); }));
    const auto other = cuda::attention_call(call);
    if (!other) return;
    cuda::AttentionPlans plans(context, nullptr);
    for (const auto& sample : plans.measure_all(*other, [&] { cuda::attend(context, call); })) {
      if (sample.plan != "own") row(sample.plan, sample.microseconds);
    }
  }

  void measure(const Case& test, DType dtype) {
    const auto [name, n, t, h, d, causal] = test;
    const Tensor qkv = random_tensor({n, t, 3, h, d}, dtype),
                 dqkv = empty_tensor({n, t, 3, h, d}, dtype);
    const Tensor y = empty_tensor({n, t, h, d}, dtype), dy = random_tensor({n, t, h, d}, dtype);
    const Tensor log_sum_exp = empty_tensor({n, h, t}, DType::f32);
    const Tensor step = Tensor::zeros({}, {.dtype = DType::i64, .device = Device::cuda()});
    backend_for(Device::cuda()).services().synchronize();
    kernels::AttentionForward forward{.q = qkv, .y = y, .log_sum_exp = log_sum_exp};
    forward.attention = {.scale = 1 / std::sqrt(double(d)), .causal = causal, .dropout = dropout};
    kernels::AttentionBackward backward{.q = qkv,
                                        .y = y,
                                        .log_sum_exp = log_sum_exp,
                                        .dy = dy,
                                        .dq = dqkv,
                                        .attention = forward.attention};
    if (dropout > 0) forward.step = backward.step = step;
    print_rows(test, "forward", forward);
    print_rows(test, "backward", backward);
  }
};

}  // namespace

int main(int argc, char** argv) {
  CLI::App app("Times attention by our kernels, captured in a CUDA graph, and by cuDNN's engines.");
  Bench bench{.seconds = 0.05, .dropout = 0};
  std::string dtype = "bf16";
  app.add_option("--seconds", bench.seconds, "how long to measure each case")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  app.add_option("--dropout", bench.dropout, "of the weights")->check(CLI::Range(0.0, 1.0));
  app.add_option("--dtype", dtype, "of the operands")
      ->check(CLI::IsMember({"bf16", "f16", "f32"}))
      ->capture_default_str();
  CLI11_PARSE(app, argc, argv);
  try {
    fmt::print("| model | shape | direction | way | us | TFLOP/s |\n|---|---|---|---|--:|--:|\n");
    const DType type = dtype == "bf16" ? DType::bf16 : dtype == "f16" ? DType::f16 : DType::f32;
    for (const Case& test : cases) bench.measure(test, type);
  } catch (const std::exception& error) {
    fmt::print(stderr, "bench_cuda_attention: {}\n", error.what());
    return 1;
  }
}
