// The values of a model at a moment, to go back to.
#pragma once

#include <adret/layers/module.h>

#include <memory>
#include <vector>

namespace adret {

// Copies parameters, their f32 masters and buffers, on their device. The model must outlive it.
class Snapshot {
 public:
  explicit Snapshot(const Module& model);
  // Writes them back, bit for bit; handles and an optimizer's arena stay.
  void restore() const;

 private:
  struct Weight {
    std::shared_ptr<Parameter> parameter;
    Tensor value, master;  // master undefined where there was none
  };
  struct Buffer {
    Tensor place, value;
  };
  std::vector<Weight> weights_;
  std::vector<Buffer> buffers_;
};

}  // namespace adret
