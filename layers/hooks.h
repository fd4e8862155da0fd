// Hooks of modules: what is called before and behind a forward, and in its backward.
#pragma once

#include <adret/core/tensor.h>

#include <algorithm>
#include <concepts>
#include <functional>
#include <memory>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

namespace adret {

class Module;

// Sees the output of a forward.
using ForwardHook = std::function<void(Module& module, const Tensor& output)>;
// Sees the arguments of forward that are Tensors, in their order. An empty result leaves them;
// another, of as many, takes their place.
using ForwardPreHook =
    std::function<std::vector<Tensor>(Module& module, const std::vector<Tensor>& inputs)>;
// Sees the gradients of these arguments, through this module alone, undefined for those that need
// none, and of the output. An empty result leaves the gradients of the inputs; another, of as many,
// takes their place.
using BackwardHook = std::function<std::vector<Tensor>(
    Module& module, const std::vector<Tensor>& input_gradients, const Tensor& output_gradient)>;

// Hooks of one kind, in the order they were added.
template <class Hook>
class HookList {
 public:
  int add(Hook hook) {
    entries_.emplace_back(next_id_, std::move(hook));
    return next_id_++;
  }
  void remove(int id) {
    std::erase_if(entries_, [id](const auto& entry) { return entry.first == id; });
  }
  bool empty() const { return entries_.empty(); }
  // visit(hook) for those that are there now: one may add or remove hooks.
  template <class Visit>
  void for_each(const Visit& visit) const {
    const auto entries = entries_;
    for (const auto& [id, hook] : entries) visit(hook);
  }

 private:
  std::vector<std::pair<int, Hook>> entries_;
  int next_id_ = 0;
};

struct ModuleHooks {
  HookList<ForwardPreHook> before;
  HookList<ForwardHook> after;
  HookList<BackwardHook> backward;

  bool empty() const { return before.empty() && after.empty() && backward.empty(); }
};

struct HookedBackward;  // Note [Backward hooks] in hooks.cpp

// One call of a module that has hooks.
class HookedCall {
 public:
  HookedCall(Module& module, std::shared_ptr<const ModuleHooks> hooks)
      : module_(module), hooks_(std::move(hooks)) {}

  // f(arguments...), the Tensors among these as the hooks want them.
  template <class Result, class F, class... Args>
  Result run(const F& f, Args&&... args) {
    (collect(args), ...);
    begin();
    std::tuple<Given<Args>...> given{give(std::forward<Args>(args))...};  // in their order
    const auto call = [&](auto&... each) -> Result {
      if constexpr (std::same_as<Result, Tensor>) {
        Tensor output = f(std::forward<Args>(each)...);
        (take_back(args, each), ...);
        return end(output);
      } else if constexpr (std::is_void_v<Result>) {
        f(std::forward<Args>(each)...);
        (take_back(args, each), ...);
      } else {
        Result result = f(std::forward<Args>(each)...);
        (take_back(args, each), ...);
        return result;
      }
    };
    if constexpr (!std::same_as<Result, Tensor>) refuse_other_result();
    return std::apply(call, given);
  }

 private:
  template <class T>
  static constexpr bool is_tensor = std::same_as<std::remove_cvref_t<T>, Tensor>;
  template <class T>
  using Given = std::conditional_t<is_tensor<T>, Tensor, T&&>;

  template <class T>
  void collect(const T& argument) {
    if constexpr (is_tensor<T>) inputs_.push_back(argument);
  }
  template <class T>
  Given<T> give(T&& argument) {
    if constexpr (is_tensor<T>)
      return inputs_[next_++];
    else
      return std::forward<T>(argument);
  }

  // What forward assigned to a Tensor that it took to write to.
  template <class T, class G>
  void take_back(T& argument, const G& given) {
    if constexpr (is_tensor<T> && !std::is_const_v<T>) {
      if (!given.is_same(inputs_[returned_])) argument = given;
    }
    returned_ += is_tensor<T>;
  }

  void begin();
  Tensor end(const Tensor& output);
  void refuse_other_result() const;

  Module& module_;
  std::shared_ptr<const ModuleHooks> hooks_;
  std::shared_ptr<HookedBackward> backward_;  // null: nothing to do in it
  std::vector<Tensor> inputs_;
  size_t next_ = 0, returned_ = 0;
};

}  // namespace adret
