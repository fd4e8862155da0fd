// Copies of a model's state, there and back.
#include <adret/autograd/grad_mode.h>
#include <adret/autograd/ops/inplace.h>
#include <adret/train/snapshot.h>

namespace adret {

Snapshot::Snapshot(const Module& model) {
  const FunctionScope scope("snapshot");
  const NoGrad no_grad;
  for (const auto& parameter : model.parameters()) {
    const Tensor master = parameter->master();
    weights_.push_back(
        {parameter, parameter->value.clone(), master.defined() ? master.clone() : master});
  }
  for (const NamedTensor& buffer : model.named_buffers()) {
    buffers_.push_back({buffer.tensor, buffer.tensor.clone()});
  }
}

void Snapshot::restore() const {
  const FunctionScope scope("snapshot");
  const NoGrad no_grad;
  for (const auto& [parameter, value, master] : weights_) {
    copy_(parameter->value, value);
    // A copy: an optimizer without an arena of masters may keep it, and this may be used again.
    if (master.defined()) parameter->set_master(master.clone());
  }
  for (const auto& [place, value] : buffers_) copy_(place, value);
}

}  // namespace adret
