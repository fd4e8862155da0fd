// Tensors that a node keeps for its backward, and the check that nobody overwrote them.
#pragma once

#include <adret/autograd/node.h>
#include <adret/core/tensor.h>

#include <cstddef>
#include <cstdint>
#include <memory>

namespace adret {

class Recomputation;

// An input or a constant; may be undefined. Implicit, so that a node's constructor can take
// tensors.
class SavedTensor {
 public:
  SavedTensor() = default;
  SavedTensor(const Tensor& tensor);

  bool defined() const { return tensor_.defined() || recomputation_; }
  // The tensor with its place in the graph. Throws Error, naming the function, when it was written
  // to.
  const Tensor& unpack(const Node& node) const;

 private:
  mutable Tensor tensor_;  // of a checkpoint: once it was unpacked
  uint32_t version_ = 0;
  std::shared_ptr<Recomputation> recomputation_;  // gives the tensor of this number
  size_t number_ = 0;
};

// An output of the node itself: kept outside the graph, so that there is no cycle, and put back
// when unpacked. To be made before the output is recorded, as the node's constructor does. May be
// undefined, but not unpacked then.
class SavedOutput {
 public:
  SavedOutput(const Tensor& output, int index = 0);

  bool defined() const { return saved_.defined(); }
  Tensor unpack(Node& node) const;

 private:
  SavedTensor saved_;
  int index_;
};

}  // namespace adret
