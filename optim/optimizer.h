// What all optimizers share: arenas, groups of parameters, clipping, the learning rate, and state
// that can be saved.
#pragma once

#include <adret/layers/module.h>
#include <adret/optim/arena.h>

#include <limits>
#include <string>
#include <vector>

namespace adret {

// Parameters with options of their own: Sgd({{body.parameters(), {.lr = 0.01}}, {head...}}).
template <class Options>
struct ParameterGroup {
  std::vector<std::shared_ptr<Parameter>> parameters;
  Options options;
};

// All that a run must restore beside the weights (which the f32 masters of 16-bit parameters belong
// to: save_weights writes these). Tensors are copies on the CPU: "groups.lr" and
// the like f64 (groups); "momentum.3" the state of parameter 3, in the order of the groups, with
// its shape in memory.
struct OptimizerState {
  std::string optimizer;  // "sgd", "adam", "adamw", ...
  std::vector<NamedTensor> tensors;
};

struct ClipNormOptions {
  bool error_if_nonfinite = false;  // waits for the device
};

// Moves the parameters into arenas: all handles on their values stay valid, Module::to() does not
// work until the optimizer is destroyed, and no parameter can be in two. Moving the model is fine.
class Optimizer {
 public:
  virtual ~Optimizer() = default;
  Optimizer(const Optimizer&) = delete;
  Optimizer& operator=(const Optimizer&) = delete;

  // Updates every parameter that has a gradient; others are untouched, their state too. The first
  // step after a backward throws Error for a parameter that got a gradient but is in no optimizer.
  // So does every step between LossScaler::scale and unscale, or StepGuard::begin and decide.
  void step();
  // Begins a step; one that was left between LossScaler::unscale() and step() is forgotten.
  void zero_grad();

  // Scales all gradients together by min(1, max_norm / norm), norm being their 2-norm (Pascanu et
  // al. 2013). Returns the norm, a scalar f64 on the parameters' device: reading it waits. With an
  // infinite max_norm nothing is scaled, so that it tells the norm alone. If the norm is not finite
  // the gradients are untouched: have a StepGuard skip the step, or ask for an Error, which names a
  // gradient that is not finite, or says that their squares overflowed.
  Tensor clip_norm(double max_norm, const ClipNormOptions& options = {});
  // Clamps every element of the gradients to -limit..limit; NaN stays.
  void clip_value(double limit);

  size_t group_count() const { return rows_.size(); }
  // Throw Error for a group that is not there, and for a negative or non-finite rate.
  double lr(size_t group = 0) const;
  void set_lr(double lr);  // of all groups
  void set_lr(double lr, size_t group);

  OptimizerState state() const;
  // Restores state and hyper-parameters, whatever the constructor was given. Throws
  // CheckpointError, changing nothing, when it is another optimizer's or does not fit.
  void load_state(const OptimizerState& state);

  // For what works on all parameters at once, as loss scaling.
  ParameterArena& arena() { return arena_; }
  const ParameterArena& arena() const { return arena_; }

 protected:
  using Row = std::vector<double>;  // hyper-parameters of a group, one a column; the first is lr
  // A float an element, an i64 or an f64 a parameter, and `length` f64 for the optimizer.
  enum class StateKind { per_element, counter, factor, record };
  struct StateSpec {
    std::string name;
    StateKind kind = StateKind::per_element;
    int64_t length = 0;  // of a record
  };
  // What tells one optimizer from another, beside its kernel.
  struct Rules {
    std::string name;
    std::vector<std::string> columns;
    void (*check)(const Row& row);  // throws Error for values out of range
    std::vector<StateSpec> (*states)(const std::vector<Row>& rows);
  };
  template <class Options>
  Optimizer(const Rules& rules, const std::vector<ParameterGroup<Options>>& groups,
            Row (*row)(const Options&))
      : Optimizer(rules, transform(groups, [](const auto& g) { return g.parameters; }),
                  transform(groups, [row](const auto& g) { return row(g.options); })) {}

  const Tensor& groups() const { return group_table_; }
  const Row& row(size_t group) const { return rows_[group]; }
  Tensor state_tensor(const std::string& name) const;  // undefined if there is none
  // Throws Error for gradients that a LossScaler or StepGuard has yet to decide about.
  void check_decided() const;
  // After the gradients were collected; once finding none is enough.
  void check_strays(bool any_gradient);

 private:
  struct State {
    StateSpec spec;
    Tensor tensor;  // an arena, i64 or f64 (parameters), or f64 (length)
  };

  Optimizer(const Rules& rules, const std::vector<ParameterArena::Group>& groups,
            std::vector<Row> rows);
  template <class Group, class Function>
  static auto transform(const std::vector<Group>& groups, const Function& function) {
    std::vector<decltype(function(groups[0]))> result;
    result.reserve(groups.size());
    for (const Group& group : groups) result.push_back(function(group));
    return result;
  }

  virtual void run_step() = 0;
  void check_group(size_t group) const;
  void upload_groups();
  Tensor make_state(const StateSpec& spec) const;
  std::vector<State> make_states(const std::vector<Row>& rows) const;
  std::vector<NamedTensor> parts(const std::vector<State>& states) const;
  std::vector<Row> read_rows(const OptimizerState& state) const;

  Rules rules_;
  std::vector<Row> rows_;
  ParameterArena arena_;
  Tensor group_table_;  // f64 (groups, columns)
  std::vector<State> states_;
  bool rows_changed_ = true;
  bool strays_checked_ = false;
};

// Throws Error naming their owner for an empty list, for one that is null, and for one that is
// there twice.
void check_optimizers(const char* owner, const std::vector<Optimizer*>& optimizers);

// Throws Error naming the optimizer unless low <= value <= high (and finite).
void check_range(const char* optimizer, const char* what, double value, double low,
                 double high = std::numeric_limits<double>::infinity());
// The same unless 0 <= beta < 1.
void check_beta(const char* optimizer, const char* what, double beta);

}  // namespace adret
