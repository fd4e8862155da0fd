// What is certified, behind one interface: a layer, what makes one, or a function of tensors.
#pragma once

#include <adret/core/tensor.h>
#include <adret/layers/module.h>
#include <adret/layers/recurrent.h>

#include <array>
#include <concepts>
#include <functional>
#include <memory>
#include <ranges>
#include <string>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

namespace adret {

struct Subject {
  using Call = std::function<std::vector<Tensor>(Module*, const std::vector<Tensor>&)>;

  std::string name;
  Module* given = nullptr;                              // null for a function
  std::function<std::unique_ptr<Module>()> build = {};  // one as `given` was, but for its state
  Call call = {};                                       // runs the module, or the function
  std::shared_ptr<void> owner = {};                     // of `given`, where it was made for this
};

namespace certify_detail {

template <class T>
concept TensorTuple = requires {
  std::tuple_size<T>::value;
};

// Tensors in whatever a forward returns.
inline void collect(std::vector<Tensor>& list, const Tensor& tensor) {
  if (tensor.defined()) list.push_back(tensor);
}
inline void collect(std::vector<Tensor>& list, const RecurrentState& state) {
  for (const Tensor& tensor : {state.h, state.c}) collect(list, tensor);
}
inline void collect(std::vector<Tensor>& list, const RecurrentResult& result) {
  for (const Tensor& tensor : {result.output, result.h, result.c}) collect(list, tensor);
}
template <std::ranges::input_range R>
requires std::convertible_to < std::ranges::range_reference_t<R>,
const Tensor& > void collect(std::vector<Tensor>& list, const R& tensors) {
  for (const Tensor& tensor : tensors) collect(list, tensor);
}
template <TensorTuple T>
requires(!std::ranges::input_range<T>) void collect(std::vector<Tensor>& list, const T& tensors) {
  std::apply([&](const auto&... each) { (collect(list, each), ...); }, tensors);
}

template <class R>
concept Tensors = requires(std::vector<Tensor>& list, const R& result) {
  collect(list, result);
};

[[noreturn]] void throw_input_count(const std::string& name, size_t count);

// Whether f takes N tensors and returns some.
template <size_t N, class F>
concept CallableWith = []<size_t... K>(std::index_sequence<K...>) {
  return requires(F & f, const std::array<Tensor, N>& inputs) {
    { f(std::get<K>(inputs)...) } -> Tensors;
  };
}
(std::make_index_sequence<N>());

template <size_t N, class F>
std::vector<Tensor> call_with(F& f, const std::vector<Tensor>& inputs) {
  return [&]<size_t... K>(std::index_sequence<K...>) {
    std::vector<Tensor> list;
    collect(list, f(inputs[K]...));
    return list;
  }
  (std::make_index_sequence<N>());
}

template <class F, size_t N = 0>
std::vector<Tensor> call(F& f, const std::string& name, const std::vector<Tensor>& inputs) {
  if constexpr (CallableWith<N, F>) {
    if (inputs.size() == N) return call_with<N>(f, inputs);
  }
  if constexpr (N < 6) {
    return call<F, N + 1>(f, name, inputs);
  } else {
    throw_input_count(name, inputs.size());
  }
}

template <class L>
concept Rebuilds = requires(const L& layer) {
  { layer.rebuild() } -> std::same_as<L>;
};

template <class L>
Subject::Call call_of_layer(const std::string& name) {
  return [name](Module* module, const std::vector<Tensor>& inputs) {
    L& layer = static_cast<L&>(*module);
    const auto forward = [&](const auto&... each) -> decltype(layer.forward(each...)) {
      return layer(each...);
    };
    return call(forward, name, inputs);
  };
}

}  // namespace certify_detail

// A layer; `layer` must outlive it, and is copied by its rebuild().
template <std::derived_from<Module> L>
Subject subject_of(const std::string& name, L& layer) {
  static_assert(certify_detail::Rebuilds<L>,
                "[certify] works with copies of a layer: give it `Self rebuild() const` that "
                "constructs it with the same arguments, or pass what makes one: "
                "certify(\"name\", [] { return Self(...); }, shapes)");
  return {.name = name,
          .given = &layer,
          .build = [&layer] { return std::make_unique<L>(layer.rebuild()); },
          .call = certify_detail::call_of_layer<L>(name)};
}

// A function without arguments that makes a layer, or one of one to six tensors.
template <class F>
requires(!std::derived_from<F, Module>) Subject subject_of(const std::string& name, F function) {
  if constexpr (std::invocable<F&>) {
    using L = std::remove_cvref_t<std::invoke_result_t<F&>>;
    static_assert(std::derived_from<L, Module>,
                  "[certify] a function without arguments must return a layer");
    auto layer = std::make_shared<L>(function());
    return {.name = name,
            .given = layer.get(),
            .build = [function]() mutable { return std::make_unique<L>(function()); },
            .call = certify_detail::call_of_layer<L>(name),
            .owner = layer};
  } else {
    return {.name = name,
            .call = [name, function](Module*, const std::vector<Tensor>& inputs) mutable {
              return certify_detail::call(function, name, inputs);
            }};
  }
}

}  // namespace adret
