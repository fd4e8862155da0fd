// A formula as a function of tensors: differentiable, fused, on the CPU and, when nvcc compiles it,
// on a GPU.
#pragma once

#include <adret/core/formula/directions.h>
#include <adret/core/tensor.h>
#if defined(__CUDACC__)
#include <adret/core/formula/device_kernel.h>
#endif

#include <array>
#include <concepts>
#include <memory>
#include <span>
#include <type_traits>
#include <vector>

namespace adret {
namespace formula {

// What pointwise() needs of a formula's type for a number of operands.
struct Formula {
  const char *name, *backward_name, *second_name;
  Code forward, backward, second;
};

// `constants` is the formula with what it captured.
std::vector<Tensor> apply(const Formula& formula, std::shared_ptr<const void> constants,
                          std::span<const Tensor> operands);

inline namespace ADRET_FORMULA_COMPILER {

template <class F, class Direction>
Code code_of() {
  Code code{.inputs = Direction::inputs,
            .outputs = Direction::outputs,
            .bytes = std::is_empty_v<F> ? 0 : sizeof(F),
            .f32 = run_loop<F, Direction, float>,
            .f64 = run_loop<F, Direction, double>,
            .cuda = nullptr};
#if defined(__CUDACC__)
  code.cuda = launch_direction<F, Direction>;
#endif
  return code;
}

template <class F, int N>
const Formula& formula_of() {
  static const Formula formula{.name = readable_name(typeid(F), ""),
                               .backward_name = readable_name(typeid(F), " backward"),
                               .second_name = readable_name(typeid(F), " second backward"),
                               .forward = code_of<F, Forward<F, N>>(),
                               .backward = code_of<F, Backward<F, N>>(),
                               .second = code_of<F, SecondBackward<F, N>>()};
  return formula;
}

// A copy of f, whose bytes are those of every equal one.
template <class F>
std::shared_ptr<const void> constants_of(const F& f) {
  const auto copy = std::make_shared<F>(f);
#if __has_builtin(__builtin_clear_padding)
  if constexpr (!std::is_empty_v<F>) __builtin_clear_padding(copy.get());
#endif
  return copy;
}

template <class F, class... X>
concept CallableWith = std::invocable<const F&, X...>;

template <class R>
inline constexpr bool are_outputs = std::convertible_to<R, Number<float>>;
template <Tuple R>
inline constexpr bool are_outputs<R> = []<size_t... K>(std::index_sequence<K...>) {
  return sizeof...(K) > 0 &&
         (std::convertible_to<std::tuple_element_t<K, R>, Number<float>> && ...);
}
(std::make_index_sequence<std::tuple_size_v<R>>());

}  // namespace ADRET_FORMULA_COMPILER
}  // namespace formula

// f at every place of one to six operands of one floating dtype, which broadcast:
//   struct Swish { ADRET_FN auto operator()(auto x) const { return x / (1 + exp(-x)); } };
//   Tensor y = pointwise(Swish{}, x);
// A tensor, or an array of up to six tensors where f returns a tuple or an array. First and second
// derivatives come from the formula itself. What may be in a formula: docs/custom_layers.md. Throws
// ShapeError for operands that do not go together, DeviceError for those on several devices or on a
// GPU that the formula was not compiled for.
template <class F, class... Operands>
auto pointwise(const F& f, const Operands&... operands) {
  constexpr int n = int(sizeof...(Operands));
  constexpr bool are_tensors = (std::convertible_to<const Operands&, const Tensor&> && ...);
  static_assert(are_tensors,
                "[pointwise] the operands are tensors; a plain number is a member of the formula");
  static_assert(n >= 1 && n <= formula::max_inputs, "[pointwise] takes one to six operands");
  static_assert(std::is_trivially_copyable_v<F>,
                "[pointwise] a formula holds its constants as plain numbers, so that they can be "
                "copied to a GPU: no tensors, strings or vectors");
  constexpr bool is_callable =
      formula::CallableWith<F, formula::Repeated<formula::Number<float>, sizeof(Operands)>...>;
  static_assert(is_callable,
                "[pointwise] the formula does not compile for numbers of ours (see the errors "
                "above), or for as many operands as there are tensors; it wants a const operator() "
                "with a template or auto parameter for each, which calls exp and the like without "
                "std::, and only what docs/custom_layers.md lists");
  if constexpr (are_tensors && is_callable && std::is_trivially_copyable_v<F> &&
                n <= formula::max_inputs) {
    using Result = formula::Result<F, n>;
    static_assert(formula::are_outputs<Result>,
                  "[pointwise] the formula must return what it computed from its operands, or a "
                  "tuple or array of such");
    constexpr bool are_few = formula::output_count<Result> <= formula::max_outputs;
    static_assert(are_few, "[pointwise] a formula returns at most six results");
    if constexpr (formula::are_outputs<Result> && are_few) {
      const Tensor inputs[] = {static_cast<const Tensor&>(operands)...};
      std::vector<Tensor> results =
          formula::apply(formula::formula_of<F, n>(), formula::constants_of(f), inputs);
      if constexpr (formula::Tuple<Result>) {
        std::array<Tensor, std::tuple_size_v<Result>> outputs;
        for (size_t k = 0; k < outputs.size(); ++k) outputs[k] = std::move(results[k]);
        return outputs;
      } else {
        return std::move(results[0]);
      }
    }
  }
}

}  // namespace adret
