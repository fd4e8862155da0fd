// A device's ceilings, measured on it: a large copy for its memory, large products for arithmetic.
#pragma once

#include <adret/core/compute_mode.h>
#include <adret/core/decorators/roofline.h>
#include <adret/core/kernels/kernel.h>
#include <adret/core/random.h>
#include <adret/core/tensor.h>

#include <algorithm>
#include <limits>

namespace adret::bench {

// Seconds of a kernel on its device: the best of ten calls after the first.
template <class Kernel>
double best_seconds(const Kernel& call, DeviceServices& services) {
  constexpr int calls = 10;
  constexpr double while_launching = 50e-6;
  run(call);
  double best = std::numeric_limits<double>::infinity();
  for (int i = 0; i < calls; ++i) {
    services.hold(while_launching);
    const Moment begin = services.timestamp();
    run(call);
    const Moment end = services.timestamp();
    best = std::min(best, end->seconds_since(*begin));
  }
  return best;
}

// A copy of 1 GiB, on the CPU 256 MiB: beyond every cache.
inline double measure_memory(Device device) {
  const int64_t bytes = int64_t(device.is_cpu() ? 256 : 1024) << 20;
  const TensorOptions options{.dtype = DType::u8, .device = device};
  const Tensor x = Tensor::zeros({bytes}, options), y = Tensor::zeros({bytes}, options);
  const double seconds =
      best_seconds(kernels::Copy{.x = x, .y = y}, backend_for(device).services());
  return 2.0 * double(bytes) / seconds;
}

inline DType operand_dtype(Arithmetic arithmetic) {
  switch (arithmetic) {
    case Arithmetic::f64: return DType::f64;
    case Arithmetic::bf16: return DType::bf16;
    case Arithmetic::f16: return DType::f16;
    default: return DType::f32;
  }
}

// A square product of random numbers, by the best algorithm of a race.
inline double measure_arithmetic(Arithmetic arithmetic, Device device) {
  const bool on_cuda_cores = arithmetic == Arithmetic::f32 || arithmetic == Arithmetic::f64;
  const int64_t n = device.is_cpu() ? 1024 : on_cuda_cores ? 4096 : 8192;
  ComputeMode mode = compute_mode();
  mode.plans = PlanSearch::measure;
  const ComputeModeScope scope(mode);
  const TensorOptions options{.dtype = operand_dtype(arithmetic), .device = device};
  const auto random_matrix = [&] {
    const Tensor x = Tensor::empty({n, n}, options);
    run(kernels::RandomUniform{.y = x,
                               .step = random::step_word(device),
                               .key = random::next(RandomStream::user),
                               .low = -1});
    return x;
  };
  const Tensor a = random_matrix(), b = random_matrix(), y = Tensor::empty({n, n}, options);
  const kernels::Matmul product{
      .a = a,
      .b = b,
      .y = y,
      .math = arithmetic == Arithmetic::tf32 ? MathMode::tf32 : MathMode::exact};
  return product.flops() / best_seconds(product, backend_for(device).services());
}

// Measures what is asked for the first time.
class MeasuredCeilings {
 public:
  explicit MeasuredCeilings(Device device) : device_(device) {}
  const Ceilings& with(const std::vector<ProfileRow>& rows) {
    if (ceilings_.bytes_per_second == 0) ceilings_.bytes_per_second = measure_memory(device_);
    for (const ProfileRow& row : rows) {
      double& peak = ceilings_.flops_per_second[row.arithmetic];
      if (peak == 0) peak = measure_arithmetic(row.arithmetic, device_);
    }
    return ceilings_;
  }

 private:
  Device device_;
  Ceilings ceilings_;
};

}  // namespace adret::bench
