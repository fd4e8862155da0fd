// A kernel call on other operands, for decorators that take calls to another device or dtype.
#pragma once

#include <adret/core/kernels/kernel.h>

#include <functional>
#include <memory>
#include <vector>

namespace adret {

// `call` with every defined operand, in whatever field it stands, replaced by what `replace` gives
// for it, and with a copy of a custom kernel. The new operands are the caller's to keep alive.
class RewrittenCall {
 public:
  using Replace = std::function<TensorView(const TensorView&)>;
  RewrittenCall(const Kernel& call, const Replace& replace);
  RewrittenCall(const RewrittenCall&) = delete;
  RewrittenCall& operator=(const RewrittenCall&) = delete;

  const Kernel& call() const { return call_; }

 private:
  Kernel call_;
  // A custom kernel's.
  std::unique_ptr<const AnyCustomKernel> kernel_;
  std::vector<TensorView> in_, out_;
};

}  // namespace adret
