// Which kernels take 16 bits, and f32 copies for the others.
#include <adret/core/cpu/kernels.h>
#include <adret/core/cpu/widened.h>
#include <adret/core/kernels/fields.h>
#include <adret/core/kernels/rewrite.h>
#include <adret/core/tensor.h>

#include <algorithm>
#include <type_traits>
#include <vector>

namespace adret::cpu {
namespace {

template <class K, class... List>
constexpr bool is_one_of = (std::is_same_v<K, List> || ...);

// Those that move elements, convert each by itself, or widen them in registers.
template <class K>
bool takes_16_bits(const K&) {
  return is_one_of<K, kernels::Fill, kernels::Copy, kernels::Cast, kernels::Broadcast,
                   kernels::Permute, kernels::CopyRuns, kernels::Gather, kernels::Remap,
                   kernels::RandomUniform, kernels::RandomNormal, kernels::DropoutForward,
                   kernels::DropoutBackward, kernels::MuonDirection, kernels::MuonStep,
                   kernels::AugmentImages, kernels::Arange, kernels::Select, kernels::Custom>;
}
bool takes_16_bits(const kernels::Binary& call) { return is_comparison(call.op); }
bool takes_16_bits(const kernels::Scatter& call) {
  return call.mode == kernels::ScatterMode::assign;
}

bool is_16_bit(const TensorView& view) {
  return view.dtype == DType::bf16 || view.dtype == DType::f16;
}

struct WideCopy {
  TensorView narrow;
  Tensor wide;
};

}  // namespace

bool needs_widening(const Kernel& call) {
  return std::visit(
      [](const auto& kernel) {
        bool any = false;
        kernels::for_each_operand(kernel, [&](const TensorView& view) { any |= is_16_bit(view); });
        return any && !takes_16_bits(kernel);
      },
      call.any());
}

void run_widened(const Kernel& call, void (*run)(const Kernel&)) {
  std::vector<WideCopy> copies;
  const auto copy_of = [&](const TensorView& view) {
    return std::ranges::find_if(copies, [&](const WideCopy& copy) {
      return copy.narrow.data == view.data && copy.narrow.numel() == view.numel();
    });
  };
  const RewrittenCall widened(call, [&](const TensorView& view) -> TensorView {
    if (!is_16_bit(view)) return view;
    if (copy_of(view) == copies.end()) {
      copies.push_back({view, Tensor::empty(view.shape)});
      cpu::run(kernels::Cast{.x = view, .y = copies.back().wide});
    }
    TensorView wide = copy_of(view)->wide;
    wide.shape = view.shape;  // a reshape stands for the same elements
    return wide;
  });
  run(widened.call());
  for (const kernels::Operand& output : outputs(call)) {
    const TensorView& view = output.view;
    if (view.defined() && is_16_bit(view)) {
      cpu::run(kernels::Cast{.x = copy_of(view)->wide, .y = view});
    }
  }
}

}  // namespace adret::cpu
