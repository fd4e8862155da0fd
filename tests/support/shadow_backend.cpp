// The shadow device's kernels: the CPU's, widened where those know f32 and f64 only.
#include "tests/support/shadow_backend.h"

#include <adret/core/error.h>
#include <adret/core/kernels/rewrite.h>
#include <adret/core/tensor.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>

namespace adret::test {
namespace {

bool is_16_bit(DType dtype) { return dtype == DType::bf16 || dtype == DType::f16; }

std::vector<TensorView> operands_of(const Kernel& call) {
  std::vector<TensorView> views;
  for (const auto& operands : {inputs(call), outputs(call)}) {
    for (const kernels::Operand& operand : operands) {
      if (operand.view.defined()) views.push_back(operand.view);
    }
  }
  return views;
}

void run_widened(const Kernel& call) {
  Backend& cpu = backend_for(Device::cpu());
  std::map<void*, Tensor> wide;  // an operand that stands in two fields stays one
  const RewrittenCall widened(call, [&](const TensorView& view) -> TensorView {
    if (!is_16_bit(view.dtype)) return view;
    Tensor& tensor = wide[view.data];
    if (!tensor.defined()) {
      tensor = Tensor::empty(view.shape);
      cpu.run(kernels::Cast{.x = view, .y = tensor});
    }
    return tensor;
  });
  cpu.run(widened.call());
  for (const kernels::Operand& output : outputs(call)) {
    if (output.view.defined() && is_16_bit(output.view.dtype)) {
      cpu.run(kernels::Cast{.x = wide.at(output.view.data), .y = output.view});
    }
  }
}

}  // namespace

void ShadowBackend::run(const Kernel& call) {
  const std::vector<TensorView> operands = operands_of(call);
  for (const TensorView& view : operands) EXPECT_FALSE(view.device.is_cpu()) << to_string(call);
  try {
    backend_for(Device::cpu()).run(call);
  } catch (const ShapeError&) {
    if (std::ranges::none_of(operands, [](auto& view) { return is_16_bit(view.dtype); })) throw;
    run_widened(call);
  }
}

}  // namespace adret::test
