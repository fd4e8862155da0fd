// A kernel call on other operands.
#include <adret/core/kernels/fields.h>
#include <adret/core/kernels/rewrite.h>

#include <type_traits>

namespace adret {

RewrittenCall::RewrittenCall(const Kernel& call, const Replace& replace) : call_(call) {
  const auto rewritten = [&](std::span<const TensorView> views) {
    std::vector<TensorView> list(views.begin(), views.end());
    for (TensorView& view : list) {
      if (view.defined()) view = replace(view);
    }
    return list;
  };
  std::visit(
      [&](auto& kernel) {
        if constexpr (std::is_same_v<decltype(kernel), kernels::Custom&>) {
          kernel_ = kernel.kernel->clone();
          kernel.kernel = kernel_.get();
          kernel.in = in_ = rewritten(kernel.in);
          kernel.out = out_ = rewritten(kernel.out);
        } else {
          kernels::for_each_operand(kernel, [&](TensorView& view) {
            if (view.defined()) view = replace(view);
          });
        }
      },
      static_cast<kernels::AnyKernel&>(call_));
}

}  // namespace adret
