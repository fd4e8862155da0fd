// Calls of modules with hooks, and what these leave in the graph.
#include <adret/autograd/hooks.h>
#include <adret/autograd/node.h>
#include <adret/autograd/step_trace.h>
#include <adret/core/error.h>
#include <adret/layers/module.h>
#include <fmt/core.h>

#include <cstdint>
#include <string>

namespace adret {
namespace {

void note_obstacle(const char* kind, const Module& module) {
  if (StepTrace* trace = StepTrace::current()) {
    trace->add_obstacle(fmt::format("a {} of {} is to run in every step", kind, module.name()));
  }
}

// Empty or as many as `wanted`.
void check_count(const char* kind, const Module& module, const std::vector<Tensor>& returned,
                 size_t wanted) {
  if (returned.empty() || returned.size() == wanted) return;
  throw Error(fmt::format("[{}] a {} returned {} tensors in place of {}", module.type_name(), kind,
                          returned.size(), wanted));
}

}  // namespace

// Note [Backward hooks]
// The arguments that need a gradient go through a node before forward, and the output through one
// behind it, both of which hand on what they get. So the one before is reached by the gradients
// that came through this module alone, when all behind it is done; the one behind leaves the
// output's gradient for it. Where no argument needs a gradient, the hooks run in the one behind.
struct HookedBackward {
  Module& module;
  std::string type_name;
  std::weak_ptr<const ModuleHooks> hooks;  // gone with the module
  std::vector<size_t> places;              // of the arguments that need a gradient
  size_t arguments = 0;
  Tensor output_gradient = {};

  // Gets and gives those of the arguments that need one.
  std::vector<Tensor> run(const std::vector<Tensor>& gradients) {
    const auto alive = hooks.lock();
    if (!alive) {
      throw Error(
          fmt::format("[{}] it has a backward hook, and is gone before the backward; keep the "
                      "module until then",
                      type_name));
    }
    std::vector<Tensor> all(arguments);
    for (size_t i = 0; i < places.size(); ++i) all[places[i]] = gradients[i];
    alive->backward.for_each([&](const BackwardHook& hook) {
      note_obstacle("backward hook", module);
      const std::vector<Tensor> returned = hook(module, all, output_gradient);
      check_count("backward hook", module, returned, all.size());
      for (size_t i = 0; i < returned.size(); ++i) {
        if (!returned[i].defined()) continue;
        if (all[i].defined())
          check_replacement("a backward hook of " + module.name(), returned[i], all[i]);
        all[i] = returned[i];
      }
    });
    output_gradient = Tensor();
    std::vector<Tensor> wanted;
    for (const size_t place : places) wanted.push_back(all[place]);
    return wanted;
  }
};

namespace {

struct BeforeHookedCall final : Node {
  explicit BeforeHookedCall(std::shared_ptr<HookedBackward> call) : call(std::move(call)) {}
  const char* name() const override { return "module"; }
  std::vector<Tensor> backward(const std::vector<Tensor>& gradients) override {
    return call->run(gradients);
  }
  std::shared_ptr<HookedBackward> call;
};

struct BehindHookedCall final : Node {
  explicit BehindHookedCall(std::shared_ptr<HookedBackward> call) : call(std::move(call)) {}
  const char* name() const override { return "module"; }
  std::vector<Tensor> backward(const std::vector<Tensor>& gradients) override {
    call->output_gradient = gradients[0];
    if (call->places.empty()) call->run({});
    return gradients;
  }
  std::shared_ptr<HookedBackward> call;
};

}  // namespace

void HookedCall::begin() {
  hooks_->before.for_each([&](const ForwardPreHook& hook) {
    note_obstacle("forward pre-hook", module_);
    const std::vector<Tensor> returned = hook(module_, inputs_);
    check_count("forward pre-hook", module_, returned, inputs_.size());
    if (!returned.empty()) inputs_ = returned;
  });
  if (hooks_->backward.empty() || !grad_enabled()) return;
  backward_ = std::make_shared<HookedBackward>(HookedBackward{.module = module_,
                                                              .type_name = module_.type_name(),
                                                              .hooks = hooks_,
                                                              .arguments = inputs_.size()});
  std::vector<Tensor> from, to;
  for (size_t i = 0; i < inputs_.size(); ++i) {
    if (!inputs_[i].defined() || !inputs_[i].requires_grad()) continue;
    backward_->places.push_back(i);
    from.push_back(inputs_[i]);
    inputs_[i] = inputs_[i].detach();
    to.push_back(inputs_[i]);
  }
  if (!from.empty()) record<BeforeHookedCall>(std::span(to), std::span(from), backward_);
}

Tensor HookedCall::end(const Tensor& output) {
  Tensor result = output;
  if (backward_ && output.requires_grad()) {
    result = output.detach();
    record<BehindHookedCall>({result}, {output}, backward_);
  }
  hooks_->after.for_each([&](const ForwardHook& hook) {
    note_obstacle("forward hook", module_);
    hook(module_, result);
  });
  return result;
}

void HookedCall::refuse_other_result() const {
  if (hooks_->backward.empty()) return;
  throw Error(fmt::format("[{}] a backward hook needs a forward that returns one tensor",
                          module_.type_name()));
}

}  // namespace adret
