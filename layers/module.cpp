// Registration, names and state of modules and parameters.
#include <adret/autograd/hooks.h>
#include <adret/autograd/node.h>
#include <adret/autograd/step_trace.h>
#include <adret/core/demangle.h>
#include <adret/core/tensor_view.h>
#include <adret/layers/module.h>
#include <fmt/core.h>

#include <algorithm>
#include <set>
#include <utility>

namespace adret {
namespace {

// The type's name without namespaces.
std::string readable(const std::type_info& type) {
  const std::string full = demangled(type);
  const size_t colons = full.rfind("::", full.find('<'));
  return colons == std::string::npos ? full : full.substr(colons + 2);
}

void mark_parameter(const Tensor& value) {
  if (Leaf* leaf = leaf_of(value)) leaf->parameter = true;
}

Tensor copy_of(const Tensor& tensor) { return tensor.defined() ? tensor.detach().clone() : tensor; }

}  // namespace

Parameter::Parameter(std::string name, const Tensor& tensor, FileLayout layout)
    : name(std::move(name)), layout(layout) {
  if (!tensor.defined()) return;
  value = tensor.detach();
  set_requires_grad(true);
}

void Parameter::set_requires_grad(bool requires_grad) {
  if (!value.defined()) return;
  value.set_requires_grad(requires_grad);
  mark_parameter(value);
}

void Parameter::replace(const Tensor& tensor) {
  if (in_arena) {
    throw Error(
        fmt::format("[replace] an optimizer holds the parameter \"{}\" {} in its arena; convert "
                    "the model before the optimizer is made, or write into it with copy_",
                    name, to_string(value.shape())));
  }
  const Tensor old = std::exchange(value, tensor.defined() ? tensor.detach() : tensor);
  const bool learns = old.defined() && old.requires_grad();
  set_requires_grad(learns);
  if (learns && value.defined()) move_gradient_hooks(old, value);
  master_ = mastered_ = Tensor();
}

Tensor Parameter::master() const {
  const bool current = master_.defined() && value.defined() && value.is_same(mastered_) &&
                       value.version() == mastered_version_;
  return current ? master_ : Tensor();
}

void Parameter::set_master(const Tensor& master) {
  const bool fits =
      !master.defined() ||
      (value.defined() && size_of(value.dtype()) == 2 && master.dtype() == DType::f32 &&
       master.shape() == value.shape() && master.device() == value.device());
  if (!fits) {
    const auto text = [](const Tensor& t) { return to_string(TensorView(t)); };
    throw ShapeError(fmt::format(
        "[set_master] the master of \"{}\" is {}, the value is {}; a 16-bit value has one in f32, "
        "of its shape and on its device",
        name, text(master), value.defined() ? text(value) : "absent"));
  }
  master_ = master;
  mastered_ = value;
  mastered_version_ = value.version();
}

Tensor Parameter::exact() const {
  const Tensor known = master();
  return known.defined() ? known : value.detach();
}

Module::Module(const std::type_info& type) : name_(readable(type)) {}
Module::~Module() = default;

std::string Module::type_name() const { return readable(typeid(*this)); }

// -- registration ---------------------------------------------------------------------------------

void Module::check_name(const std::string& name) const {
  if (name.empty() || name.find_first_of("./") != std::string::npos) {
    throw Error(fmt::format("[{}] the name \"{}\" is empty or holds '.' or '/', which join names",
                            type_name(), name));
  }
  const bool taken =
      std::ranges::any_of(children_, [&](const auto& child) { return child->name_ == name; }) ||
      std::ranges::any_of(parameters_, [&](const auto& entry) { return entry.name == name; }) ||
      std::ranges::any_of(buffers_, [&](const auto& buffer) { return buffer->name == name; });
  if (taken) {
    throw Error(fmt::format(
        "[{}] the name \"{}\" is registered twice; children, parameters and buffers of a layer "
        "need names of their own",
        type_name(), name));
  }
}

void Module::adopt(const std::string& name, std::unique_ptr<Module> child) {
  check_name(name);
  child->name_ = name;
  children_.push_back(std::move(child));
}

Parameter& Module::parameter(const std::string& name, const Tensor& value, FileLayout layout) {
  check_name(name);
  if (value.defined() && !is_floating(value.dtype())) {
    throw Error(fmt::format(
        "[{}] the parameter \"{}\" {} is {} and has no gradient; register it with buffer()",
        type_name(), name, to_string(value.shape()), adret::name(value.dtype())));
  }
  auto owned = std::make_shared<Parameter>(name, value, layout);
  parameters_.push_back({name, owned});
  return *owned;
}

Parameter& Module::parameter(const std::string& name, Parameter& shared) {
  check_name(name);
  parameters_.push_back({name, shared.shared_from_this()});
  return shared;
}

Tensor& Module::buffer(const std::string& name, const Tensor& value) {
  check_name(name);
  buffers_.push_back(std::make_unique<NamedTensor>(NamedTensor{name, value}));
  return buffers_.back()->tensor;
}

// -- the tree -------------------------------------------------------------------------------------

template <class Self, class Visit>
void Module::walk(Self& module, const std::string& prefix, const Visit& visit) {
  visit(module, prefix);
  for (const auto& child : module.children_) {
    walk(static_cast<Self&>(*child), prefix + child->name_ + ".", visit);
  }
}

std::vector<NamedModule> Module::named_modules() {
  std::vector<NamedModule> modules;
  walk(*this, "", [&](Module& module, const std::string& prefix) {
    modules.push_back({prefix.substr(0, prefix.size() - !prefix.empty()), &module});
  });
  return modules;
}

std::vector<NamedParameter> Module::all_named_parameters() const {
  std::vector<NamedParameter> list;
  walk(*this, "", [&](const Module& module, const std::string& prefix) {
    for (const auto& [name, parameter] : module.parameters_) {
      if (parameter->value.defined()) list.push_back({prefix + name, parameter});
    }
  });
  return list;
}

std::vector<NamedParameter> Module::named_parameters() const {
  std::vector<NamedParameter> list;
  std::set<const Parameter*> seen;
  for (NamedParameter& entry : all_named_parameters()) {
    if (seen.insert(entry.parameter.get()).second) list.push_back(std::move(entry));
  }
  return list;
}

std::vector<std::shared_ptr<Parameter>> Module::parameters() const {
  std::vector<std::shared_ptr<Parameter>> list;
  for (NamedParameter& entry : named_parameters()) list.push_back(std::move(entry.parameter));
  return list;
}

std::vector<NamedTensor> Module::named_buffers() const {
  std::vector<NamedTensor> list;
  walk(*this, "", [&](const Module& module, const std::string& prefix) {
    for (const auto& buffer : module.buffers_) {
      if (buffer->tensor.defined()) list.push_back({prefix + buffer->name, buffer->tensor});
    }
  });
  return list;
}

Device Module::device() const {
  const auto all = parameters();
  return all.empty() ? Device::cpu() : all.front()->value.device();
}

// -- state ----------------------------------------------------------------------------------------

void Module::train(bool training) {
  walk(*this, "", [&](Module& module, const std::string&) {
    if (module.training_ != training) structure_changed();
    module.training_ = training;
  });
}

void Module::zero_grad() {
  for (const auto& parameter : parameters()) parameter->value.zero_grad();
}

void Module::set_requires_grad(bool requires_grad) {
  for (const auto& parameter : parameters()) parameter->set_requires_grad(requires_grad);
}

// Calls convert(module, parameter) for every parameter, and replaces every buffer by
// convert(module, tensor).
template <class Convert>
void Module::convert_state(const Convert& convert) {
  const NoGrad no_grad;
  for (const NamedParameter& entry : named_parameters()) {
    if (entry.parameter->in_arena) {
      throw Error(fmt::format(
          "[to] an optimizer holds the parameter \"{}\" in its arena; convert the model first and "
          "make the optimizer after",
          entry.name));
    }
  }
  structure_changed();
  std::set<const Parameter*> seen;
  walk(*this, "", [&](Module& module, const std::string&) {
    for (const auto& entry : module.parameters_) {
      Parameter& parameter = *entry.parameter;
      if (parameter.value.defined() && seen.insert(&parameter).second) convert(module, parameter);
    }
    for (const auto& buffer : module.buffers_) {
      if (buffer->tensor.defined()) buffer->tensor = convert(module, buffer->tensor);
    }
  });
}

void Module::to(DType dtype) {
  if (!is_floating(dtype)) {
    throw Error(
        fmt::format("[to] a model computes in a floating dtype, not {}; use DType::f32, "
                    "bf16, f16 or f64",
                    adret::name(dtype)));
  }
  struct ToDType {
    DType dtype;
    DType of(const Module& module) const {
      return module.is_normalization() && size_of(dtype) == 2 ? DType::f32 : dtype;
    }
    Tensor operator()(const Module& module, const Tensor& tensor) const {
      return is_floating(tensor.dtype()) ? tensor.to(of(module)) : tensor;
    }
    void operator()(const Module& module, Parameter& parameter) const {
      const Tensor exact = parameter.exact();
      parameter.replace(exact.to(of(module)));
      if (size_of(of(module)) == 2) parameter.set_master(exact.to(DType::f32));
    }
  };
  convert_state(ToDType{dtype});
}

void Module::to(Device device) {
  struct ToDevice {
    Device device;
    Tensor operator()(const Module&, const Tensor& tensor) const { return tensor.to(device); }
    void operator()(const Module&, Parameter& parameter) const {
      const Tensor master = parameter.master();
      parameter.replace(parameter.value.to(device));
      if (master.defined()) parameter.set_master(master.to(device));
    }
  };
  convert_state(ToDevice{device});
}

namespace {

void check_alike(const std::string& layer, const std::string& name, const Tensor& rebuilt,
                 const Tensor& original) {
  if (rebuilt.defined() == original.defined() &&
      (!original.defined() || rebuilt.shape() == original.shape()))
    return;
  const auto shape = [](const Tensor& t) { return t.defined() ? to_string(t.shape()) : "none"; };
  throw Error(
      fmt::format("[clone] {}: rebuild() made \"{}\" {}, the original has {}; construct it with "
                  "the same arguments",
                  layer, name, shape(rebuilt), shape(original)));
}

}  // namespace

void Module::copy_state(const Module& from) {
  if (children_.size() != from.children_.size() || parameters_.size() != from.parameters_.size() ||
      buffers_.size() != from.buffers_.size()) {
    throw Error(
        fmt::format("[clone] {}: rebuild() made {} children, {} parameters and {} buffers, the "
                    "original has {}, {} and {}; construct it with the same arguments",
                    from.type_name(), children_.size(), parameters_.size(), buffers_.size(),
                    from.children_.size(), from.parameters_.size(), from.buffers_.size()));
  }
  const NoGrad no_grad;
  for (size_t i = 0; i < parameters_.size(); ++i) {
    Parameter& to = *parameters_[i].parameter;
    const Parameter& source = *from.parameters_[i].parameter;
    check_alike(from.type_name(), parameters_[i].name, to.value, source.value);
    to.replace(copy_of(source.value));
    to.set_requires_grad(source.requires_grad());
    if (source.master().defined()) to.set_master(copy_of(source.master()));
  }
  for (size_t i = 0; i < buffers_.size(); ++i) {
    check_alike(from.type_name(), buffers_[i]->name, buffers_[i]->tensor, from.buffers_[i]->tensor);
    buffers_[i]->tensor = copy_of(from.buffers_[i]->tensor);
  }
  training_ = from.training_;
  for (size_t i = 0; i < children_.size(); ++i) children_[i]->copy_state(*from.children_[i]);
}

// -- calls ----------------------------------------------------------------------------------------

namespace {

template <class Hook>
int added(HookList<Hook>& hooks, Hook hook) {
  if (!hook) throw Error("[module] the hook is empty");
  structure_changed();
  return hooks.add(std::move(hook));
}

template <class Hook>
void take_out(HookList<Hook>& hooks, int id) {
  structure_changed();
  hooks.remove(id);
}

}  // namespace

int Module::add_forward_pre_hook(ForwardPreHook hook) {
  return added(hooks_->before, std::move(hook));
}
int Module::add_forward_hook(ForwardHook hook) { return added(hooks_->after, std::move(hook)); }
int Module::add_backward_hook(BackwardHook hook) {
  return added(hooks_->backward, std::move(hook));
}
void Module::remove_forward_pre_hook(int id) { take_out(hooks_->before, id); }
void Module::remove_forward_hook(int id) { take_out(hooks_->after, id); }
void Module::remove_backward_hook(int id) { take_out(hooks_->backward, id); }

void Module::throw_not_one_tensor() const {
  throw Error(fmt::format("[{}] forward does not take one tensor and return one, as this use needs",
                          type_name()));
}

void Module::throw_no_rebuild() const {
  throw Error(
      fmt::format("[clone] {} cannot be cloned: it needs `{} rebuild() const` that constructs it "
                  "with the same arguments",
                  type_name(), type_name()));
}

}  // namespace adret
