// A recorded function in the graph: what it saved, where its inputs came from, and its derivative.
#pragma once

#include <adret/autograd/grad_mode.h>
#include <adret/core/tensor.h>

#include <cstdint>
#include <functional>
#include <initializer_list>
#include <memory>
#include <span>
#include <utility>
#include <vector>

namespace adret {

class Node;
struct BackwardState;  // what one backward pass keeps for a node; engine.cpp
struct GradientHooks;  // hooks.h

// The place of a tensor in the graph: output `index` of `node`. No node: it needs no gradient.
struct Edge {
  IntrusivePtr<Node> node;
  int index = 0;
};

struct TensorSpec {
  Shape shape;
  DType dtype = DType::f32;
  Device device;
};

// Derive a function's backward from it, save what it needs in SavedTensor members, and record it
// with record<MyBackward>(outputs, inputs, constructor arguments...).
class Node : public GraphNode {
 public:
  Node() : Node(false) {}

  // The function's name, for errors: "conv2d".
  virtual const char* name() const = 0;
  // From one gradient per output (undefined where none arrived; there is always at least one) the
  // gradients of the inputs, in their order; undefined for an input that needs none, or for zero.
  // Written with differentiable functions, it can be differentiated again. A gradient that
  // is_unique() may be overwritten while nothing is recorded.
  virtual std::vector<Tensor> backward(const std::vector<Tensor>& grads) = 0;

  // Whether this pass wants the gradient of an input.
  bool needs_gradient(size_t input) const;
  // Memory for the gradient of an input, uninitialised: a parameter's place in its gradient arena
  // when it is free, so that nothing is copied later. Every element must be written.
  Tensor grad_buffer(size_t input) const;

  const TensorSpec& output_spec(size_t index) const { return output_specs_[index]; }
  bool is_leaf() const { return is_leaf_; }

 protected:
  void destroy() noexcept override;  // iterative: chains of any length

 private:
  friend class Engine;
  friend class Leaf;
  explicit Node(bool is_leaf);
  friend void attach(IntrusivePtr<Node>, std::span<const Tensor>, std::span<const Tensor>);
  friend int add_gradient_hook(const Tensor&, std::function<Tensor(const Tensor&)>);
  friend void remove_gradient_hook(const Tensor&, int);
  friend void move_gradient_hooks(const Tensor& from, const Tensor& to);

  std::vector<Edge> edges_;
  std::vector<TensorSpec> output_specs_;
  BackwardState* state_ = nullptr;
  std::shared_ptr<GradientHooks> hooks_;  // null: none
  uint64_t sequence_;                     // of creation: a node's inputs have lower ones
  bool released_ = false;
  bool is_leaf_;
};

// The end of the graph at a tensor that asked for a gradient; holds the gradient.
class Leaf final : public Node {
 public:
  explicit Leaf(const Tensor& tensor);
  const char* name() const override { return "leaf"; }
  std::vector<Tensor> backward(const std::vector<Tensor>& grads) override;

  Tensor grad;
  Tensor slot;             // the gradient's place in an arena, or undefined
  bool parameter = false;  // belongs to a module
  bool slot_lent = false;  // by grad_buffer, in the pass under way
};

// The leaf behind a tensor, or null.
Leaf* leaf_of(const Tensor& tensor);
Leaf* as_leaf(Node* node);  // null for other nodes

bool any_requires_grad(std::span<const Tensor> tensors);
// Makes `node` the origin of the outputs.
void attach(IntrusivePtr<Node> node, std::span<const Tensor> outputs,
            std::span<const Tensor> inputs);

// Records that a function made `outputs` from `inputs`, if anything is recorded now and an input
// needs a gradient. Inputs may be undefined. The arguments construct the node N.
template <class N, class... Args>
void record(std::span<const Tensor> outputs, std::span<const Tensor> inputs, Args&&... args) {
  if (!grad_enabled() || !any_requires_grad(inputs)) return;
  attach(make_intrusive<N>(std::forward<Args>(args)...), outputs, inputs);
}
template <class N, class... Args>
void record(std::initializer_list<Tensor> outputs, std::initializer_list<Tensor> inputs,
            Args&&... args) {
  record<N>(std::span(outputs.begin(), outputs.size()), std::span(inputs.begin(), inputs.size()),
            std::forward<Args>(args)...);
}

}  // namespace adret
