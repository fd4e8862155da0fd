// The saved tensors of one checkpoint; see Note [Checkpoints].
#pragma once

#include <adret/autograd/node.h>
#include <adret/core/compute_mode.h>
#include <adret/core/random_calls.h>
#include <adret/core/tensor.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

namespace adret {

class Recomputation : public std::enable_shared_from_this<Recomputation> {
 public:
  using Function = std::function<Tensor(const std::vector<Tensor>&)>;
  Recomputation(Function function, std::vector<Tensor> inputs);

  // Runs the function, giving up what it saves.
  Tensor run();
  // The number by which a tensor that the function saves can be taken; none if it is to be kept.
  std::optional<size_t> save(const Tensor& tensor);
  // Remembers a leaf that the function computes with, which must be the same when it runs again.
  void note_leaf(const Tensor& leaf);
  // What was saved under a number: computed again, unless it is there from the last time. Throws
  // Error, naming the function that wants it, when that cannot be.
  Tensor take(size_t number, const Node& node);

  // Which of them saved tensors of this thread belong to now; null outside checkpoints.
  static Recomputation* current();

 private:
  enum class Run { first, again, again_in_graph };
  void run_again(const Node& node);
  void check_unchanged(const Node& node) const;

  const Function function_;
  const std::vector<Tensor> inputs_;
  std::vector<std::pair<Tensor, uint32_t>> versions_;  // of inputs and leaves
  const random::State random_;
  const ComputeMode mode_;
  size_t count_ = 0;           // saved the first time
  std::vector<Tensor> again_;  // saved the last time; undefined once taken
  Run run_ = Run::first;
};

}  // namespace adret
