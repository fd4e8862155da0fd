// A kernel call's operands on another device, with the bytes around them.
#pragma once

#include <adret/core/kernels/rewrite.h>
#include <adret/core/tensor.h>

#include <map>
#include <string>
#include <vector>

namespace adret {

// Copies the memory of a call's operands to `device`. Operands that share a storage share one
// there, and lie at the same places modulo 512 bytes. The `margin` bytes before and after an
// operand come along, so that a write beyond one reaches what lies there.
class RelocatedCall {
 public:
  RelocatedCall(const Kernel& call, Device device, size_t margin = 4096);

  // The call there: dispatch it, or hand it to the device's backend.
  const Kernel& call() const { return moved_.call(); }
  // Copies what holds outputs, and the bytes around them, back to where it came from.
  void copy_back() const;

 private:
  // What is copied of one storage, in bytes from its start; `there` starts at `begin`.
  struct Window {
    size_t begin = 0, end = 0;
    IntrusivePtr<Storage> there;
  };
  TensorView moved(const TensorView& view) const;

  Device device_;
  std::map<Storage*, Window> windows_;
  RewrittenCall moved_;
};

// An output of a call that was run, on the CPU; of an arena (Note [Arenas]) one parameter.
struct OutputPart {
  std::string name;  // "y", "values of parameter 2"
  Tensor tensor;
};
// All defined outputs, copied, in the order of outputs(call).
std::vector<OutputPart> output_parts(const Kernel& call);

}  // namespace adret
