// Times kernels that gather, scatter, pad and sort: a Markdown table of microseconds and bytes.
#include <adret/core/backend.h>
#include <adret/core/kernels/kernel.h>
#include <adret/core/tensor.h>
#include <fmt/core.h>

#include "timing.h"

#include <CLI/CLI.hpp>
#include <cmath>
#include <functional>
#include <random>
#include <string>
#include <vector>

namespace {

using namespace adret;
using namespace adret::bench;

Tensor indices_of(int64_t count, const std::function<double(double)>& place, int64_t size) {
  std::mt19937 random(1);
  std::vector<int64_t> values;
  for (int64_t i = 0; i < count; ++i) {
    const double share = double(random()) / 4294967296.0;
    values.push_back(std::min(size - 1, int64_t(place(share) * double(size))));
  }
  return Tensor::from(values, {count}).to(Device::cuda());
}

struct Bench {
  double seconds;
  cudaStream_t stream = compute_stream();

  template <class K>
  void row(const std::string& what, const K& call) {
    const auto once = [&] { run(call); };
    once();
    ADRET_BENCH_CHECK(cudaStreamSynchronize(stream));
    const double us = captured(once, seconds, stream, 20);
    fmt::print("| {} | {:.1f} | {:.2f} |\n", what, us, bytes_moved(Kernel(call)) / us * 1e-6);
  }

  // A table of GPT-2's size and the tokens of a batch.
  void embedding(DType dtype) {
    constexpr int64_t rows = 50304, columns = 768, tokens = 16384;
    const Tensor weight = random_tensor({rows, columns}, dtype),
                 y = random_tensor({tokens, columns}, dtype);
    const struct {
      const char* name;
      std::function<double(double)> place;
    } spreads[] = {{"uniform", [](double u) { return u; }},
                   // As words are: number n comes with a frequency of about 1 / n.
                   {"Zipf", [](double u) { return std::pow(double(rows), u - 1); }},
                   {"all one row", [](double) { return 0.5; }}};
    for (const auto& [name, place] : spreads) {
      const Tensor indices = indices_of(tokens, place, rows);
      const std::string what = fmt::format(" of rows, {}, {}", adret::name(dtype), name);
      row("gather" + what, kernels::Gather{.x = weight, .indices = indices, .y = y});
      row("sum" + what,
          kernels::Scatter{
              .x = y, .indices = indices, .y = weight, .mode = kernels::ScatterMode::sum});
    }
  }

  void elements() {
    const Tensor x = random_tensor({4096, 4096}, DType::f32),
                 y = random_tensor({4096, 4096}, DType::f32);
    const Tensor own = indices_of(
        4096 * 4096, [](double u) { return u; }, 4096);
    const Tensor indices = own.reshape({4096, 4096});
    row("gather of elements, f32", kernels::Gather{.x = x, .indices = indices, .y = y, .dim = 1});
    row("scatter_add of elements, f32",
        kernels::Scatter{.x = x, .indices = indices, .y = y, .dim = 1});
  }

  void remap() {
    const Tensor x = random_tensor({128, 56, 56, 64}, DType::bf16);
    const Tensor y = random_tensor({128, 58, 58, 64}, DType::bf16);
    for (const kernels::PadMode mode : {kernels::PadMode::constant, kernels::PadMode::reflect}) {
      kernels::RemapParams params{.start = {0, -1, -1, 0}, .step = {1, 1, 1, 1}, .mode = mode};
      const std::string what = fmt::format(" (128, 56, 56, 64) by 1, {}, bf16", to_string(mode));
      row("pad" + what, kernels::Remap{.x = x, .y = y, .remap = params});
      row("pad backward" + what, kernels::RemapBackward{.dy = y, .dx = x, .remap = params});
    }
  }

  void sort() {
    for (const Shape& shape : {Shape{16, 50257}, {4096, 1024}, {1, 1 << 22}}) {
      const Tensor x = random_tensor(shape, DType::f32), y = random_tensor(shape, DType::f32);
      const Tensor indices = empty_tensor(shape, DType::i64);
      row("sort " + to_string(shape) + " f32",
          kernels::Sort{.x = x, .y = y, .indices = indices, .dim = 1});
    }
  }
};

}  // namespace

int main(int argc, char** argv) {
  CLI::App app{"Times gathering, scattering, padding and sorting on the GPU"};
  double seconds = 0.1;
  app.add_option("--seconds", seconds, "Time for each measurement");
  CLI11_PARSE(app, argc, argv);
  try {
    Bench bench{seconds};
    fmt::print("| call | us | TB/s |\n|---|---|---|\n");
    bench.embedding(DType::bf16);
    bench.embedding(DType::f32);
    bench.elements();
    bench.remap();
    bench.sort();
  } catch (const std::exception& error) {
    fmt::print(stderr, "{}\n", error.what());
    return 1;
  }
  return 0;
}
