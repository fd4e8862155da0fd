// Times pooling, activations and softmax in our own kernels and in cuDNN's functions: a Markdown
// table, from which the choice in core/cuda/implementation.cpp is made.
#include <adret/core/backend.h>
#include <adret/core/error.h>
#include <adret/core/kernels/kernel.h>
#include <adret/core/tensor.h>
#include <fmt/core.h>
#include <sys/wait.h>
#include <unistd.h>

#include "timing.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <array>
#include <cstdlib>
#include <functional>
#include <string>
#include <vector>

namespace {

using namespace adret;
using namespace adret::bench;
using kernels::Pool2dParams;
using kernels::UnaryOp;

// -- cases ---------------------------------------------------------------------------------------

struct Case {
  std::string kernel, shape;
  DType dtype;
  bool cudnn;  // whether cuDNN can express it
  std::function<Call()> make;
};

struct Pooling {
  int64_t batch, size, channels, out;
  Pool2dParams pool;

  Shape x() const { return {batch, size, size, channels}; }
  Shape y() const { return {batch, out, out, channels}; }
  std::string text() const {
    return fmt::format("{} window {} stride {}", to_string(x()), to_string(pool.kernel),
                       to_string(pool.stride));
  }
};

const Pooling max_poolings[] = {
    {64, 28, 6, 14, {}},  // LeNet
    {64, 10, 16, 5, {}},
    {64, 24, 64, 12, {}},                                          // MNIST's CNN
    {256, 112, 64, 56, {.kernel = 3, .stride = 2, .padding = 1}},  // ResNet-50
    {32, 35, 288, 17, {.kernel = 3, .stride = 2}},                 // Inception
    {256, 7, 2048, 1, {.kernel = 7, .stride = 7}},
    {8, 224, 3, 1, {.kernel = 224, .stride = 224}}};
const Pooling average_poolings[] = {
    {64, 28, 6, 14, {}},
    {64, 24, 64, 12, {}},
    {32, 4, 512, 1, {.kernel = 4, .stride = 4}},  // heads of ResNet-18 and ResNet-50
    {256, 7, 2048, 1, {.kernel = 7, .stride = 7}},
    {32, 35, 288, 35, {.kernel = 3, .stride = 1, .padding = 1}},
    {256, 56, 256, 28, {}},
    {8, 224, 3, 1, {.kernel = 224, .stride = 224}}};

void add_max_pooling(std::vector<Case>& cases, const Pooling& p, DType dtype) {
  const DType positions = p.pool.kernel.area() <= 256 ? DType::u8 : DType::i32;
  cases.push_back(
      {"max_pool2d_forward", p.text(), dtype, true, [=] {
         const Tensor x = random_tensor(p.x(), dtype), y = empty_tensor(p.y(), dtype);
         return call_of({x, y}, kernels::MaxPool2dForward{.x = x, .y = y, .pool = p.pool});
       }});
  const auto with_positions = [=](bool backward) {
    const Tensor x = random_tensor(p.x(), dtype), y = random_tensor(p.y(), dtype);
    const Tensor position = empty_tensor(p.y(), positions);
    const kernels::MaxPool2dForward forward{.x = x, .y = y, .position = position, .pool = p.pool};
    if (!backward) return call_of({x, y, position}, forward);
    run(forward);
    return call_of({x, y, position}, kernels::MaxPool2dBackward{
                                         .dy = y, .position = position, .dx = x, .pool = p.pool});
  };
  cases.push_back({"max_pool2d_forward, positions", p.text(), dtype, false,
                   [=] { return with_positions(false); }});
  cases.push_back(
      {"max_pool2d_backward", p.text(), dtype, false, [=] { return with_positions(true); }});
}

void add_average_pooling(std::vector<Case>& cases, const Pooling& p, DType dtype) {
  cases.push_back(
      {"avg_pool2d_forward", p.text(), dtype, true, [=] {
         const Tensor x = random_tensor(p.x(), dtype), y = empty_tensor(p.y(), dtype);
         return call_of({x, y}, kernels::AvgPool2dForward{.x = x, .y = y, .pool = p.pool});
       }});
  cases.push_back(
      {"avg_pool2d_backward", p.text(), dtype, true, [=] {
         const Tensor dy = random_tensor(p.y(), dtype), dx = empty_tensor(p.x(), dtype);
         return call_of({dy, dx}, kernels::AvgPool2dBackward{.dy = dy, .dx = dx, .pool = p.pool});
       }});
}

const Shape activations[] = {{64, 120}, {64, 28, 28, 6}, {64, 24, 24, 64}, {256, 56, 56, 256}};

void add_activation(std::vector<Case>& cases, UnaryOp op, const Shape& shape, DType dtype) {
  const std::string name = to_string(op);
  cases.push_back({name, to_string(shape), dtype, true, [=] {
                     const Tensor x = random_tensor(shape, dtype), y = empty_tensor(shape, dtype);
                     return call_of({x, y}, kernels::Unary{.x = x, .y = y, .op = op});
                   }});
  cases.push_back({name + " backward", to_string(shape), dtype, true, [=] {
                     const Tensor y = random_tensor(shape, dtype), dy = random_tensor(shape, dtype);
                     const Tensor dx = empty_tensor(shape, dtype);
                     return call_of({y, dy, dx}, kernels::UnaryBackward{
                                                     .saved = y, .dy = dy, .dx = dx, .op = op});
                   }});
}

struct Softmax {
  Shape shape;
  int dim;
};
const Softmax softmaxes[] = {{{64, 10}, 1},      {{256, 1000}, 1},    {{4096, 1024}, 1},
                             {{65536, 512}, 1},  {{8192, 8192}, 1},   {{16384, 50257}, 1},
                             {{64, 256, 49}, 1}, {{16, 21, 65536}, 1}};

void add_softmax(std::vector<Case>& cases, const Softmax& s, bool log, DType dtype) {
  const std::string name = log ? "log_softmax" : "softmax";
  const std::string shape = fmt::format("{} along {}", to_string(s.shape), s.dim);
  cases.push_back(
      {name, shape, dtype, true, [=] {
         const Tensor x = random_tensor(s.shape, dtype), y = empty_tensor(s.shape, dtype);
         return call_of({x, y}, kernels::SoftmaxForward{.x = x, .y = y, .dim = s.dim, .log = log});
       }});
  cases.push_back(
      {name + " backward", shape, dtype, true, [=] {
         const Tensor y = random_tensor(s.shape, dtype), dy = random_tensor(s.shape, dtype);
         const Tensor dx = empty_tensor(s.shape, dtype);
         return call_of({y, dy, dx}, kernels::SoftmaxBackward{
                                         .y = y, .dy = dy, .dx = dx, .dim = s.dim, .log = log});
       }});
}

std::vector<Case> all_cases() {
  std::vector<Case> cases;
  for (const DType dtype : {DType::f32, DType::bf16}) {
    for (const Pooling& p : max_poolings) add_max_pooling(cases, p, dtype);
    for (const Pooling& p : average_poolings) add_average_pooling(cases, p, dtype);
    for (const UnaryOp op : {UnaryOp::relu, UnaryOp::sigmoid, UnaryOp::tanh}) {
      for (const Shape& shape : activations) add_activation(cases, op, shape, dtype);
    }
    for (const bool log : {false, true}) {
      for (const Softmax& s : softmaxes) add_softmax(cases, s, log, dtype);
    }
  }
  return cases;
}

// -- measuring -----------------------------------------------------------------------------------

struct Times {
  double captured = 0, eager = 0, bytes = 0;
};

// Zeros for what cuDNN cannot express, or did not run: a message says why.
Times measure_case(const Case& test, const std::string& implementation, double seconds,
                   cudaStream_t stream) {
  if (implementation == "cudnn" && !test.cudnn) return {};
  const std::string name =
      fmt::format("{} {} {} {}", implementation, test.kernel, test.shape, to_string(test.dtype));
  try {
    const Call call = test.make();
    Times times{.eager = eager(call.run, seconds), .bytes = call.bytes};
    const int nodes = std::clamp(int(5e3 / times.eager), 2, 50);  // some 5 ms
    times.captured = captured(call.run, seconds, stream, nodes);
    fmt::print(stderr, "{}: {:.2f} us\n", name, times.captured);
    return times;
  } catch (const Error& error) {
    fmt::print(stderr, "{}: {}\n", name, error.what());
    return {};
  }
}

// Measures in a process of its own, since the backend reads the variable once.
std::vector<Times> measure(const std::vector<Case>& cases, const std::string& implementation,
                           double seconds) {
  int ends[2];
  if (pipe(ends) != 0) throw Error("no pipe");
  const pid_t child = fork();
  if (child < 0) throw Error("no process");
  if (child == 0) {
    close(ends[0]);
    setenv("ADRET_CUDA_LAYERS", implementation.c_str(), 1);
    int status = 0;
    try {
      const cudaStream_t stream = compute_stream();
      for (const Case& test : cases) {
        const Times times = measure_case(test, implementation, seconds, stream);
        if (write(ends[1], &times, sizeof(times)) != sizeof(times)) throw Error("the pipe broke");
      }
    } catch (const std::exception& error) {
      fmt::print(stderr, "bench_cuda_layers: {}\n", error.what());
      status = 1;
    }
    _exit(status);
  }
  close(ends[1]);
  std::vector<Times> result(cases.size());
  for (Times& times : result) {
    if (read(ends[0], &times, sizeof(times)) != sizeof(times)) break;
  }
  close(ends[0]);
  int status = 0;
  waitpid(child, &status, 0);
  if (status != 0) throw Error("measuring " + implementation + " failed");
  return result;
}

void print_table(const std::vector<Case>& cases, const std::vector<Times>& own,
                 const std::vector<Times>& cudnn) {
  fmt::print(
      "| kernel | shape | dtype | own us | own GB/s | cuDNN us | cuDNN / own | own eager us | "
      "cuDNN eager us |\n|---|---|---|--:|--:|--:|--:|--:|--:|\n");
  for (size_t i = 0; i < cases.size(); ++i) {
    const auto number = [&](double value, int digits) {
      return cudnn[i].captured > 0 ? fmt::format("{:.{}f}", value, digits) : std::string("-");
    };
    fmt::print("| {} | {} | {} | {:.2f} | {:.0f} | {} | {} | {:.2f} | {} |\n", cases[i].kernel,
               cases[i].shape, to_string(cases[i].dtype), own[i].captured,
               own[i].bytes / own[i].captured * 1e-3, number(cudnn[i].captured, 2),
               number(cudnn[i].captured / own[i].captured, 2), own[i].eager,
               number(cudnn[i].eager, 2));
  }
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app(
      "Times our own kernels against cuDNN's functions: captured in a CUDA graph, and eager.");
  double seconds = 0.03;
  std::string filter;
  app.add_option("--seconds", seconds, "how long to measure each case")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  app.add_option("--filter", filter, "only kernels whose name contains this");
  CLI11_PARSE(app, argc, argv);
  try {
    std::vector<Case> cases = all_cases();
    std::erase_if(cases, [&](const Case& c) { return c.kernel.find(filter) == std::string::npos; });
    const std::vector<Times> own = measure(cases, "own", seconds);
    print_table(cases, own, measure(cases, "cudnn", seconds));
  } catch (const std::exception& error) {
    fmt::print(stderr, "bench_cuda_layers: {}\n", error.what());
    return 1;
  }
}
