// Times batch normalisation in one launch and in two: a Markdown table, from which the choice in
// core/cuda/norm_calls.h is made.
#include <adret/core/backend.h>
#include <adret/core/cuda/context.h>
#include <adret/core/cuda/norm_calls.h>
#include <adret/core/kernels/kernel.h>
#include <adret/core/tensor.h>
#include <fmt/core.h>

#include "timing.h"

#include <CLI/CLI.hpp>
#include <functional>
#include <string>
#include <vector>

namespace {

using namespace adret;
using namespace adret::bench;
using kernels::Activation;

// (rows, channels): ResNet-18 on 32 x 32 images, its batches of 128 and 512; ResNet-50's widest;
// small ones.
const Shape shapes[] = {{128, 32, 32, 64}, {128, 16, 16, 128}, {128, 8, 8, 256}, {128, 4, 4, 512},
                        {512, 32, 32, 64}, {512, 16, 16, 128}, {512, 8, 8, 256}, {512, 4, 4, 512},
                        {32, 7, 7, 2048},  {128, 2048},        {512, 512},       {1024, 64},
                        {4096, 64},        {64, 28, 28, 6},    {64, 28, 28, 24}};

enum class Kind { plain, relu, residual, sum };
const char* name(Kind kind) {
  switch (kind) {
    case Kind::plain: return "plain";
    case Kind::relu: return "relu";
    case Kind::residual: return "residual and relu";
    case Kind::sum: return "residual, relu and a sum";
  }
  return "";
}

struct Operands {
  Tensor x, other, added, y, dx, dresidual, weight, bias, mean, rstd, running_mean, running_var,
      batches;

  Operands(const Shape& shape, DType dtype)
      : x(random_tensor(shape, dtype)),
        other(random_tensor(shape, dtype)),
        added(random_tensor(shape, dtype)),
        y(empty_tensor(shape, dtype)),
        dx(empty_tensor(shape, dtype)),
        dresidual(empty_tensor(shape, dtype)) {
    const Shape channels{shape[-1]};
    for (Tensor* t : {&weight, &bias, &mean, &rstd, &running_mean, &running_var}) {
      *t = random_tensor(channels, DType::f32);
    }
    batches = Tensor::zeros({}, {.dtype = DType::i64, .device = Device::cuda()});
  }

  kernels::BatchNormForward forward(Kind kind) const {
    kernels::BatchNormForward call{.x = x,
                                   .weight = weight,
                                   .bias = bias,
                                   .running_mean = running_mean,
                                   .running_var = running_var,
                                   .num_batches = batches,
                                   .y = y,
                                   .mean = mean,
                                   .rstd = rstd};
    if (kind != Kind::plain) call.activation = Activation::relu;
    if (kind >= Kind::residual) call.residual = other;
    return call;
  }
  kernels::BatchNormBackward backward(Kind kind) const {
    kernels::BatchNormBackward call{.x = x,
                                    .dy = other,
                                    .weight = weight,
                                    .bias = bias,
                                    .mean = mean,
                                    .rstd = rstd,
                                    .dx = dx,
                                    .dweight = running_mean,
                                    .dbias = running_var};
    if (kind != Kind::plain) call.activation = Activation::relu;
    if (kind >= Kind::residual) {
      call.y = y;
      call.dresidual = dresidual;
    }
    if (kind == Kind::sum) call.dy_added = added;
    return call;
  }
};

struct Bench {
  cuda::Context context{0};
  double seconds;

  double time(const std::function<void()>& call) const {
    call();
    ADRET_BENCH_CHECK(cudaStreamSynchronize(context.compute));
    return captured(call, seconds, context.compute, 20);
  }

  template <class K>
  void print_row(const std::string& direction, const Shape& shape, Kind kind, const K& call) {
    const double two = time([&] { cuda::run_in_two_launches(context, call); });
    const bool can = cuda::run_in_one_launch(context, call);
    const double one = can ? time([&] { cuda::run_in_one_launch(context, call); }) : 0;
    const double bytes = bytes_moved(call);
    const auto rate = [&](double us) { return us > 0 ? bytes / us * 1e-6 : 0.0; };
    fmt::print("| {} | {} | {} | {} | {:.1f} | {:.2f} | {:.1f} | {:.2f} | {:.2f} | {} |\n",
               direction, to_string(shape), to_string(call.x.dtype), name(kind), two, rate(two),
               one, rate(one), one > 0 ? two / one : 0.0,
               can && cuda::one_launch_pays(context, call) ? "one" : "two");
    std::fflush(stdout);
  }

  void measure(const Shape& shape, DType dtype) {
    const Operands operands(shape, dtype);
    backend_for(Device::cuda()).services().synchronize();
    for (const Kind kind : {Kind::plain, Kind::relu, Kind::residual, Kind::sum}) {
      if (kind != Kind::sum) print_row("forward", shape, kind, operands.forward(kind));
      print_row("backward", shape, kind, operands.backward(kind));
    }
  }
};

}  // namespace

int main(int argc, char** argv) {
  CLI::App app("Times batch normalisation in one launch and in two, captured in a CUDA graph.");
  Bench bench{.seconds = 0.02};
  bool in_f32 = false;
  app.add_option("--seconds", bench.seconds, "how long to measure each case")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  app.add_flag("--f32", in_f32, "in f32, not in bf16");
  CLI11_PARSE(app, argc, argv);
  try {
    fmt::print(
        "| direction | shape | dtype | kind | two launches us | TB/s | one launch us | TB/s | "
        "two / one | chosen |\n|---|---|---|---|--:|--:|--:|--:|--:|---|\n");
    for (const Shape& shape : shapes) bench.measure(shape, in_f32 ? DType::f32 : DType::bf16);
  } catch (const std::exception& error) {
    fmt::print(stderr, "bench_cuda_norm: {}\n", error.what());
    return 1;
  }
}
