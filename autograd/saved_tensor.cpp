// Saved tensors and their versions.
#include <adret/autograd/recompute.h>
#include <adret/autograd/saved_tensor.h>
#include <adret/core/error.h>
#include <fmt/core.h>

namespace adret {

SavedTensor::SavedTensor(const Tensor& tensor) {
  if (!tensor.defined()) return;
  version_ = tensor.version();
  if (Recomputation* const current = Recomputation::current()) {
    const auto number = current->save(tensor);
    if (number) {
      recomputation_ = current->shared_from_this();
      number_ = *number;
      return;
    }
  }
  tensor_ = tensor;
}

const Tensor& SavedTensor::unpack(const Node& node) const {
  if (recomputation_ && !tensor_.defined()) tensor_ = recomputation_->take(number_, node);
  if (tensor_.defined() && tensor_.version() != version_) {
    throw Error(
        fmt::format("[{}] a tensor {} {} that backward still needs was written to after the "
                    "forward (version {}, saved at {}); write into a clone() instead, or after "
                    "backward",
                    node.name(), to_string(tensor_.shape()), name(tensor_.dtype()),
                    tensor_.version(), version_));
  }
  return tensor_;
}

SavedOutput::SavedOutput(const Tensor& output, int index)
    : saved_(output.defined() ? output.detach() : output), index_(index) {}

Tensor SavedOutput::unpack(Node& node) const {
  Tensor output = saved_.unpack(node).detach();
  output.set_node(IntrusivePtr<GraphNode>(&node), index_);
  return output;
}

}  // namespace adret
