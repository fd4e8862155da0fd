// Times of kernel calls on a GPU: eager, and captured in a CUDA graph.
#pragma once

#include <adret/core/backend.h>
#include <adret/core/error.h>
#include <adret/core/kernels/kernel.h>
#include <adret/core/tensor.h>
#include <cuda_runtime_api.h>
#include <fmt/core.h>

#include <algorithm>
#include <chrono>
#include <functional>
#include <utility>
#include <vector>

namespace adret::bench {

// On the GPU.
inline Tensor empty_tensor(const Shape& shape, DType dtype) {
  return Tensor::empty(shape, {.dtype = dtype, .device = Device::cuda()});
}
// Uniform in [-1, 1), so that multipliers draw the power that real operands take.
inline Tensor random_tensor(const Shape& shape, DType dtype) {
  const Tensor t = empty_tensor(shape, dtype);
  const Tensor step = Tensor::zeros({}, {.dtype = DType::i64, .device = Device::cuda()});
  run(kernels::RandomUniform{.y = t, .step = step, .key = {}, .low = -1, .high = 1});
  return t;
}

// A kernel call and the tensors that it views.
struct Call {
  std::vector<Tensor> tensors;
  std::function<void()> run;
  double flops = 0, bytes = 0;
};
template <class K>
Call call_of(std::vector<Tensor> tensors, const K& kernel) {
  return {std::move(tensors), [=] { run(kernel); }, kernel.flops(), bytes_moved(kernel)};
}

inline void check(cudaError_t status, const char* call) {
  if (status != cudaSuccess) throw Error(fmt::format("{}: {}", call, cudaGetErrorString(status)));
}
#define ADRET_BENCH_CHECK(call) ::adret::bench::check((call), #call)

// The stream that the backend launches on.
inline cudaStream_t compute_stream() {
  struct StreamReader {
    static constexpr const char* name = "stream_reader";
    cudaStream_t* stream;
    bool operator==(const StreamReader&) const = default;
    void run_cpu(const CustomCall&) const {}
    void run_cuda(const CustomCall&, void* compute) const {
      *stream = static_cast<cudaStream_t>(compute);
    }
  };
  cudaStream_t stream = nullptr;
  run_custom(StreamReader{&stream}, {}, {empty_tensor({1}, DType::f32)});
  return stream;
}

// Microseconds of a call: the median of blocks of at least 2 ms each, for `seconds` in all.
inline double median_of_blocks(double seconds, const std::function<void(int calls)>& block) {
  const auto time = [&](int calls) {
    const auto begin = std::chrono::steady_clock::now();
    block(calls);
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  };
  time(3);
  int calls = 1;
  while (time(calls) < 2e-3) calls *= 2;
  std::vector<double> times;
  for (double sum = 0; sum < seconds || times.size() < 7; sum += times.back()) {
    times.push_back(time(calls));
  }
  std::nth_element(times.begin(), times.begin() + int64_t(times.size() / 2), times.end());
  return times[times.size() / 2] / calls * 1e6;
}

inline double eager(const std::function<void()>& call, double seconds) {
  DeviceServices& services = backend_for(Device::cuda()).services();
  return median_of_blocks(seconds, [&](int calls) {
    for (int i = 0; i < calls; ++i) call();
    services.synchronize();
  });
}

// Of calls in a CUDA graph: without what the host does for each. The call has run before.
inline double captured(const std::function<void()>& call, double seconds, cudaStream_t stream,
                       int nodes = 50) {
  cudaGraph_t graph;
  cudaGraphExec_t executable;
  ADRET_BENCH_CHECK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal));
  try {
    for (int i = 0; i < nodes; ++i) call();
  } catch (...) {
    cudaStreamEndCapture(stream, &graph);
    throw;
  }
  ADRET_BENCH_CHECK(cudaStreamEndCapture(stream, &graph));
  ADRET_BENCH_CHECK(cudaGraphInstantiate(&executable, graph, 0));
  const double us = median_of_blocks(seconds, [&](int calls) {
    for (int i = 0; i < calls; ++i) ADRET_BENCH_CHECK(cudaGraphLaunch(executable, stream));
    ADRET_BENCH_CHECK(cudaStreamSynchronize(stream));
  });
  ADRET_BENCH_CHECK(cudaGraphExecDestroy(executable));
  ADRET_BENCH_CHECK(cudaGraphDestroy(graph));
  return us / nodes;
}

}  // namespace adret::bench
