// Copies of what is certified: numbers to work on, calls, gradients.
#include <adret/autograd/engine.h>
#include <adret/autograd/grad_mode.h>
#include <adret/certify/subject_copy.h>
#include <adret/core/error.h>
#include <adret/core/random.h>
#include <fmt/core.h>

#include <cmath>

namespace adret {
namespace {

constexpr uint64_t call_seed = 20240607;

// The golden ratio's multiples modulo 1 (Weyl): spread evenly, and all different.
double spread(int64_t element, int64_t offset) {
  const double value = (double(element) + 1 + 0.37 * double(offset)) * 0.6180339887498949;
  return value - std::floor(value);
}

Tensor floating_values(const Shape& shape, const CertifyInput& how, int64_t offset) {
  std::vector<double> values(size_t(shape.numel()));
  for (size_t i = 0; i < values.size(); ++i) {
    const double value = how.low + (how.high - how.low) * spread(int64_t(i), offset);
    values[i] = value == 0 ? 1e-3 * (how.high - how.low) : value;
  }
  return Tensor::from(values, shape);
}

Tensor whole_values(const Shape& shape, const CertifyInput& how, int64_t offset) {
  std::vector<int64_t> values(size_t(shape.numel()));
  for (size_t i = 0; i < values.size(); ++i) {
    values[i] = int64_t(spread(int64_t(i), offset) * double(how.below));
  }
  return Tensor::from(values, shape).to(how.whole);
}

Shape shape_of(const CertifyTask& task, size_t index, int64_t batch) {
  const Shape& shape = task.shapes[index];
  const bool resized = batch >= 0 && shape.rank() > 0 && input_options(task, index).batch;
  return resized ? shape.with(0, batch) : shape;
}

std::vector<Tensor> make_inputs(const CertifyTask& task, const Setting& setting) {
  const NoGrad no_grad;
  std::vector<Tensor> inputs;
  for (size_t i = 0; i < task.shapes.size(); ++i) {
    const Shape shape = shape_of(task, i, setting.batch);
    const CertifyInput& how = input_options(task, i);
    const int64_t offset = int64_t(i) + 7 * setting.salt;
    const Tensor made = how.below > 0 ? whole_values(shape, how, offset)
                                      : floating_values(shape, how, offset).to(setting.dtype);
    inputs.push_back(made.to(setting.device));
  }
  return inputs;
}

Tensor weights_like(const Tensor& output) {
  std::vector<double> values(size_t(output.numel()));
  for (size_t i = 0; i < values.size(); ++i) values[i] = std::cos(1.7 * double(i) + 0.4);
  return Tensor::from(values, output.shape()).to(output.dtype()).to(output.device());
}

std::unique_ptr<Module> make_module(const CertifyTask& task, const Setting& setting) {
  if (!task.subject.given) return nullptr;
  random::manual_seed(setting.build_seed);
  std::unique_ptr<Module> module = task.subject.build();
  if (!setting.initial) module->copy_state(*task.subject.given);
  module->to(setting.dtype);
  module->to(setting.device);
  return module;
}

}  // namespace

const CertifyInput& input_options(const CertifyTask& task, size_t index) {
  static const CertifyInput usual;
  return index < task.options.inputs.size() ? task.options.inputs[index] : usual;
}

std::string input_name(const CertifyTask& task, size_t index) {
  const std::string& name = input_options(task, index).name;
  return name.empty() ? fmt::format("input {}", index) : name;
}

SubjectCopy::SubjectCopy(const CertifyTask& task, const Setting& setting)
    : task_(task),
      setting_(setting),
      module_(make_module(task, setting)),
      inputs_(make_inputs(task, setting)) {
  keep_state();
}

void SubjectCopy::keep_state() {
  if (module_) kept_.emplace(*module_);
}

std::vector<Tensor> SubjectCopy::other_inputs(int64_t salt) const {
  Setting other = setting_;
  other.salt = salt;
  return make_inputs(task_, other);
}

void SubjectCopy::begin() {
  if (kept_) kept_->restore();
  random::manual_seed(call_seed);
}

std::vector<Tensor> SubjectCopy::call(const std::vector<Tensor>& inputs) {
  begin();
  return call_as_is(inputs);
}

std::vector<Tensor> SubjectCopy::call_as_is(const std::vector<Tensor>& inputs) {
  if (module_) module_->train(setting_.training);
  std::vector<Tensor> outputs = task_.subject.call(module_.get(), inputs);
  if (outputs.empty()) throw Error(fmt::format("[{}] returned no tensor", task_.subject.name));
  return outputs;
}

NamedTensors named_outputs(const std::vector<Tensor>& outputs) {
  NamedTensors named;
  for (size_t i = 0; i < outputs.size(); ++i) {
    named.push_back(
        {outputs.size() == 1 ? "output" : fmt::format("output {}", i), outputs[i].detach()});
  }
  return named;
}

NamedTensors SubjectCopy::outputs() { return outputs(inputs_); }

NamedTensors SubjectCopy::outputs(const std::vector<Tensor>& inputs) {
  const NoGrad no_grad;
  return named_outputs(call(inputs));
}

std::vector<Tensor> as_leaves(const CertifyTask& task, const std::vector<Tensor>& inputs) {
  std::vector<Tensor> leaves;
  for (size_t i = 0; i < inputs.size(); ++i) {
    leaves.push_back(inputs[i].detach().clone());
    if (is_floating(inputs[i].dtype()) && input_options(task, i).differentiable) {
      leaves.back().set_requires_grad(true);
    }
  }
  return leaves;
}

bool weighted_backward(const std::vector<Tensor>& outputs, bool retain_graph) {
  std::vector<Tensor> recorded, weights;
  for (const Tensor& output : outputs) {
    if (!output.requires_grad()) continue;
    recorded.push_back(output);
    weights.push_back(weights_like(output));
  }
  if (recorded.empty()) return false;
  backward(recorded, {.grad_outputs = weights, .retain_graph = retain_graph});
  return true;
}

NamedTensors SubjectCopy::outputs_and_gradients() {
  const std::vector<Tensor> leaves = as_leaves(task_, inputs_);
  if (module_) module_->zero_grad();
  const std::vector<Tensor> outputs = call(leaves);
  NamedTensors results = named_outputs(outputs);
  for (NamedTensor& one : results) one.tensor = one.tensor.clone();
  weighted_backward(outputs);
  for (size_t i = 0; i < leaves.size(); ++i) {
    if (leaves[i].requires_grad()) {
      results.push_back({"gradient of " + input_name(task_, i), leaves[i].grad()});
    }
  }
  if (!module_) return results;
  for (const auto& [name, parameter] : module_->named_parameters()) {
    results.push_back({"gradient of " + name, parameter->value.grad()});
  }
  module_->zero_grad();
  return results;
}

NamedTensors SubjectCopy::state() const {
  const NoGrad no_grad;
  NamedTensors list;
  if (!module_) return list;
  for (const auto& [name, parameter] : module_->named_parameters()) {
    list.push_back({name, parameter->value.detach().clone()});
  }
  for (const auto& [name, tensor] : module_->named_buffers())
    list.push_back({name, tensor.clone()});
  return list;
}

}  // namespace adret
