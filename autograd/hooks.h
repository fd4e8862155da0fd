// Hooks on the gradients of tensors.
#pragma once

#include <adret/autograd/node.h>
#include <adret/core/tensor.h>

#include <functional>
#include <string>
#include <vector>

namespace adret {

// Sees a gradient. An undefined result leaves it; another takes its place, of its shape and dtype
// and on its device.
using GradientHook = std::function<Tensor(const Tensor& gradient)>;

// Called in every backward() and grad() that walks through `x`, with the whole gradient of that
// pass, before what `x` was computed from sees it; of a leaf before it is added to x.grad(). Hooks
// run in the order they were added, each with what the one before made of the gradient. With
// create_graph what they compute is recorded. The gradient of a parameter may lie in memory that
// the next pass writes to: who keeps it takes a clone(). A hook keeps a Step from being replayed,
// and ends with the graph, of a leaf with set_requires_grad(false). Returns a number to remove it
// by. Throws Error for a tensor that requires no gradient; the pass throws ShapeError for a
// replacement that does not fit.
//
//   add_gradient_hook(h, [](const Tensor& gradient) { return clamp(gradient, -1, 1); });
int add_gradient_hook(const Tensor& x, GradientHook hook);
// Does nothing for a number that is not there.
void remove_gradient_hook(const Tensor& x, int id);

// Hooks of the leaf `from` go over to the leaf `to`, which has taken its place, and keep their
// numbers. Does nothing where either requires no gradient.
void move_gradient_hooks(const Tensor& from, const Tensor& to);

// Those of a node, each of one of its outputs.
struct GradientHooks {
  struct Entry {
    int id, output;
    GradientHook hook;
  };
  std::vector<Entry> entries;
  int next_id = 0;

  // Runs them over the gradients of a node's outputs, undefined where none arrived.
  static void run(const Node& node, const GradientHooks& hooks, std::vector<Tensor>& gradients);
};

// Throws ShapeError unless `replacement`, which a hook made, is like `gradient`.
void check_replacement(const std::string& hook, const Tensor& replacement, const Tensor& gradient);

}  // namespace adret
