// Formulas on the CPU beside the built-in functions, and beside a copy: medians of pairs.
#include <adret/autograd/engine.h>
#include <adret/autograd/grad_mode.h>
#include <adret/autograd/ops/activation.h>
#include <adret/autograd/ops/create.h>
#include <adret/autograd/pointwise.h>
#include <adret/core/thread_pool.h>
#include <fmt/core.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <functional>
#include <vector>

namespace {

using namespace adret;

struct Swish {
  ADRET_FN auto operator()(auto x) const { return x / (1 + exp(-x)); }
};
struct Stable {
  ADRET_FN auto operator()(auto x) const { return x * sigmoid(x); }
};

double seconds_of(const std::function<void()>& call, int64_t calls) {
  const auto begin = std::chrono::steady_clock::now();
  for (int64_t i = 0; i < calls; ++i) call();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

double median(std::vector<double> values) {
  std::nth_element(values.begin(), values.begin() + int64_t(values.size() / 2), values.end());
  return values[values.size() / 2];
}

void compare(const char* what, int64_t n, const std::function<void()>& formula,
             const std::function<void()>& other) {
  const int64_t calls = std::max<int64_t>(1, (1 << 19) / n);
  std::vector<double> mine, theirs, ratios;
  seconds_of(formula, calls), seconds_of(other, calls);
  for (int i = 0; i < 61; ++i) {
    mine.push_back(seconds_of(formula, calls));
    theirs.push_back(seconds_of(other, calls));
    ratios.push_back(mine.back() / theirs.back());
  }
  const double per_element = 1e9 / double(calls * n);
  fmt::print("{:<32} n={:<8} {:7.3f} ns {:7.3f} ns  ratio {:.3f}\n", what, n,
             median(mine) * per_element, median(theirs) * per_element, median(ratios));
}

template <class F>
void measure(const char* name, F formula, DType dtype) {
  for (const int64_t n : {int64_t(4096), int64_t(1) << 18, int64_t(1) << 22}) {
    Tensor x = randn({n}).to(dtype);
    const Tensor dy = randn({n}).to(dtype);
    {
      const NoGrad no_grad;
      compare(
          fmt::format("{} against copy", name).c_str(), n, [&] { pointwise(formula, x); },
          [&] { x.clone(); });
      compare(
          fmt::format("{} against silu", name).c_str(), n, [&] { pointwise(formula, x); },
          [&] { silu(x); });
    }
    x.set_requires_grad(true);
    const Tensor mine = pointwise(formula, x), theirs = silu(x);
    const GradOptions options{.grad_outputs = {dy}, .retain_graph = true};
    compare(
        fmt::format("{} backward against silu", name).c_str(), n,
        [&] { grad({mine}, {x}, options); }, [&] { grad({theirs}, {x}, options); });
  }
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app("Formulas on the CPU beside the built-in functions");
  int threads = 1;
  app.add_option("--threads", threads, "Threads of the kernels");
  CLI11_PARSE(app, argc, argv);
  set_num_threads(threads);
  measure("x / (1 + exp(-x))", Swish{}, DType::f32);
  measure("x sigmoid(x)", Stable{}, DType::f32);
  measure("x / (1 + exp(-x)) bf16", Swish{}, DType::bf16);
}
