// A user's own kernel on the waist.
#pragma once

#include <adret/core/kernels/operand.h>

#include <span>
#include <string>
#include <vector>

namespace adret {

// Derive from it, and run it with run(kernels::Custom{...}). It is seen by every decorator like a
// built-in kernel. Outputs are allocated and operands checked by the caller.
class CustomKernel {
 public:
  using Views = std::span<const TensorView>;
  virtual ~CustomKernel() = default;
  virtual const char* name() const = 0;
  virtual void run_cpu(Views inputs, Views outputs) const = 0;
  // `stream` is a cudaStream_t. Throws DeviceError unless overridden. In a captured step only what
  // it launched is done again: it must neither wait nor read there.
  virtual void run_cuda(Views inputs, Views outputs, void* stream) const;
  // Floating-point operations of one call, for reports.
  virtual double flops(Views, Views) const { return 0; }
};

namespace kernels {

// The kernel and the spans must outlive the call; what records calls copies the spans.
struct Custom {
  static constexpr const char* name = "custom";
  const CustomKernel* kernel = nullptr;
  std::span<const TensorView> in, out;

  std::vector<Operand> inputs() const;
  std::vector<Operand> outputs() const;
  double flops() const { return kernel->flops(in, out); }
  std::string params() const { return kernel->name(); }
};

}  // namespace kernels
}  // namespace adret
