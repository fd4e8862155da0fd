// The backward pass: collects the nodes behind the outputs, walks them from the newest to the
// oldest, and accumulates what they return.
#include <adret/autograd/engine.h>
#include <adret/autograd/hooks.h>
#include <adret/autograd/ops/arithmetic.h>
#include <adret/core/error.h>
#include <adret/core/kernels/kernel.h>
#include <fmt/core.h>

#include <algorithm>
#include <deque>

namespace adret {

// Lives in the pass; the node points at it meanwhile. Passes nest (a backward may start another),
// so the pointer of an outer pass is kept and put back.
struct BackwardState {
  IntrusivePtr<Node> node;
  BackwardState* outer = nullptr;
  class Engine* pass = nullptr;
  bool wanted = false;          // this node's gradients are to be computed
  bool keep = false;            // they are asked for by grad(): kept when the node is done
  std::vector<Tensor> pending;  // gradient of each output, so far
};

namespace {
thread_local std::vector<ReachedParameter> reached;
}

const std::vector<ReachedParameter>& reached_parameters() { return reached; }

class Engine {
 public:
  Engine(bool create_graph, bool retain_graph, bool into_leaves)
      : create_graph_(create_graph), retain_graph_(retain_graph), into_leaves_(into_leaves) {}
  ~Engine() {
    for (BackwardState& state : states_) leave(state);
  }

  // Collects the graph behind the outputs.
  void enter(const std::vector<Tensor>& outputs) {
    std::vector<Node*> stack;
    for (const Tensor& output : outputs) push(static_cast<Node*>(output.node().get()), stack);
    while (!stack.empty()) {
      Node* node = stack.back();
      stack.pop_back();
      if (node->released_) {
        throw Error(fmt::format(
            "[backward] the graph behind {} was already freed by an earlier backward; pass "
            "retain_graph to that one, or run the forward again",
            node->name()));
      }
      for (const Edge& edge : node->edges_) push(edge.node.get(), stack);
    }
    order_.reserve(states_.size());
    for (BackwardState& state : states_) order_.push_back(&state);
    std::sort(order_.begin(), order_.end(), [](const BackwardState* a, const BackwardState* b) {
      return a->node->sequence_ > b->node->sequence_;
    });
  }

  std::vector<const Leaf*> leaves() const {
    std::vector<const Leaf*> list;
    for (const BackwardState* state : order_) {
      if (const Leaf* leaf = as_leaf(state->node.get())) list.push_back(leaf);
    }
    return list;
  }

  // The state of a node in this pass, or null.
  BackwardState* find(const GraphNode* node) const {
    BackwardState* state = node ? static_cast<const Node*>(node)->state_ : nullptr;
    return state && state->pass == this ? state : nullptr;
  }

  // Wanted are the leaves, or the nodes marked `keep`, and all that lead to them.
  void mark_wanted() {
    for (auto it = order_.rbegin(); it != order_.rend(); ++it) {
      BackwardState& state = **it;
      state.wanted = into_leaves_ || state.keep;
      for (const Edge& edge : state.node->edges_) {
        state.wanted = state.wanted || (edge.node && find(edge.node.get())->wanted);
      }
    }
  }

  void seed(const Tensor& output, const Tensor& gradient) {
    accumulate(*find(output.node().get()), output.output_index(), gradient);
  }

  void run() {
    GradMode mode(create_graph_);
    for (BackwardState* state : order_) {
      const bool any = std::any_of(state->pending.begin(), state->pending.end(),
                                   [](const Tensor& gradient) { return gradient.defined(); });
      if (any && state->wanted) step(*state);
      if (!retain_graph_ && !state->node->is_leaf()) release(*state);
    }
  }

 private:
  friend class Node;

  void push(Node* node, std::vector<Node*>& stack) {
    if (!node || find(node)) return;
    BackwardState& state = states_.emplace_back();
    state.node = IntrusivePtr<Node>(node);
    state.outer = node->state_;
    state.pass = this;
    state.pending.resize(node->output_specs_.size());
    node->state_ = &state;
    stack.push_back(node);
  }

  void leave(BackwardState& state) {
    if (!state.node) return;
    state.node->state_ = state.outer;
    if (auto* leaf = as_leaf(state.node.get())) leaf->slot_lent = false;
    state.node = nullptr;
  }

  // The node's saved tensors go with its last handle, early in the pass.
  void release(BackwardState& state) {
    Node* node = state.node.get();
    node->released_ = true;
    node->edges_.clear();
    if (!state.keep) {
      state.pending.clear();
      leave(state);
    }
  }

  void step(BackwardState& state) {
    Node& node = *state.node;
    const FunctionScope scope = FunctionScope::backward(node.name());
    if (node.hooks_) GradientHooks::run(node, *node.hooks_, state.pending);
    if (auto* leaf = as_leaf(&node)) {
      if (!into_leaves_) return;
      leaf->backward(state.pending);
      state.pending[0] = Tensor();
      if (leaf->parameter)
        reached.push_back({leaf, leaf->output_spec(0).shape, leaf->slot.defined()});
      return;
    }
    // A second handle, so that the node does not overwrite what grad() returns.
    const std::vector<Tensor> kept = state.keep ? state.pending : std::vector<Tensor>();
    const std::vector<Tensor> gradients = node.backward(state.pending);
    if (gradients.size() != node.edges_.size()) {
      throw Error(fmt::format("[{}] backward returned {} gradients for {} inputs", node.name(),
                              gradients.size(), node.edges_.size()));
    }
    for (size_t i = 0; i < gradients.size(); ++i) {
      const Edge& edge = node.edges_[i];
      if (!gradients[i].defined() || !edge.node) continue;
      BackwardState& source = *find(edge.node.get());
      if (!source.wanted) continue;
      check(node, i, gradients[i], edge.node->output_spec(size_t(edge.index)));
      accumulate(source, edge.index, gradients[i]);
    }
  }

  static void check(const Node& node, size_t input, const Tensor& gradient,
                    const TensorSpec& spec) {
    if (gradient.shape() == spec.shape && gradient.dtype() == spec.dtype &&
        gradient.device() == spec.device)
      return;
    throw ShapeError(
        fmt::format("[{}] backward returned a gradient {} for input {}, which is {} {} {}",
                    node.name(), to_string(TensorView(gradient)), input, to_string(spec.shape),
                    adret::name(spec.dtype), to_string(spec.device)));
  }

  // The first gradient is taken as it is; the sum goes into memory that nobody else sees.
  void accumulate(BackwardState& state, int index, const Tensor& gradient) {
    Tensor& pending = state.pending[size_t(index)];
    if (!pending.defined()) {
      pending = gradient;
    } else if (create_graph_) {
      pending = add(pending, gradient);
    } else {
      const auto* leaf = as_leaf(state.node.get());
      const bool own = pending.is_unique() ||
                       (leaf && leaf->slot.defined() && pending.data() == leaf->slot.data());
      Tensor total =
          own ? pending : Tensor::empty(pending.shape(), {pending.dtype(), pending.device()});
      adret::run(
          kernels::Binary{.a = pending, .b = gradient, .y = total, .op = kernels::BinaryOp::add});
      pending = total;
    }
  }

  bool create_graph_, retain_graph_, into_leaves_;
  std::deque<BackwardState> states_;  // their addresses are in the nodes
  std::vector<BackwardState*> order_;
};

bool Node::needs_gradient(size_t input) const {
  const Edge& edge = edges_[input];
  if (!edge.node) return false;
  if (!state_) return true;  // called outside a pass, by a test
  const BackwardState* source = state_->pass->find(edge.node.get());
  return source && source->wanted;
}

Tensor Node::grad_buffer(size_t input) const {
  const Edge& edge = edges_[input];
  const TensorSpec& spec = edge.node->output_specs_[size_t(edge.index)];
  auto* leaf = as_leaf(edge.node.get());
  if (leaf && leaf->slot.defined() && !leaf->grad.defined() && !leaf->slot_lent && state_ &&
      state_->pass->into_leaves_ && !state_->pass->create_graph_) {
    leaf->slot_lent = true;
    return leaf->slot;
  }
  return Tensor::empty(spec.shape, {spec.dtype, spec.device});
}

namespace {

Tensor root_gradient(const char* function, const Tensor& output, const Tensor& given) {
  if (!output.requires_grad()) {
    throw Error(fmt::format(
        "[{}] the tensor {} has no graph: nothing it was computed from requires a gradient, or "
        "it was computed under NoGrad",
        function, to_string(output.shape())));
  }
  if (!given.defined()) {
    if (output.numel() != 1) {
      throw ShapeError(fmt::format(
          "[{}] the tensor {} has {} elements; backward starts at a scalar: reduce it with "
          "sum() or mean(), or pass grad_outputs",
          function, to_string(output.shape()), output.numel()));
    }
    return Tensor::ones(output.shape(), {output.dtype(), output.device()});
  }
  if (given.shape() != output.shape() || given.dtype() != output.dtype() ||
      given.device() != output.device()) {
    throw ShapeError(fmt::format("[{}] grad_outputs holds {} for an output {}", function,
                                 to_string(TensorView(given)), to_string(TensorView(output))));
  }
  return given;
}

std::vector<Tensor> root_gradients(const char* function, const std::vector<Tensor>& outputs,
                                   const GradOptions& options) {
  if (!options.grad_outputs.empty() && options.grad_outputs.size() != outputs.size()) {
    throw ShapeError(fmt::format("[{}] {} grad_outputs for {} outputs", function,
                                 options.grad_outputs.size(), outputs.size()));
  }
  std::vector<Tensor> gradients;
  for (size_t i = 0; i < outputs.size(); ++i) {
    gradients.push_back(root_gradient(
        function, outputs[i], options.grad_outputs.empty() ? Tensor() : options.grad_outputs[i]));
  }
  return gradients;
}

}  // namespace

std::vector<Tensor> grad(const std::vector<Tensor>& outputs, const std::vector<Tensor>& inputs,
                         const GradOptions& options) {
  const std::vector<Tensor> seeds = root_gradients("grad", outputs, options);
  Engine engine(options.create_graph, options.retain_graph || options.create_graph, false);
  engine.enter(outputs);
  for (const Tensor& input : inputs) {
    if (!input.requires_grad()) {
      throw Error(fmt::format(
          "[grad] the input {} requires no gradient; call set_requires_grad(true) before the "
          "forward",
          to_string(input.shape())));
    }
    if (BackwardState* state = engine.find(input.node().get())) state->keep = true;
  }
  engine.mark_wanted();
  for (size_t i = 0; i < outputs.size(); ++i) engine.seed(outputs[i], seeds[i]);
  engine.run();
  std::vector<Tensor> gradients;
  for (const Tensor& input : inputs) {
    const BackwardState* state = engine.find(input.node().get());
    Tensor gradient = state ? state->pending[size_t(input.output_index())] : Tensor();
    gradients.push_back(gradient.defined()
                            ? gradient
                            : Tensor::zeros(input.shape(), {input.dtype(), input.device()}));
  }
  return gradients;
}

std::vector<const Leaf*> leaves_behind(const std::vector<Tensor>& outputs) {
  Engine engine(false, true, false);
  engine.enter(outputs);
  return engine.leaves();
}

void backward(const std::vector<Tensor>& outputs, const GradOptions& options) {
  const std::vector<Tensor> seeds = root_gradients("backward", outputs, options);
  Engine engine(options.create_graph, options.retain_graph || options.create_graph, true);
  engine.enter(outputs);
  engine.mark_wanted();
  reached.clear();
  for (size_t i = 0; i < outputs.size(); ++i) engine.seed(outputs[i], seeds[i]);
  engine.run();
}

void Tensor::backward(bool retain_graph) const {
  adret::backward({*this}, {.retain_graph = retain_graph});
}

}  // namespace adret
