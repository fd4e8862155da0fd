// Laying out, moving into and gathering in the arenas.
#include <adret/autograd/node.h>
#include <adret/autograd/ops/check.h>
#include <adret/autograd/step_trace.h>
#include <adret/core/backend.h>
#include <adret/core/error.h>
#include <adret/core/kernels/kernel.h>
#include <adret/optim/arena.h>
#include <fmt/core.h>

#include <algorithm>
#include <set>

namespace adret {
namespace {

int64_t aligned(int64_t bytes, Device device) {
  const int64_t unit = device.is_cpu() ? 64 : 512;
  return (bytes + unit - 1) / unit * unit;
}

std::string describe(const Parameter& parameter) {
  return fmt::format("\"{}\" {}", parameter.name, to_string(parameter.value.shape()));
}

bool wants_master(const Tensor& value) { return size_of(value.dtype()) == 2; }

void check_parameter(const Parameter& parameter, Device device, bool first_time) {
  if (parameter.in_arena) {
    throw Error(
        fmt::format("[optimizer] the parameter {} belongs to another optimizer; use one optimizer "
                    "with several groups, or destroy the other first",
                    describe(parameter)));
  }
  if (!first_time) {
    throw Error(fmt::format("[optimizer] the parameter {} is in two groups; a parameter has one",
                            describe(parameter)));
  }
  if (parameter.value.device() != device) {
    throw DeviceError(
        fmt::format("[optimizer] the parameter {} is on {}, others are on {}; move the model with "
                    "to(device) first",
                    describe(parameter), to_string(parameter.value.device()), to_string(device)));
  }
}

}  // namespace

void upload(const Tensor& to, const void* from) {
  copy_memory(to.device(), to.data(), from, to.bytes(), CopyKind::host_to_device);
  to.bump_version();
}

ParameterArena::ParameterArena(const std::vector<Group>& groups) {
  const FunctionScope scope("parameters and gradients");
  lay_out(groups);
  const Device device = parameters_[0]->value.device();
  const TensorOptions bytes{.dtype = DType::u8, .device = device};
  values_ = Tensor::zeros({value_bytes_}, bytes);
  gradients_ = Tensor::zeros({value_bytes_}, bytes);
  if (std::ranges::any_of(parameters_, [](const auto& p) { return wants_master(p->value); })) {
    masters_ = make_state();
  }
  segment_table_ = Tensor::empty({int64_t(segments_.size()), kernels::segment_columns},
                                 {.dtype = DType::i64, .device = device});
  upload(segment_table_, segments_.data());
  move_in();
  collect();
}

void ParameterArena::lay_out(const std::vector<Group>& groups) {
  std::set<const Parameter*> seen;
  for (size_t group = 0; group < groups.size(); ++group) {
    for (const auto& parameter : groups[group]) {
      const Tensor& value = parameter->value;
      if (!value.defined()) continue;
      const Device device = parameters_.empty() ? value.device() : parameters_[0]->value.device();
      check_parameter(*parameter, device, seen.insert(parameter.get()).second);
      segments_.push_back({.value_offset = value_bytes_,
                           .state_offset = state_bytes_,
                           .length = value.numel(),
                           .group = int64_t(group),
                           .dtype = int64_t(value.dtype()),
                           .active = 0});
      value_bytes_ += aligned(int64_t(value.bytes()), device);
      state_bytes_ += aligned(value.numel() * int64_t(size_of(wide_dtype(value))), device);
      parameters_.push_back(parameter);
    }
  }
  if (parameters_.empty()) {
    throw Error(
        "[optimizer] there are no parameters to optimize; are the layers declared "
        "with add()?");
  }
}

void ParameterArena::move_in() {
  structure_changed();
  for (size_t i = 0; i < parameters_.size(); ++i) {
    Parameter& parameter = *parameters_[i];
    const Tensor& value = parameter.value;
    const Tensor master = parameter.master();
    const auto offset = size_t(segments_[i].value_offset);
    value_places_.push_back(values_.segment(value.shape(), offset, value.dtype()));
    gradient_places_.push_back(gradients_.segment(value.shape(), offset, value.dtype()));
    run(kernels::Copy{.x = value, .y = value_places_[i]});
    value.rebind(value_places_[i]);
    parameter.in_arena = true;
    master_places_.push_back(wants_master(value) ? state_of(masters_, i) : Tensor());
    if (wants_master(value)) place_master(i, master);
  }
}

// Fills the place with the master that there is, or with the value.
void ParameterArena::place_master(size_t i, const Tensor& master) {
  const Tensor& place = master_places_[i];
  if (master.defined()) {
    run(kernels::Copy{.x = master, .y = place});
  } else {
    run(kernels::Cast{.x = parameters_[i]->value, .y = place});
  }
  parameters_[i]->set_master(place);
}

void ParameterArena::renew_master(size_t i) {
  if (!master_places_[i].defined()) return;
  const Tensor master = parameters_[i]->master();
  if (master.defined() && master.is_same(master_places_[i])) return;
  if (StepTrace* trace = StepTrace::current()) {
    trace->add_obstacle("a weight was written to since the last step, and its master is renewed");
  }
  place_master(i, master);
}

ParameterArena::~ParameterArena() {
  structure_changed();
  for (size_t i = 0; i < value_places_.size(); ++i) {
    parameters_[i]->in_arena = false;
    if (Leaf* leaf = leaf_of(parameters_[i]->value)) leaf->slot = Tensor();
  }
}

// Whether the parameter has a gradient, which then is in its place.
bool ParameterArena::gather(size_t i) {
  const Parameter& parameter = *parameters_[i];
  if (!parameter.value.shares_start(value_places_[i])) {
    throw Error(
        fmt::format("[optimizer] the value of the parameter {} was replaced by another tensor; "
                    "write into it with copy_ instead",
                    describe(parameter)));
  }
  renew_master(i);
  Leaf* leaf = leaf_of(parameter.value);
  if (!leaf) return false;  // frozen
  if (StepTrace* trace = StepTrace::current()) trace->use_gradient(*leaf);
  const Tensor& place = gradient_places_[i];
  leaf->slot = place;
  if (!leaf->grad.defined()) return false;
  if (!leaf->grad.shares_start(place)) {
    run(kernels::Copy{.x = leaf->grad, .y = place});
    place.bump_version();
    leaf->grad = place;
  }
  return true;
}

// Whether any parameter has a gradient; `changed`: which ones do.
bool ParameterArena::gather_all(bool& changed) {
  bool any = false;
  for (size_t i = 0; i < parameters_.size(); ++i) {
    const bool has_gradient = gather(i);
    any = any || has_gradient;
    changed = changed || has_gradient != bool(segments_[i].has_gradient);
    segments_[i].active = segments_[i].has_gradient = has_gradient;
  }
  return any;
}

bool ParameterArena::collect() {
  bool stale = written_ && !decided_;
  const bool any = gather_all(stale);
  if (stale) {
    upload(segment_table_, segments_.data());
    written_ = decided_ = false;
  }
  return any;
}

bool ParameterArena::collect_to_decide() {
  bool changed = false;
  const bool any = gather_all(changed);
  if (changed) upload(segment_table_, segments_.data());
  written_ = written_ || any;
  decided_ = any;
  return any;
}

void ParameterArena::renew_masters() {
  for (size_t i = 0; i < parameters_.size(); ++i) renew_master(i);
}

void ParameterArena::end_step() {
  decided_ = false;
  for (size_t i = 0; i < segments_.size(); ++i) {
    if (!segments_[i].active) continue;
    value_places_[i].bump_version();
    if (master_places_[i].defined()) parameters_[i]->set_master(master_places_[i]);
  }
}

void ParameterArena::bump_gradients() const {
  for (size_t i = 0; i < segments_.size(); ++i) {
    if (segments_[i].active) gradient_places_[i].bump_version();
  }
}

bool ParameterArena::holds(const Leaf* leaf) const {
  return std::ranges::any_of(
      parameters_, [leaf](const auto& parameter) { return leaf_of(parameter->value) == leaf; });
}

Tensor ParameterArena::make_state() const {
  const FunctionScope scope("optimizer state");
  return Tensor::zeros({state_bytes_}, {.dtype = DType::u8, .device = device()});
}

Tensor ParameterArena::state_of(const Tensor& state, size_t i) const {
  const Tensor& value = parameters_[i]->value;
  return state.segment(value.shape(), size_t(segments_[i].state_offset), wide_dtype(value));
}

}  // namespace adret
