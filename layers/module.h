// The base of everything that has parameters: registration by declaration, names, the mode, moves.
#pragma once

#include <adret/core/backend.h>
#include <adret/core/error.h>
#include <adret/layers/hooks.h>
#include <adret/layers/parameter.h>

#include <concepts>
#include <memory>
#include <string>
#include <typeinfo>
#include <utility>
#include <vector>

namespace adret {

class Module;

struct NamedModule {
  std::string name;  // dotted, from the root, whose own is empty
  Module* module;
};

// Note [Registration]
// A module owns its children, parameters and buffers on the heap, and the members of a layer are
// references to them:
//   struct Net : Layer<Net> {
//     Linear& fc = add("fc", Linear(784, 10));
//     Parameter& scale = parameter("scale", Tensor::ones({10}));
//     Tensor forward(const Tensor& x) { return fc(flatten(x)) * scale; }
//   };
// So declaring is registering, and a move leaves every reference valid. Names are PyTorch's.
class Module {
 public:
  virtual ~Module();
  Module(Module&&) noexcept = default;
  Module& operator=(Module&&) = delete;

  // Its name in its parent; the type's name for a root.
  const std::string& name() const { return name_; }
  std::string type_name() const;  // without namespaces: "Conv2d"

  const std::vector<std::unique_ptr<Module>>& children() const { return children_; }
  // This module and all below it, a parent before its children, in the order of declaration.
  std::vector<NamedModule> named_modules();
  // Those of the whole tree, in the order of declaration, a module's own before its children's.
  // Absent ones are left out; one registered twice comes once, under its first name.
  std::vector<std::shared_ptr<Parameter>> parameters() const;
  std::vector<NamedParameter> named_parameters() const;
  // The same with every name of one registered twice.
  std::vector<NamedParameter> all_named_parameters() const;
  std::vector<NamedTensor> named_buffers() const;
  // Where the first parameter lies; the CPU when there is none.
  Device device() const;

  // The mode of the whole tree; a new module is in training.
  void train(bool training = true);
  void eval() { train(false); }
  bool training() const { return training_; }

  // Converts the floating parameters and buffers; normalisation stays in f32 for a 16-bit dtype,
  // and what the other parameters were is kept as their f32 masters. Gradients are dropped. Throws
  // Error when an optimizer owns the parameters.
  void to(DType dtype);
  void to(Device device);
  void zero_grad();
  // Freezes all parameters of the tree, or lets them learn again.
  void set_requires_grad(bool requires_grad);
  // Takes copies of the parameters, buffers and modes of a module of the same structure. Throws
  // Error for another structure, and when an optimizer owns the parameters.
  void copy_state(const Module& from);

  // Runs forward with one tensor. Throws Error for a layer whose forward is not of that form.
  virtual Tensor call(const Tensor& x) = 0;

  // Hooks of this module (layers/hooks.h), called in the order they were added: before each call of
  // forward; behind each that returns one tensor; and in the backward of each such call that was
  // recorded, those that the module has then. The module must not be moved between a call and its
  // backward. A clone has no hooks. While there are any, a Step is not replayed. Return a number to
  // remove the hook by. The call throws Error for hooks that return another number of tensors, and
  // for a backward hook where forward returns anything but one tensor; the backward ShapeError for
  // a replacement that is not like the gradient.
  int add_forward_pre_hook(ForwardPreHook hook);
  void remove_forward_pre_hook(int id);
  int add_forward_hook(ForwardHook hook);
  void remove_forward_hook(int id);
  int add_backward_hook(BackwardHook hook);
  void remove_backward_hook(int id);

 protected:
  explicit Module(const std::type_info& type);

  // Registers a layer, a parameter (undefined: absent), a parameter of another module (tied
  // weights), a tensor that is state but does not learn. Names hold neither '.' nor '/'; throws
  // Error for one that is empty or taken.
  template <std::derived_from<Module> L>
  L& add(const std::string& name, L layer) {
    auto owned = std::make_unique<L>(std::move(layer));
    L& reference = *owned;
    adopt(name, std::move(owned));
    return reference;
  }
  Parameter& parameter(const std::string& name, const Tensor& value,
                       FileLayout layout = FileLayout::same);
  Parameter& parameter(const std::string& name, Parameter& shared);
  Tensor& buffer(const std::string& name, const Tensor& value);
  void adopt(const std::string& name, std::unique_ptr<Module> child);

  // See Note [Clones].
  virtual std::unique_ptr<Module> rebuild_module() const = 0;
  static std::unique_ptr<Module> rebuild(const Module& module) { return module.rebuild_module(); }

  const std::shared_ptr<ModuleHooks>& hooks() const { return hooks_; }
  [[noreturn]] void throw_not_one_tensor() const;
  [[noreturn]] void throw_no_rebuild() const;

 private:
  struct RegisteredParameter {
    std::string name;
    std::shared_ptr<Parameter> parameter;
  };
  virtual bool is_normalization() const { return false; }
  void check_name(const std::string& name) const;
  // Calls visit(module, path with a dot behind it) for this module and all below.
  template <class Self, class Visit>
  static void walk(Self& module, const std::string& prefix, const Visit& visit);
  template <class Convert>
  void convert_state(const Convert& convert);

  std::string name_;
  std::vector<std::unique_ptr<Module>> children_;
  std::vector<RegisteredParameter> parameters_;
  std::vector<std::unique_ptr<NamedTensor>> buffers_;
  std::shared_ptr<ModuleHooks> hooks_ = std::make_shared<ModuleHooks>();
  bool training_ = true;
};

// A forward of one tensor to one tensor.
template <class L>
concept OneTensorLayer = requires(L& layer, const Tensor& x) {
  { layer.forward(x) } -> std::convertible_to<Tensor>;
};

// Note [Clones]
// No constructor argument is kept, so only the layer itself can say how it was made:
//   Net rebuild() const { return Net(width_); }
// clone() builds anew with it and copies parameters, buffers and modes, so the copy shares nothing.
// Without rebuild(), clone() does not compile.

// The base of a layer Self with a `forward` of any arguments and result.
template <class Self>
class Layer : public Module {
 public:
  // Calls forward under the layer's name. An Error from inside says which layer it came from.
  template <class... Args>
  decltype(auto) operator()(Args&&... args) {
    using Returned = decltype(self().forward(std::forward<Args>(args)...));
    constexpr bool is_tensor = std::same_as<std::remove_cvref_t<Returned>, Tensor>;
    using Result = std::conditional_t<is_tensor, Tensor, Returned>;
    const auto forward = [this](auto&&... each) -> Result {
      return self().forward(std::forward<decltype(each)>(each)...);
    };
    const NameScope scope(name().c_str());
    try {
      if (hooks()->empty()) return forward(std::forward<Args>(args)...);
      return HookedCall(*this, hooks()).template run<Result>(forward, std::forward<Args>(args)...);
    } catch (Error& error) {
      error.set_origin(NameScope::path());
      throw;
    }
  }

  Tensor call(const Tensor& x) override {
    if constexpr (OneTensorLayer<Self>)
      return (*this)(x);
    else
      throw_not_one_tensor();
  }

  // A layer of its own with equal state; see Note [Clones].
  Self clone() const {
    static_assert(has_rebuild<Self>,
                  "to be cloned, a layer needs `Self rebuild() const` that constructs it with the "
                  "same arguments");
    Self copy = static_cast<const Self&>(*this).rebuild();
    copy.copy_state(*this);
    return copy;
  }

 protected:
  Layer() : Module(typeid(Self)) {}

  std::unique_ptr<Module> rebuild_module() const override {
    if constexpr (has_rebuild<Self>)
      return std::make_unique<Self>(static_cast<const Self&>(*this).rebuild());
    else
      throw_no_rebuild();
  }

 private:
  template <class L>
  static constexpr bool has_rebuild = requires(const L& layer) {
    { layer.rebuild() } -> std::same_as<L>;
  };
  Self& self() { return static_cast<Self&>(*this); }
};

}  // namespace adret
