// Learning rates that fall when a metric of the evaluation gets no better.
#pragma once

#include <adret/optim/optimizer.h>

#include <cstdint>
#include <optional>
#include <vector>

namespace adret {

struct ReduceOnPlateauOptions {
  bool higher_is_better = false;  // as an accuracy; a loss falls
  double factor = 0.1;            // of the new rates over the old, in 0..1, below 1
  int64_t patience = 10;          // evaluations in a row without a better one that change nothing
  // How much better counts: a loss below best - threshold * |best|, or with `absolute` below
  // best - threshold. (PyTorch's best * (1 - threshold) is above a negative best.)
  double threshold = 1e-4;
  bool absolute = false;
  int64_t cooldown = 0;   // evaluations after a fall that do not count as bad
  double lowest = 0;      // rates do not fall below
  double epsilon = 1e-8;  // a smaller change of a rate is not made
};

// All that a run must restore, beside the rates in the state of the optimizer.
struct ReduceOnPlateauState {
  std::optional<double> best = {};
  int64_t bad = 0;      // evaluations in a row
  int64_t cooling = 0;  // evaluations to come that do not count
};

// PyTorch's ReduceLROnPlateau. With a trainer, whose schedule must be unset:
//
//   ReduceOnPlateau plateau(optimizer, {.patience = 3});
//   trainer.fit(train, validation, {.on_epoch_end = [&](const EpochReport& epoch) {
//                 plateau.step(*epoch.test_loss);
//               }});
class ReduceOnPlateau {
 public:
  // The optimizers must outlive this. Throws Error for options out of range, and for no optimizers
  // or a null one.
  explicit ReduceOnPlateau(Optimizer& optimizer, const ReduceOnPlateauOptions& options = {})
      : ReduceOnPlateau(std::vector<Optimizer*>{&optimizer}, options) {}
  explicit ReduceOnPlateau(std::vector<Optimizer*> optimizers,
                           const ReduceOnPlateauOptions& options = {});

  // Takes the metric of an evaluation, and multiplies the rates of all groups with the factor after
  // more than `patience` bad ones in a row; returns whether it did. NaN is never better.
  bool step(double metric);

  const ReduceOnPlateauState& state() const { return state_; }
  // Throws Error for negative counts.
  void load_state(const ReduceOnPlateauState& state);

 private:
  bool is_better(double metric) const;
  void reduce();

  std::vector<Optimizer*> optimizers_;
  ReduceOnPlateauOptions options_;
  ReduceOnPlateauState state_;
};

}  // namespace adret
