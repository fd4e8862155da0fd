// Counting evaluations that are no better, and lowering the rates.
#include <adret/core/error.h>
#include <adret/optim/reduce_on_plateau.h>
#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <utility>

namespace adret {
namespace {

constexpr const char* class_name = "ReduceOnPlateau";

const ReduceOnPlateauOptions& checked(const ReduceOnPlateauOptions& options) {
  check_beta(class_name, "factor", options.factor);
  check_range(class_name, "patience", double(options.patience), 0);
  check_range(class_name, "threshold", options.threshold, 0);
  check_range(class_name, "cooldown", double(options.cooldown), 0);
  check_range(class_name, "lowest", options.lowest, 0);
  check_range(class_name, "epsilon", options.epsilon, 0);
  return options;
}

}  // namespace

ReduceOnPlateau::ReduceOnPlateau(std::vector<Optimizer*> optimizers,
                                 const ReduceOnPlateauOptions& options)
    : optimizers_(std::move(optimizers)), options_(checked(options)) {
  check_optimizers(class_name, optimizers_);
}

bool ReduceOnPlateau::is_better(double metric) const {
  if (!state_.best) return !std::isnan(metric);
  const double best = *state_.best, sign = options_.higher_is_better ? 1 : -1;
  const double bound = best + sign * options_.threshold * (options_.absolute ? 1 : std::abs(best));
  return options_.higher_is_better ? metric > bound : metric < bound;
}

bool ReduceOnPlateau::step(double metric) {
  if (is_better(metric)) {
    state_.best = metric;
    state_.bad = 0;
  } else {
    ++state_.bad;
  }
  if (state_.cooling > 0) {
    --state_.cooling;
    state_.bad = 0;
  }
  if (state_.bad <= options_.patience) return false;
  reduce();
  state_.cooling = options_.cooldown;
  state_.bad = 0;
  return true;
}

void ReduceOnPlateau::reduce() {
  for (Optimizer* optimizer : optimizers_) {
    for (size_t group = 0; group < optimizer->group_count(); ++group) {
      const double before = optimizer->lr(group);
      const double after = std::max(before * options_.factor, options_.lowest);
      if (before - after > options_.epsilon) optimizer->set_lr(after, group);
    }
  }
}

void ReduceOnPlateau::load_state(const ReduceOnPlateauState& state) {
  if (state.bad < 0 || state.cooling < 0) {
    throw Error(fmt::format("[{}] a state cannot have {} bad and {} cooling evaluations",
                            class_name, state.bad, state.cooling));
  }
  state_ = state;
}

}  // namespace adret
