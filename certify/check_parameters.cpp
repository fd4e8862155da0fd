// Whether all that a layer learns or keeps is registered, and a gradient reaches what learns.
#include <adret/autograd/engine.h>
#include <adret/certify/check.h>
#include <adret/core/backend.h>
#include <adret/core/kernels/kernel.h>
#include <adret/core/storage.h>
#include <fmt/core.h>

#include <algorithm>

namespace adret::certify_checks {
namespace {

// Of a leaf that is no input and no parameter.
std::string stray(const CertifyTask& task, const Leaf& leaf) {
  const std::string shape = to_string(leaf.output_spec(0).shape);
  if (!task.subject.given) {
    return fmt::format(
        "a tensor {} that requires a gradient is used and is no input; pass it as one", shape);
  }
  if (leaf.parameter) {
    return fmt::format(
        "a parameter {} is used that is not among the layer's: it belongs to one that is held "
        "without add(\"name\", ...), or that rebuild() shares",
        shape);
  }
  return fmt::format(
      "a tensor {} that requires a gradient is used and not registered, so that it would never "
      "learn; declare it as a Parameter&, with parameter(\"name\", ...)",
      shape);
}

// Finds a floating tensor that kernels read, is older than the call, and is no input, parameter or
// buffer: a parameter that was never registered, and so requires no gradient either.
class ForeignReads final : public Decorator {
 public:
  ForeignReads(SubjectCopy& copy, const std::vector<Tensor>& call_inputs)
      : first_new_(next_storage_id()) {
    for (const Tensor& input : call_inputs) know(input);
    if (!copy.module()) return;
    for (const auto& [name, parameter] : copy.module()->named_parameters()) know(parameter->value);
    for (const auto& [name, tensor] : copy.module()->named_buffers()) know(tensor);
  }

  void run(const Kernel& call) override {
    for (const kernels::Operand& input : inputs(call)) {
      if (first.empty() && is_foreign(input.view)) {
        first = fmt::format(
            "{} reads a tensor {} that is no input, parameter or buffer; declare it with "
            "parameter(\"name\", ...) if it is to learn, else with buffer(\"name\", ...)",
            kernel_name(call), to_string(input.view));
      }
    }
    forward(call);
  }

  std::string first;  // what was found; empty: nothing

 private:
  void know(const Tensor& tensor) {
    if (tensor.defined()) known_.push_back(TensorView(tensor).storage);
  }
  bool is_foreign(const TensorView& view) const {
    return view.defined() && is_floating(view.dtype) && view.storage->id() < first_new_ &&
           std::ranges::find(known_, view.storage) == known_.end();
  }

  const uint64_t first_new_;
  std::vector<const Storage*> known_;
};

}  // namespace

Finding parameters(const CertifyTask& task) {
  SubjectCopy copy(task, {});
  const std::vector<Tensor> leaves = as_leaves(task, copy.inputs());
  copy.begin();
  ForeignReads reads(copy, leaves);
  const std::vector<Tensor> outputs = copy.call_as_is(leaves);
  std::vector<const Leaf*> known;
  for (const Tensor& leaf : leaves) known.push_back(leaf_of(leaf));
  std::vector<NamedParameter> list;
  if (copy.module()) list = copy.module()->named_parameters();
  for (const auto& [name, parameter] : list) known.push_back(leaf_of(parameter->value));
  for (const Leaf* leaf : leaves_behind(outputs)) {
    if (std::ranges::find(known, leaf) == known.end()) {
      return {Verdict::failed, stray(task, *leaf)};
    }
  }
  if (copy.module() && !reads.first.empty()) return {Verdict::failed, reads.first};
  weighted_backward(outputs);
  std::string missed;
  for (const auto& [name, parameter] : list) {
    if (!parameter->requires_grad() || parameter->value.grad().defined()) continue;
    missed += fmt::format("{}{} {}", missed.empty() ? "" : ", ", name,
                          to_string(parameter->value.shape()));
  }
  if (!missed.empty()) {
    return {Verdict::failed,
            fmt::format("no gradient reaches {}; use it in forward, in a way that is recorded, or "
                        "register what does not learn with buffer()",
                        missed)};
  }
  return {.reason = fmt::format("{} of them", list.size())};
}

}  // namespace adret::certify_checks
