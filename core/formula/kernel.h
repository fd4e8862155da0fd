// A compiled formula as a kernel: one direction of it, for any floating dtype and with
// broadcasting.
#pragma once

#include <adret/core/kernels/custom.h>
#include <adret/core/shape.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <typeinfo>

namespace adret::formula {

inline constexpr int max_inputs = 6, max_outputs = 6;
// Of the second derivative: the operands, a gradient for each output, and one for each operand's.
inline constexpr int max_operands = 2 * max_inputs + max_outputs;

// A call on a GPU. Every input advances by strides of its own, in elements, over the dimensions of
// the outputs, which are merged where that is possible.
struct DeviceCall {
  const char* name = nullptr;
  DType dtype = DType::f32;
  int64_t count = 0;  // elements of an output
  int inputs = 0, outputs = 0;
  int rank = 0;
  int64_t sizes[Shape::max_rank] = {};
  int64_t strides[Shape::max_rank][max_operands] = {};
  const void* in[max_operands] = {};
  void* out[max_operands] = {};  // null: not wanted
};

// Moves the elements that can go n at a time, as 16 bytes of each operand or one element of it,
// from `rest` to the result.
DeviceCall take_vectors(DeviceCall& rest, int n);

// Elements that the loops of the CPU make at a time.
inline constexpr int64_t step = 16;

// What the compiler made of one direction of a formula.
struct Code {
  int inputs = 0, outputs = 0;
  size_t bytes = 0;  // of the formula with its constants
  // out[k][i] from in[...][i] for `steps` times `step` elements.
  void (*f32)(const void* formula, const float* const* in, float* const* out, int64_t steps);
  void (*f64)(const void* formula, const double* const* in, double* const* out, int64_t steps);
  // Launches on a cudaStream_t; null where nvcc did not compile it.
  void (*cuda)(const void* formula, const DeviceCall& call, void* stream);
};

// Runs it on operands of one dtype that broadcast to the outputs. 16-bit elements are computed in
// f32. `wanted` has a bit for each of the code's outputs; the others are not among the call's.
class FormulaKernel final : public AnyCustomKernel {
 public:
  FormulaKernel(const char* name, const Code& code, std::shared_ptr<const void> formula,
                uint32_t wanted)
      : name_(name), code_(&code), formula_(std::move(formula)), wanted_(wanted) {}
  const char* name() const override { return name_; }
  void run_cpu(const CustomCall& call) const override;
  void run_cuda(const CustomCall& call, void* stream) const override;
  double flops(const CustomCall& call) const override;
  std::unique_ptr<const AnyCustomKernel> clone() const override;
  // The same code with the same constants.
  bool equals(const AnyCustomKernel& other) const override;
  const std::type_info& type() const override { return typeid(FormulaKernel); }

 private:
  const char* name_;
  const Code* code_;
  std::shared_ptr<const void> formula_;
  uint32_t wanted_;
};

// A type's name as it is written in the source, followed by `suffix`; lives as long as the process.
const char* readable_name(const std::type_info& type, const char* suffix);

// 2: AVX-512, 1: AVX2 with FMA, 0: what every processor has. As the CPU backend in use.
int vector_level();

}  // namespace adret::formula
