// Nodes, leaves and the tensors' links to them.
#include <adret/autograd/node.h>
#include <adret/autograd/ops/arithmetic.h>
#include <adret/autograd/recompute.h>
#include <adret/autograd/step_trace.h>
#include <adret/core/error.h>
#include <adret/core/kernels/kernel.h>
#include <fmt/core.h>

#include <atomic>

namespace adret {
namespace {

uint64_t next_sequence() {
  static std::atomic<uint64_t> counter{0};
  return counter.fetch_add(1, std::memory_order_relaxed);
}

}  // namespace

Node::Node(bool is_leaf) : sequence_(next_sequence()), is_leaf_(is_leaf) {}

// Note [Iterative teardown]
// Deleting a node drops its inputs, which may drop theirs: as deep as the graph. So a node whose
// last handle goes is queued, and the outermost call deletes the queue in a loop.
void Node::destroy() noexcept {
  thread_local std::vector<Node*> queue;
  thread_local bool draining = false;
  queue.push_back(this);
  if (draining) return;
  draining = true;
  while (!queue.empty()) {
    Node* node = queue.back();
    queue.pop_back();
    delete node;
  }
  draining = false;
}

Leaf::Leaf(const Tensor& tensor) : Node(true) {
  output_specs_.push_back({tensor.shape(), tensor.dtype(), tensor.device()});
}

// Takes a whole gradient of this pass: the first moves in (or into its slot), later ones are added.
std::vector<Tensor> Leaf::backward(const std::vector<Tensor>& grads) {
  const Tensor& incoming = grads[0];
  slot_lent = false;
  if (StepTrace* trace = StepTrace::current()) trace->use_gradient(*this);
  if (grad_enabled()) {
    grad = grad.defined() ? add(grad, incoming) : incoming;
  } else if (grad.defined()) {
    const bool in_place = grad.is_unique() || (slot.defined() && grad.shares_start(slot));
    Tensor total = in_place ? grad : Tensor::empty(grad.shape(), {grad.dtype(), grad.device()});
    run(kernels::Binary{.a = grad, .b = incoming, .y = total, .op = kernels::BinaryOp::add});
    total.bump_version();
    grad = total;
  } else if (slot.defined()) {
    if (!incoming.shares_start(slot)) run(kernels::Copy{.x = incoming, .y = slot});
    slot.bump_version();
    grad = slot;
  } else if (incoming.is_unique()) {
    grad = incoming;
  } else {  // also another leaf's, or the caller's: writing into one must not change the other
    grad = Tensor::empty(incoming.shape(), {incoming.dtype(), incoming.device()});
    run(kernels::Copy{.x = incoming, .y = grad});
  }
  return {};
}

Leaf* as_leaf(Node* node) { return node && node->is_leaf() ? static_cast<Leaf*>(node) : nullptr; }

Leaf* leaf_of(const Tensor& tensor) { return as_leaf(static_cast<Node*>(tensor.node().get())); }

bool any_requires_grad(std::span<const Tensor> tensors) {
  for (const Tensor& tensor : tensors) {
    if (tensor.defined() && tensor.requires_grad()) return true;
  }
  return false;
}

void attach(IntrusivePtr<Node> node, std::span<const Tensor> outputs,
            std::span<const Tensor> inputs) {
  node->edges_.reserve(inputs.size());
  Recomputation* const recomputation = Recomputation::current();
  for (const Tensor& input : inputs) {
    if (input.defined() && input.requires_grad()) {
      if (recomputation && leaf_of(input)) recomputation->note_leaf(input);
      node->edges_.push_back(
          {IntrusivePtr<Node>(static_cast<Node*>(input.node().get())), input.output_index()});
    } else {
      node->edges_.emplace_back();
    }
  }
  node->output_specs_.reserve(outputs.size());
  for (const Tensor& output : outputs) {
    output.set_node(node, int(node->output_specs_.size()));
    node->output_specs_.push_back({output.shape(), output.dtype(), output.device()});
  }
}

bool Tensor::is_leaf() const { return !body().node || leaf_of(*this); }

Tensor& Tensor::set_requires_grad(bool value) {
  if (!is_leaf()) {
    throw Error(fmt::format(
        "[set_requires_grad] the tensor {} is the result of {}; only leaves can change: use "
        "detach() for a constant",
        to_string(shape()), static_cast<Node*>(body().node.get())->name()));
  }
  if (value && !is_floating(dtype())) {
    throw ShapeError(fmt::format(
        "[set_requires_grad] a {} tensor has no gradient; convert it with to(DType::f32)",
        adret::name(dtype())));
  }
  if (value == requires_grad()) return *this;
  set_node(value ? IntrusivePtr<GraphNode>(make_intrusive<Leaf>(*this)) : nullptr, 0);
  if (!StepTrace::current()) structure_changed();  // else it is the step's own
  return *this;
}

Tensor Tensor::grad() const {
  const Leaf* leaf = leaf_of(*this);
  return leaf ? leaf->grad : Tensor();
}

void Tensor::set_grad(const Tensor& grad) {
  Leaf* leaf = leaf_of(*this);
  if (!leaf) {
    if (!grad.defined()) return;
    throw Error(
        fmt::format("[set_grad] the tensor {} is no leaf that requires a gradient; call "
                    "set_requires_grad(true) first",
                    to_string(shape())));
  }
  if (grad.defined() &&
      (grad.shape() != shape() || grad.dtype() != dtype() || grad.device() != device())) {
    throw ShapeError(fmt::format("[set_grad] the gradient is {}, the tensor {}; they must agree",
                                 to_string(TensorView(grad)), to_string(TensorView(*this))));
  }
  if (StepTrace* trace = StepTrace::current()) trace->replace_gradient(*leaf);
  leaf->grad = grad;
}

Tensor Tensor::detach() const { return alias(shape()); }

}  // namespace adret
