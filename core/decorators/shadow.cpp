// Runs each kernel call on a second device too, and compares.
#include <adret/core/decorators/relocate.h>
#include <adret/core/decorators/shadow.h>
#include <adret/core/error.h>
#include <adret/core/kernels/kernel.h>
#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>

namespace adret {
namespace {

std::vector<double> values(const Tensor& tensor) {
  const Tensor wide = Tensor::empty(tensor.shape(), {.dtype = DType::f64});
  backend_for(Device::cpu()).run(kernels::Cast{.x = tensor, .y = wide});
  return wide.to_vector<double>();
}

// The element that differs most, if by more than the tolerance.
std::optional<ShadowDifference> largest_difference(const Tensor& here, const Tensor& there,
                                                   double tolerance) {
  const std::vector<double> a = values(here), b = values(there);
  double scale = 0;
  for (const auto& list : {a, b}) {
    for (double v : list) {
      if (std::isfinite(v)) scale = std::max(scale, std::abs(v));
    }
  }
  std::optional<ShadowDifference> worst;
  for (size_t i = 0; i < a.size(); ++i) {
    if (a[i] == b[i] || (std::isnan(a[i]) && std::isnan(b[i]))) continue;
    const double difference = std::abs(a[i] - b[i]);
    const double relative = std::isfinite(difference) && scale > 0
                                ? difference / scale
                                : std::numeric_limits<double>::infinity();
    if (relative <= (worst ? worst->relative : tolerance)) continue;
    worst.emplace();
    worst->element = int64_t(i);
    worst->here = a[i];
    worst->there = b[i];
    worst->relative = relative;
  }
  return worst;
}

}  // namespace

double shadow_tolerance(DType dtype) {
  switch (dtype) {
    case DType::f32: return 1000 * 0x1p-23;
    case DType::f64: return 1000 * 0x1p-52;
    case DType::bf16: return 2 * 0x1p-7;
    case DType::f16: return 2 * 0x1p-10;
    default: return 0;
  }
}

std::string to_string(const ShadowDifference& d) {
  return fmt::format("{}: {}: {}[{}] is {:.9g} here and {:.9g} there, {:.3g} of the largest",
                     d.path.empty() ? "(no scope)" : d.path, d.call, d.output, d.element, d.here,
                     d.there, d.relative);
}

void Shadow::run(const Kernel& call) {
  if (device_of(call) == options_.device) return forward(call);
  const RelocatedCall there(call, options_.device);
  try {
    backend_for(options_.device).run(there.call());
  } catch (const DeviceError&) {
    if (!std::holds_alternative<kernels::Custom>(call.any())) throw;
    return forward(call);
  }
  forward(call);
  ++compared_;
  const std::vector<OutputPart> mine = output_parts(call), theirs = output_parts(there.call());
  for (size_t i = 0; i < mine.size(); ++i) {
    const double tolerance = options_.factor * shadow_tolerance(mine[i].tensor.dtype());
    auto difference = largest_difference(mine[i].tensor, theirs[i].tensor, tolerance);
    if (!difference) continue;
    difference->path = NameScope::path();
    difference->call = to_string(call);
    difference->output = mine[i].name;
    if (options_.stop) throw Error("[Shadow] " + to_string(*difference));
    differences_.push_back(std::move(*difference));
  }
}

}  // namespace adret
