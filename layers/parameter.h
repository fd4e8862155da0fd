// What a model learns: a tensor with a gradient, and how it is written to files.
#pragma once

#include <adret/core/tensor.h>

#include <memory>
#include <string>

namespace adret {

// How a parameter's elements turn into the file's, which are always in PyTorch's layout.
enum class FileLayout {
  same,
  conv_weight,  // (O, KH, KW, I) in memory, (O, I, KH, KW) in the file; or with 1 or 3 K
  transposed,   // (O, I) in memory, (I, O) in the file
};

// Shared by the module that registered it, the optimizer, and modules that tie their weights to it.
// Converts to its value, so that functions take it like a tensor: linear(x, weight, bias).
struct Parameter : std::enable_shared_from_this<Parameter> {
  Tensor value;      // undefined for an absent one, as a bias that is switched off
  std::string name;  // within its module: "weight"
  FileLayout layout = FileLayout::same;
  bool in_arena = false;  // an optimizer owns the memory of value

  // Takes `tensor` (undefined: absent) as the value, outside its graph, sharing its elements.
  Parameter(std::string name, const Tensor& tensor, FileLayout layout);
  Parameter(const Parameter&) = delete;
  Parameter& operator=(const Parameter&) = delete;

  operator const Tensor&() const { return value; }
  bool requires_grad() const { return value.defined() && value.requires_grad(); }
  // Freezes the parameter, or lets it learn again.
  void set_requires_grad(bool requires_grad);
  // Another value in another place; it learns if the old one did, and has its gradient hooks; the
  // gradient is dropped. Throws Error when an optimizer owns the memory.
  void replace(const Tensor& tensor);
  // Of a 16-bit value the f32 elements that it is rounded from, for optimizers to update and files
  // to hold. Undefined for other dtypes, when there are none, and when the value was written to
  // since set_master.
  Tensor master() const;
  // Undefined lets go of it. Throws ShapeError unless it is f32, of a 16-bit value's shape, and on
  // its device.
  void set_master(const Tensor& master);
  // The master if there is one, else the value; outside the graph.
  Tensor exact() const;

 private:
  Tensor master_, mastered_;  // mastered_ is the value that the master goes with
  uint32_t mastered_version_ = 0;
};

struct NamedParameter {
  std::string name;  // dotted, from the root: "conv1.weight"
  std::shared_ptr<Parameter> parameter;
};

struct NamedTensor {
  std::string name;
  Tensor tensor;
};

}  // namespace adret
