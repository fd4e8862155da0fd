// Running of custom kernels: checks, workspace, and the register of their CUDA parts.
#include <adret/core/demangle.h>
#include <adret/core/error.h>
#include <adret/core/kernels/kernel.h>
#include <adret/core/scope.h>
#include <fmt/core.h>

#include <cstring>
#include <map>
#include <mutex>

namespace adret {

using kernels::Operand;

namespace {

std::vector<Operand> named(std::span<const TensorView> views, std::span<const CustomOperand> list,
                           const char* otherwise) {
  std::vector<Operand> operands;
  for (size_t i = 0; i < views.size(); ++i) {
    operands.push_back({i < list.size() ? list[i].name : otherwise, views[i]});
  }
  return operands;
}

}  // namespace

std::vector<Operand> kernels::Custom::inputs() const { return named(in, kernel->inputs(), "in"); }
std::vector<Operand> kernels::Custom::outputs() const {
  return named(out, kernel->outputs(), "out");
}

CustomCall kernels::Custom::with_workspace(Device device, IntrusivePtr<Storage>& memory) const {
  CustomCall call{in, out};
  if (const size_t bytes = kernel->workspace_bytes(call); bytes > 0) {
    memory = Storage::allocate(bytes, device);
    call.workspace = memory->data();
  }
  return call;
}

// -- run_custom ----------------------------------------------------------------------------------

namespace {

// "input 1 (weight)".
std::string text_of(const char* role, size_t i, std::span<const CustomOperand> list) {
  return i < list.size() ? fmt::format("{} {} ({})", role, i, list[i].name)
                         : fmt::format("{} {}", role, i);
}

void check_defined(const char* kernel, const char* role, std::span<const TensorView> views,
                   std::span<const CustomOperand> list) {
  if (!list.empty() && views.size() != list.size()) {
    throw Error(fmt::format("[{}] got {} {}s, wanted {}", kernel, views.size(), role, list.size()));
  }
  for (size_t i = 0; i < views.size(); ++i) {
    if (views[i].defined() || (i < list.size() && list[i].optional)) continue;
    throw Error(fmt::format(
        "[{}] {} is an undefined tensor; pass one, or let {}s of the kernel say that it is "
        "optional",
        kernel, text_of(role, i, list), role));
  }
}

void check_devices(const char* kernel, const TensorView& first, const char* role,
                   std::span<const TensorView> views, std::span<const CustomOperand> list) {
  for (size_t i = 0; i < views.size(); ++i) {
    if (!views[i].defined() || views[i].device == first.device) continue;
    throw DeviceError(fmt::format(
        "[{}] {} is {}, and the first output is on {}; move all to one device with to()", kernel,
        text_of(role, i, list), to_string(views[i]), to_string(first.device)));
  }
}

std::vector<TensorView> views_of(std::span<const Tensor> tensors) {
  return {tensors.begin(), tensors.end()};
}

}  // namespace

void detail::run_custom(const AnyCustomKernel& kernel, std::span<const Tensor> inputs,
                        std::span<const Tensor> outputs) {
  const FunctionScope scope(kernel.name());
  const std::vector<TensorView> in = views_of(inputs), out = views_of(outputs);
  check_defined(kernel.name(), "input", in, kernel.inputs());
  check_defined(kernel.name(), "output", out, kernel.outputs());
  const auto first = std::ranges::find_if(out, &TensorView::defined);
  if (first == out.end()) {
    throw Error(
        fmt::format("[{}] has no output to write; pass one that is defined", kernel.name()));
  }
  check_devices(kernel.name(), *first, "input", in, kernel.inputs());
  check_devices(kernel.name(), *first, "output", out, kernel.outputs());
  run(kernels::Custom{.kernel = &kernel, .in = in, .out = out});
  for (const Tensor& output : outputs) {
    if (output.defined()) output.bump_version();
  }
}

// -- CUDA parts ----------------------------------------------------------------------------------

namespace {

// By the names of types, which are the same in every shared object.
struct Parts {
  std::mutex mutex;
  std::map<std::string, std::vector<CudaPartEntry>, std::less<>> by_type;
};
Parts& parts() {
  static Parts* const instance = new Parts;  // outlives all statics
  return *instance;
}

std::vector<CudaPartEntry> parts_of(const AnyCustomKernel& kernel) {
  const std::lock_guard lock(parts().mutex);
  const auto entries = parts().by_type.find(std::string_view(kernel.type().name()));
  return entries == parts().by_type.end() ? std::vector<CudaPartEntry>() : entries->second;
}

}  // namespace

void add_cuda_part(const std::type_info& type, const CudaPartEntry& entry) {
  const std::lock_guard lock(parts().mutex);
  std::vector<CudaPartEntry>& entries = parts().by_type[type.name()];
  // One source file in two shared objects is one part.
  const auto is_same = [&](const CudaPartEntry& other) {
    return other.line == entry.line && std::strcmp(other.file, entry.file) == 0;
  };
  if (std::ranges::none_of(entries, is_same)) entries.push_back(entry);
}

bool has_cuda_part(const AnyCustomKernel& kernel) { return !parts_of(kernel).empty(); }

void run_cuda_part(const AnyCustomKernel& kernel, const CustomCall& call, void* stream) {
  const std::vector<CudaPartEntry> entries = parts_of(kernel);
  if (entries.empty()) {
    throw DeviceError(
        fmt::format("[{}] this custom kernel has no CUDA part; register one for {} with CudaPart "
                    "(adret/core/cuda_part.h) in a .cu file of the program, or move the operands "
                    "with to(Device::cpu())",
                    kernel.name(), demangled(kernel.type())));
  }
  if (std::strstr(kernel.type().name(), "_GLOBAL__N_")) {
    throw DeviceError(
        fmt::format("[{}] {} has a CUDA part and an unnamed namespace, in which each file has "
                    "types of its own under the same names; declare it in a header, in a namespace "
                    "with a name",
                    kernel.name(), demangled(kernel.type())));
  }
  if (entries.size() > 1) {
    throw DeviceError(
        fmt::format("[{}] two CUDA parts are registered for {}, in {}:{} and {}:{}; keep one",
                    kernel.name(), demangled(kernel.type()), entries[0].file, entries[0].line,
                    entries[1].file, entries[1].line));
  }
  entries[0].run(entries[0].part, kernel, call, stream);
}

void throw_launch_failed(const char* name, const char* why) {
  throw DeviceError(fmt::format("[{}] its kernel could not be launched: {}", name, why));
}

}  // namespace adret
