// Swish as a formula on a GPU: beside a copy and the built-in SiLU, forward and backward.
#include <adret/autograd/engine.h>
#include <adret/autograd/grad_mode.h>
#include <adret/autograd/ops/activation.h>
#include <adret/autograd/pointwise.h>
#include <adret/core/kernels/kernel.h>
#include <fmt/core.h>

#include "timing.h"

namespace {

using namespace adret;

struct Swish {
  ADRET_FN auto operator()(auto x) const { return x / (1 + exp(-x)); }
};

void report(const char* what, DType dtype, int64_t bytes, double us) {
  fmt::print("{:<22} {:<5} {:9.1f} us {:8.1f} GB/s\n", what, to_string(dtype), us,
             double(bytes) / us * 1e-3);
}

void measure(DType dtype, int64_t n) {
  constexpr double seconds = 0.3;
  const int64_t bytes = n * int64_t(size_of(dtype));
  Tensor x = bench::random_tensor({n}, dtype);
  const Tensor dy = bench::random_tensor({n}, dtype), copy = bench::tensor({n}, dtype);
  report("copy", dtype, 2 * bytes,
         bench::eager([&] { run(kernels::Copy{.x = x, .y = copy}); }, seconds));
  {
    const NoGrad no_grad;
    report("silu", dtype, 2 * bytes, bench::eager([&] { silu(x); }, seconds));
    report("formula", dtype, 2 * bytes, bench::eager([&] { pointwise(Swish{}, x); }, seconds));
  }
  x.set_requires_grad(true);
  const auto backward = [&](const char* what, const Tensor& y) {
    const GradOptions options{.grad_outputs = {dy}, .retain_graph = true};
    report(what, dtype, 3 * bytes, bench::eager([&] { grad({y}, {x}, options); }, seconds));
  };
  backward("silu backward", silu(x));
  backward("formula backward", pointwise(Swish{}, x));
}

}  // namespace

int main() {
  for (const DType dtype : {DType::f32, DType::bf16}) {
    for (const int64_t n : {int64_t(1) << 20, int64_t(1) << 26}) measure(dtype, n);
  }
}
