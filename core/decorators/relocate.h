// A kernel call's operands: on another device with the bytes around them, and one by one.
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

// An operand of a call; of an arena (Note [Arenas]) one parameter, where it lies.
struct OperandPart {
  std::string name;  // "y", "values of parameter 2"
  TensorView view;
  bool active = true;  // what is not may hold anything
};
// All defined ones, in the order of `operands`, which are of the call.
std::vector<OperandPart> operand_parts(const Kernel& call,
                                       const std::vector<kernels::Operand>& operands);

// A copy of an operand's elements, out of sight of decorators.
Tensor copy_on_cpu(const TensorView& view);

// Of a call that was run, on the CPU.
struct OutputPart {
  std::string name;
  Tensor tensor;
};
// The parts of its outputs, copied.
std::vector<OutputPart> output_parts(const Kernel& call);

}  // namespace adret
