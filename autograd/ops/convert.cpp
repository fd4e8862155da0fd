// Copies of a tensor: as it is, on another device, in another dtype.
#include <adret/autograd/node.h>
#include <adret/autograd/ops/check.h>
#include <adret/autograd/ops/inplace.h>
#include <adret/core/kernels/kernel.h>

namespace adret {

using namespace kernels;

namespace {

struct CloneBackward final : Node {
  const char* name() const override { return "clone"; }
  std::vector<Tensor> backward(const std::vector<Tensor>& grads) override { return {grads[0]}; }
};

// Of a conversion from a Source, which is a Device or a DType.
template <class Source>
struct ToBackward final : Node {
  explicit ToBackward(Source source) : source(source) {}
  const char* name() const override { return "to"; }
  std::vector<Tensor> backward(const std::vector<Tensor>& grads) override {
    return {grads[0].to(source)};
  }
  Source source;
};

}  // namespace

Tensor Tensor::clone() const {
  const FunctionScope scope("clone");
  Tensor y = empty_like(*this);
  run(Copy{.x = *this, .y = y});
  record<CloneBackward>({y}, {*this});
  return y;
}

Tensor Tensor::to(Device device) const {
  const FunctionScope scope("to");
  if (device == this->device()) return *this;
  Tensor y = empty(shape(), {.dtype = dtype(), .device = device});
  {
    NoGrad no_grad;
    copy_(y, *this);
  }
  record<ToBackward<Device>>({y}, {*this}, this->device());
  return y;
}

Tensor Tensor::to(DType dtype) const {
  const FunctionScope scope("to");
  if (dtype == this->dtype()) return *this;
  Tensor y = empty(shape(), {.dtype = dtype, .device = device()});
  run(Cast{.x = *this, .y = y});
  if (is_floating(dtype)) record<ToBackward<DType>>({y}, {*this}, this->dtype());
  return y;
}

}  // namespace adret
