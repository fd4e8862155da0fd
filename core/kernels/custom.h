// A user's own kernels on the waist.
#pragma once

#include <adret/core/kernels/operand.h>
#include <adret/core/tensor.h>

#include <concepts>
#include <cstddef>
#include <initializer_list>
#include <memory>
#include <span>
#include <string>
#include <typeinfo>
#include <vector>

namespace adret {

// What one run of a custom kernel works on.
struct CustomCall {
  // As run_custom got them. Of an optional one that is undefined the data is null.
  std::span<const TensorView> inputs, outputs;
  // workspace_bytes() of the device's memory for this run alone, aligned as tensors are and not
  // initialised; null for none.
  void* workspace = nullptr;
};

// An operand's name in reports, and whether it may be undefined: an input that was left out, an
// output, such as a gradient, that nobody wants.
struct CustomOperand {
  const char* name;
  bool optional = false;
};

// A custom kernel as the library sees it; who writes one needs run_custom alone.
class AnyCustomKernel {
 public:
  virtual ~AnyCustomKernel() = default;
  virtual const char* name() const = 0;  // lives as long as the process
  virtual void run_cpu(const CustomCall& call) const = 0;
  virtual void run_cuda(const CustomCall& call, void* stream) const = 0;
  virtual size_t workspace_bytes(const CustomCall&) const { return 0; }
  virtual double flops(const CustomCall&) const { return 0; }
  virtual std::string params() const { return {}; }
  virtual std::span<const CustomOperand> inputs() const { return {}; }
  virtual std::span<const CustomOperand> outputs() const { return {}; }
  virtual bool capturable() const { return true; }
  virtual std::unique_ptr<const AnyCustomKernel> clone() const = 0;
  virtual bool equals(const AnyCustomKernel& other) const = 0;
  virtual const std::type_info& type() const = 0;  // by which its CUDA part is found
};

// -- CUDA parts, from wherever they were loaded --------------------------------------------------

// What CudaPart (core/cuda_part.h) registers.
struct CudaPartEntry {
  void (*run)(void (*part)(), const AnyCustomKernel&, const CustomCall&, void* stream);
  void (*part)();  // of a type that `run` knows
  const char* file;
  int line;
};
void add_cuda_part(const std::type_info& type, const CudaPartEntry& entry);
bool has_cuda_part(const AnyCustomKernel& kernel);
// Throws DeviceError when there is none, or more than one.
void run_cuda_part(const AnyCustomKernel& kernel, const CustomCall& call, void* stream);
// Throws DeviceError.
[[noreturn]] void throw_launch_failed(const char* name, const char* why);

// -- kernels of a type ---------------------------------------------------------------------------

namespace detail {
// What a kernel may have, and whether it has a member of that name at all: one that cannot be used
// is an error and not ignored.
#define ADRET_CUSTOM_MEMBER(Concept, member, type, ...)                               \
  template <class K>                                                                  \
  concept Concept = requires(const K& kernel, const CustomCall& call, void* stream) { \
    { kernel.member __VA_ARGS__ } -> std::convertible_to<type>;                       \
  };                                                                                  \
  template <class K>                                                                  \
  concept Concept##OrNone = Concept<K> || !(                                          \
                                              requires { &K::member; } || requires { K::member; })
ADRET_CUSTOM_MEMBER(RunsOnCuda, run_cuda, void, (call, stream));
ADRET_CUSTOM_MEMBER(WantsWorkspace, workspace_bytes, size_t, (call));
ADRET_CUSTOM_MEMBER(CountsFlops, flops, double, (call));
ADRET_CUSTOM_MEMBER(PrintsParams, params, std::string, ());
ADRET_CUSTOM_MEMBER(ListsInputs, inputs, std::span<const CustomOperand>);
ADRET_CUSTOM_MEMBER(ListsOutputs, outputs, std::span<const CustomOperand>);
ADRET_CUSTOM_MEMBER(SaysCapturable, capturable, bool);
#undef ADRET_CUSTOM_MEMBER
}  // namespace detail

// What run_custom takes, as the library sees it.
template <class K>
class CustomKernelOf final : public AnyCustomKernel {
 public:
  explicit CustomKernelOf(const K& kernel) : kernel_(kernel) {}
  const K& get() const { return kernel_; }

  const char* name() const override { return K::name; }
  void run_cpu(const CustomCall& call) const override { kernel_.run_cpu(call); }
  void run_cuda(const CustomCall& call, void* stream) const override {
    if constexpr (detail::RunsOnCuda<K>) {
      kernel_.run_cuda(call, stream);
    } else {
      run_cuda_part(*this, call, stream);
    }
  }
  size_t workspace_bytes(const CustomCall& call) const override {
    if constexpr (detail::WantsWorkspace<K>) return kernel_.workspace_bytes(call);
    return AnyCustomKernel::workspace_bytes(call);
  }
  double flops(const CustomCall& call) const override {
    if constexpr (detail::CountsFlops<K>) return kernel_.flops(call);
    return AnyCustomKernel::flops(call);
  }
  std::string params() const override {
    if constexpr (detail::PrintsParams<K>) return kernel_.params();
    return {};
  }
  std::span<const CustomOperand> inputs() const override {
    if constexpr (detail::ListsInputs<K>) return K::inputs;
    return {};
  }
  std::span<const CustomOperand> outputs() const override {
    if constexpr (detail::ListsOutputs<K>) return K::outputs;
    return {};
  }
  bool capturable() const override {
    if constexpr (detail::SaysCapturable<K>) return K::capturable;
    return true;
  }
  std::unique_ptr<const AnyCustomKernel> clone() const override {
    return std::make_unique<const CustomKernelOf>(kernel_);
  }
  bool equals(const AnyCustomKernel& other) const override {
    return other.type() == type() && kernel_ == static_cast<const CustomKernelOf&>(other).kernel_;
  }
  const std::type_info& type() const override { return typeid(K); }

 private:
  K kernel_;
};

namespace kernels {

// The kernel and the spans must outlive the call; what records calls copies them.
struct Custom {
  static constexpr const char* name = "custom";  // kernel_name() gives the kernel's own
  const AnyCustomKernel* kernel = nullptr;
  std::span<const TensorView> in, out;

  std::vector<Operand> inputs() const;
  std::vector<Operand> outputs() const;
  double flops() const { return kernel->flops({in, out}); }
  std::string params() const { return kernel->params(); }
  // For the device to run; `memory` keeps the workspace.
  CustomCall with_workspace(Device device, IntrusivePtr<Storage>& memory) const;
};

}  // namespace kernels

namespace detail {
void run_custom(const AnyCustomKernel& kernel, std::span<const Tensor> inputs,
                std::span<const Tensor> outputs);
}  // namespace detail

// Runs a kernel of a user's own on the device of its operands:
//   struct Blur {
//     static constexpr const char* name = "blur";
//     int radius = 1;
//     bool operator==(const Blur&) const = default;
//     void run_cpu(const CustomCall& call) const;
//   };
//   run_custom(Blur{.radius = 2}, {x, weight}, {y});
// A kernel is a small value: a recorded step keeps a copy of it, and compares it with the one of
// the next. Decorators see it like a built-in kernel. It may also have
//   static constexpr CustomOperand inputs[], outputs[];    names, and what may be undefined
//   size_t workspace_bytes(const CustomCall&) const;
//   double flops(const CustomCall&) const;      a multiply-add counting two, for reports
//   std::string params() const;                 its members, for printing: "radius 2"
//   static constexpr bool capturable = false;   another run would not repeat what it does, as it
//                                               asks the host: a Step with it stays eager
// and a CUDA part: see core/cuda_part.h. Outputs are allocated by the caller; a tensor that is
// updated stands in both lists. What is written is not recorded for gradients: that is record()'s
// (autograd/node.h). Throws Error for an undefined operand that is not optional and for another
// number than the kernel lists, DeviceError for operands on several devices, or on a GPU without a
// CUDA part.
template <class K>
void run_custom(const K& kernel, std::span<const Tensor> inputs, std::span<const Tensor> outputs) {
  constexpr bool has_name = requires {
    { K::name } -> std::convertible_to<const char*>;
  };
  static_assert(has_name, "[run_custom] a kernel has static constexpr const char* name");
  constexpr bool runs = requires(const CustomCall& call) { kernel.run_cpu(call); };
  static_assert(runs, "[run_custom] a kernel has void run_cpu(const CustomCall& call) const");
  constexpr bool is_copied = std::copy_constructible<K>;
  static_assert(is_copied,
                "[run_custom] a kernel is copied into recorded steps: it holds plain "
                "values alone, and its tensors are operands");
  constexpr bool is_compared = std::equality_comparable<K>;
  static_assert(is_compared,
                "[run_custom] a kernel is compared from step to step: declare in it "
                "bool operator==(const K&) const = default, over members that have one");
  constexpr bool is_sound = detail::RunsOnCudaOrNone<K> && detail::WantsWorkspaceOrNone<K> &&
                            detail::CountsFlopsOrNone<K> && detail::PrintsParamsOrNone<K> &&
                            detail::ListsInputsOrNone<K> && detail::ListsOutputsOrNone<K> &&
                            detail::SaysCapturableOrNone<K>;
  static_assert(is_sound,
                "[run_custom] a member of the kernel (run_cuda, workspace_bytes, flops, "
                "params, inputs, outputs or capturable) is not as core/kernels/custom.h "
                "has it, or not const");
  if constexpr (has_name && runs && is_copied && is_compared && is_sound) {
    detail::run_custom(CustomKernelOf<K>(kernel), inputs, outputs);
  }
}
template <class K>
void run_custom(const K& kernel, std::initializer_list<Tensor> inputs,
                std::initializer_list<Tensor> outputs) {
  run_custom(kernel, std::span<const Tensor>(inputs.begin(), inputs.size()),
             std::span<const Tensor>(outputs.begin(), outputs.size()));
}

}  // namespace adret
