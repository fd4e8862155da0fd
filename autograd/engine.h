// Walks the graph backwards.
#pragma once

#include <adret/autograd/node.h>
#include <adret/core/tensor.h>

#include <vector>

namespace adret {

struct GradOptions {
  std::vector<Tensor> grad_outputs = {};  // d(something)/d(output); ones for scalars by default
  bool create_graph = false;              // the gradients can be differentiated again
  bool retain_graph = false;              // the graph can be walked again; implied by create_graph
};

// d(outputs)/d(inputs), without touching any tensor's own gradient. An input that the outputs do
// not depend on gets zeros. Throws Error without a graph or when it was freed, ShapeError for
// outputs of more than one element without grad_outputs.
std::vector<Tensor> grad(const std::vector<Tensor>& outputs, const std::vector<Tensor>& inputs,
                         const GradOptions& options = {});

// Adds to the gradient of every leaf behind `outputs`. Tensor::backward is this for one scalar.
void backward(const std::vector<Tensor>& outputs, const GradOptions& options = {});

// The leaves that the outputs were computed from and that require a gradient, each once. They live
// as long as the graph.
std::vector<const Leaf*> leaves_behind(const std::vector<Tensor>& outputs);

// The parameters of modules that this thread's last backward() gave a gradient. The leaf may be
// gone since: its address is for comparing.
struct ReachedParameter {
  const Leaf* leaf;
  Shape shape;
  bool in_arena;  // had a place in an optimizer's arena
};
const std::vector<ReachedParameter>& reached_parameters();

}  // namespace adret
