// Times one kernel call under Google Benchmark, with its rates from the call itself.
#pragma once

#include <adret/core/kernels/kernel.h>
#include <adret/core/tensor.h>
#include <benchmark/benchmark.h>

#include <cstdint>
#include <random>
#include <string>
#include <vector>

namespace adret::bench {

// Normally distributed, so that nothing is denormal or NaN.
inline Tensor random_tensor(const Shape& shape) {
  Tensor tensor = Tensor::empty(shape);
  std::mt19937 generator(1);
  std::normal_distribution<float> normal;
  for (float& v : tensor.span<float>()) v = normal(generator);
  return tensor;
}

// Registers "kernel/name" and runs make() once before it is timed: the call, whose tensors the
// function object keeps. Reports GFLOP/s, GB/s over the bytes that must move, and images/s.
template <class Make>
void measure(const std::string& name, int64_t images, Make make) {
  benchmark::RegisterBenchmark(name.c_str(), [=](benchmark::State& state) {
    const auto call = make();
    for (auto _ : state) run(call.kernel);
    const auto per_second = [&](double amount) {
      return benchmark::Counter(amount, benchmark::Counter::kIsIterationInvariantRate);
    };
    state.counters["GFLOP/s"] = per_second(call.kernel.flops() * 1e-9);
    state.counters["GB/s"] = per_second(bytes_moved(call.kernel) * 1e-9);
    state.counters["images/s"] = per_second(double(images));
  })->UseRealTime();
}

// A kernel call and the tensors that it only views.
template <class K>
struct Call {
  std::vector<Tensor> tensors;
  K kernel;
};
template <class K>
Call(std::vector<Tensor>, K) -> Call<K>;

}  // namespace adret::bench
