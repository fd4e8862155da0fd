// Questions answered for any kernel by visiting its fields.
#include <adret/core/error.h>
#include <adret/core/kernels/kernel.h>
#include <fmt/core.h>

#include <bit>

namespace adret {

using kernels::Operand;

const char* kernel_name(const Kernel& kernel) {
  if (const auto* custom = std::get_if<kernels::Custom>(&kernel.any())) {
    return custom->kernel->name();
  }
  return std::visit([](const auto& call) { return std::decay_t<decltype(call)>::name; },
                    kernel.any());
}

std::vector<Operand> inputs(const Kernel& kernel) {
  return std::visit(
      [](const auto& call) {
        const auto list = call.inputs();
        return std::vector<Operand>(list.begin(), list.end());
      },
      kernel.any());
}

std::vector<Operand> outputs(const Kernel& kernel) {
  return std::visit(
      [](const auto& call) {
        const auto list = call.outputs();
        return std::vector<Operand>(list.begin(), list.end());
      },
      kernel.any());
}

double flops(const Kernel& kernel) {
  return std::visit([](const auto& call) { return call.flops(); }, kernel.any());
}

double bytes_moved(const Kernel& kernel) {
  double bytes = 0;
  for (const Operand& operand : inputs(kernel)) bytes += double(operand.view.bytes());
  for (const Operand& operand : outputs(kernel)) bytes += double(operand.view.bytes());
  return bytes;
}

std::string to_string(const TensorView& view) {
  if (!view.defined()) return "none";
  return fmt::format("{} {} {}", to_string(view.shape), name(view.dtype), to_string(view.device));
}

std::string to_string(const Kernel& kernel) {
  std::string text = kernel_name(kernel);
  for (const Operand& operand : inputs(kernel)) {
    text += fmt::format(" {}={}", operand.name, to_string(operand.view));
  }
  text += " ->";
  for (const Operand& operand : outputs(kernel)) {
    text += fmt::format(" {}={}", operand.name, to_string(operand.view));
  }
  std::visit(
      [&](const auto& call) {
        if constexpr (requires { call.params(); }) {
          const std::string params = call.params();
          if (!params.empty()) text += " " + params;
        }
      },
      kernel.any());
  return text;
}

namespace kernels {

namespace {

// Two products of the scores' size forward, of which causal leaves half.
double attention_flops(const TensorView& q, int64_t keys, bool causal) {
  return 4.0 * double(q.numel()) / (q.shape.rank() == 5 ? 3 : 1) * double(keys) *
         (causal ? 0.5 : 1);
}

}  // namespace

double AttentionForward::flops() const { return attention_flops(q, keys(), attention.causal); }
double AttentionBackward::flops() const {
  return 2.5 * attention_flops(q, keys(), attention.causal);
}

double RandomUniform::last() const {
  const auto last_of = [this](auto zero, auto bits) {
    using T = decltype(zero);
    using Bits = decltype(bits);
    const T first = T(low), end = T(high);
    if (!(first < end)) return double(first);
    if (end == 0) return -double(std::bit_cast<T>(Bits(1)));
    return double(std::bit_cast<T>(Bits(std::bit_cast<Bits>(end) + Bits(end > 0 ? -1 : 1))));
  };
  switch (y.dtype) {
    case DType::bf16: return last_of(bfloat16(), uint16_t());
    case DType::f16: return last_of(float16(), uint16_t());
    case DType::f64: return last_of(double(), uint64_t());
    default: return last_of(float(), uint32_t());
  }
}

}  // namespace kernels
}  // namespace adret
