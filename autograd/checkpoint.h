// Parts of a graph that keep nothing of what they computed, and compute it again in backward.
#pragma once

#include <adret/core/is_empty.h>
#include <adret/core/tensor.h>

#include <concepts>
#include <functional>
#include <type_traits>
#include <utility>
#include <vector>

namespace adret {

// Note [Checkpoints]
// Within checkpoint() saved tensors are not kept but numbered. The first of them that backward
// unpacks runs the function once more, with the same random numbers and compute mode, and what it
// saves then stands under the same numbers until it is taken. So the graph is the one that was
// recorded, and derivatives of any order work as without.

// function(inputs), whose saved tensors are given up and computed again in backward (Chen et al.
// 2016): memory for time. The numbers of core/random.h, as of dropout, are the same whatever was
// drawn or seeded in between and on whichever thread backward runs; batch norm's running statistics
// are updated once, and what requires a gradient may be an input or something that the function
// holds on to. Both must be what they were until backward, which throws Error when an input or a
// leaf that requires a gradient was written to, and for a function that saves other tensors the
// second time, or is empty. Other tensors that the function holds on to are not looked at.
Tensor checkpoint(const std::function<Tensor(const std::vector<Tensor>&)>& function,
                  const std::vector<Tensor>& inputs);
// With the inputs as arguments.
template <class F, class... Inputs>
requires((std::same_as<Inputs, Tensor> && ...) && sizeof...(Inputs) > 0) Tensor
    checkpoint(F function, const Inputs&... inputs) {
  using Function = std::function<Tensor(const std::vector<Tensor>&)>;
  if (is_empty(function)) return checkpoint(Function(), std::vector<Tensor>{inputs...});  // throws
  return checkpoint(
      [function = std::move(function)](const std::vector<Tensor>& in) mutable {
        return [&]<size_t... I>(std::index_sequence<I...>) { return function(in[I]...); }
        (std::make_index_sequence<sizeof...(Inputs)>());
      },
      std::vector<Tensor>{inputs...});
}

// Whether a checkpoint's function runs for the second time on this thread: what a function changes
// besides its result was changed the first time.
bool is_recomputing();

}  // namespace adret
