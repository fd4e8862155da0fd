// What a step does on the host beside its kernel calls, for whoever records the step and replays
// it: a replay runs the kernels alone.
#pragma once

#include <adret/core/intrusive_ptr.h>
#include <adret/core/tensor.h>

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace adret {

class Leaf;

// Sees what this thread does while it is the innermost one, between its construction and finish().
class StepTrace {
 public:
  StepTrace();
  ~StepTrace();
  StepTrace(const StepTrace&) = delete;
  StepTrace& operator=(const StepTrace&) = delete;
  static StepTrace* current();

  // -- for what has effects ----------------------------------------------------------------------
  // To be done for every replay, before its kernels run or behind them. What an effect refers to is
  // there as long as the step is.
  void before_replay(std::function<void()> effect);
  void after_replay(std::function<void()> effect);
  // Why a replay would not be the same; the first one stays.
  void add_obstacle(const std::string& why);
  // Before a leaf's gradient is read or added to, and before it is replaced or dropped.
  void use_gradient(Leaf& leaf);
  void replace_gradient(Leaf& leaf);
  // Behind a write into a tensor that may be older than the step.
  void wrote(const Tensor& tensor);

  // -- for who records ---------------------------------------------------------------------------
  void finish();
  const std::string& obstacle() const { return obstacle_; }
  // Whether gradients that the step uses are there, or not there, as they were.
  bool gradients_as_before() const;
  void run_before() const;
  // The effects behind the kernels; gradients are then as at the end of the traced step.
  void run_after() const;

 private:
  struct Gradient {
    IntrusivePtr<Leaf> leaf;
    bool used;           // rather than replaced, at first
    const void* before;  // the data of the one used; null: there was none
    Tensor after;
  };
  Gradient* find(const Leaf& leaf);

  StepTrace* outer_;
  const uint64_t first_storage_;  // that is made in the step
  bool finished_ = false;
  std::string obstacle_;
  std::vector<std::function<void()>> before_, after_;
  std::vector<Gradient> gradients_;
};

// Raises the tensor's version, which replays of a step that is traced do, too.
void raise_version(const Tensor& tensor);

// Counts the changes, of all threads, of what steps are made of: modes of modules, what requires a
// gradient, dtypes, hooks, optimizers. A recorded step is the same only while the count is.
uint64_t structure_version();
void structure_changed();

}  // namespace adret
