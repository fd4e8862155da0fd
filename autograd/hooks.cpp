// Adding, removing and running hooks on gradients.
#include <adret/autograd/hooks.h>
#include <adret/autograd/step_trace.h>
#include <adret/core/error.h>
#include <adret/core/tensor_view.h>
#include <fmt/core.h>

#include <memory>
#include <utility>

namespace adret {
namespace {

Node* node_of(const Tensor& x) { return static_cast<Node*>(x.node().get()); }

}  // namespace

int add_gradient_hook(const Tensor& x, GradientHook hook) {
  if (!hook) throw Error("[add_gradient_hook] the hook is empty");
  Node* const node = node_of(x);
  if (!node) {
    throw Error(
        fmt::format("[add_gradient_hook] the tensor {} requires no gradient, so the hook would "
                    "never run; call set_requires_grad(true) before the forward",
                    to_string(x.shape())));
  }
  if (!node->hooks_) node->hooks_ = std::make_shared<GradientHooks>();
  const int id = node->hooks_->next_id++;
  node->hooks_->entries.push_back({id, x.output_index(), std::move(hook)});
  structure_changed();
  return id;
}

void remove_gradient_hook(const Tensor& x, int id) {
  Node* const node = node_of(x);
  if (!node || !node->hooks_) return;
  const int output = x.output_index();
  std::erase_if(node->hooks_->entries, [=](const GradientHooks::Entry& entry) {
    return entry.id == id && entry.output == output;
  });
  structure_changed();
}

void move_gradient_hooks(const Tensor& from, const Tensor& to) {
  Node *const old = node_of(from), *const leaf = node_of(to);
  if (!old || !leaf || !old->hooks_) return;
  leaf->hooks_ = std::move(old->hooks_);
  structure_changed();
}

void GradientHooks::run(const Node& node, const GradientHooks& hooks,
                        std::vector<Tensor>& gradients) {
  const std::vector<Entry> entries = hooks.entries;  // one may add or remove hooks
  for (const auto& [id, output, hook] : entries) {
    Tensor& gradient = gradients[size_t(output)];
    if (!gradient.defined()) continue;
    if (StepTrace* trace = StepTrace::current()) {
      trace->add_obstacle(
          fmt::format("a gradient hook of {} is to run in every step", node.name()));
    }
    const Tensor replacement = hook(gradient);
    if (!replacement.defined()) continue;
    check_replacement(fmt::format("a gradient hook of {}", node.name()), replacement, gradient);
    gradient = replacement;
  }
}

void check_replacement(const std::string& hook, const Tensor& replacement, const Tensor& gradient) {
  if (replacement.shape() == gradient.shape() && replacement.dtype() == gradient.dtype() &&
      replacement.device() == gradient.device())
    return;
  throw ShapeError(fmt::format("[hook] {} returned {} in place of a gradient {}", hook,
                               to_string(TensorView(replacement)),
                               to_string(TensorView(gradient))));
}

}  // namespace adret
