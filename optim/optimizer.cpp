// The step around the kernel, clipping, and saving and loading of state.
#include <adret/autograd/engine.h>
#include <adret/autograd/step_trace.h>
#include <adret/core/error.h>
#include <adret/core/kernels/kernel.h>
#include <adret/optim/clip.h>
#include <adret/optim/optimizer.h>
#include <fmt/core.h>

#include <algorithm>
#include <cmath>

namespace adret {

void check_range(const char* optimizer, const char* what, double value, double low, double high) {
  if (std::isfinite(value) && value >= low && value <= high) return;
  throw Error(std::isinf(high) ? fmt::format("[{}] {} is {}; it must be finite and at least {}",
                                             optimizer, what, value, low)
                               : fmt::format("[{}] {} is {}; it must lie in {}..{}", optimizer,
                                             what, value, low, high));
}

void check_beta(const char* optimizer, const char* what, double beta) {
  if (beta >= 0 && beta < 1) return;
  throw Error(
      fmt::format("[{}] {} is {}; it must be at least 0 and below 1", optimizer, what, beta));
}

void check_optimizers(const char* owner, const std::vector<Optimizer*>& optimizers) {
  if (optimizers.empty()) {
    throw Error(fmt::format("[{}] the list of optimizers is empty", owner));
  }
  for (size_t i = 0; i < optimizers.size(); ++i) {
    if (!optimizers[i]) throw Error(fmt::format("[{}] optimizer {} is null", owner, i));
    for (size_t j = 0; j < i; ++j) {
      if (optimizers[j] != optimizers[i]) continue;
      throw Error(
          fmt::format("[{}] optimizers {} and {} are the same; name each once", owner, j, i));
    }
  }
}

namespace {

std::vector<std::vector<double>> checked(std::vector<std::vector<double>> rows,
                                         void (*check)(const std::vector<double>&)) {
  for (const auto& row : rows) check(row);
  return rows;
}

}  // namespace

Optimizer::Optimizer(const Rules& rules, const std::vector<ParameterArena::Group>& groups,
                     std::vector<Row> rows)
    : rules_(rules), rows_(checked(std::move(rows), rules.check)), arena_(groups) {
  group_table_ = Tensor::empty({int64_t(rows_.size()), int64_t(rules_.columns.size())},
                               {.dtype = DType::f64, .device = arena_.device()});
  states_ = make_states(rows_);
}

// -- the step -------------------------------------------------------------------------------------

void Optimizer::step() {
  const NameScope scope(rules_.name.c_str());
  check_decided();
  const bool any = arena_.collect();
  check_strays(any);
  if (!any) return;
  upload_groups();
  run_step();
  arena_.end_step();
  StepTrace* trace = StepTrace::current();
  if (!trace) return;
  trace->before_replay([this] {
    arena_.renew_masters();
    upload_groups();
  });
  trace->after_replay([this] { arena_.end_step(); });
}

void Optimizer::check_decided() const {
  if (arena_.awaits_unscale()) {
    throw Error(
        "[step] a loss was scaled, so the gradients are times the scale; call "
        "LossScaler::unscale() between backward() and step()");
  }
  if (arena_.awaits_decide()) {
    throw Error(
        "[step] a StepGuard began this step and did not decide whether it is made; call its "
        "decide() between backward() and step()");
  }
}

void Optimizer::check_strays(bool any_gradient) {
  const auto& reached = reached_parameters();
  if (strays_checked_ || reached.empty()) return;
  const auto mine = [this](const ReachedParameter& one) { return arena_.holds(one.leaf); };
  // Gradients that were set by hand: the last backward was about something else.
  if (any_gradient && std::ranges::none_of(reached, mine)) return;
  int64_t strays = 0;
  Shape largest;
  for (const ReachedParameter& one : reached) {
    if (one.in_arena || mine(one)) continue;
    if (++strays == 1 || one.shape.numel() > largest.numel()) largest = one.shape;
  }
  if (strays > 0) {
    throw Error(
        fmt::format("[step] backward gave a gradient to {} parameter(s) that no optimizer holds, "
                    "the largest {}, so they would never learn; declare the layer with add(), put "
                    "them in a group, or freeze them with set_requires_grad(false)",
                    strays, to_string(largest)));
  }
  strays_checked_ = true;
}

void Optimizer::upload_groups() {
  if (!rows_changed_) return;
  std::vector<double> flat;
  for (const Row& row : rows_) flat.insert(flat.end(), row.begin(), row.end());
  // Not under the decorators' eyes: a replayed step does this by itself.
  backend_for(arena_.device())
      .services()
      .copy(group_table_.data(), flat.data(), group_table_.bytes(), CopyKind::host_to_device);
  rows_changed_ = false;
}

void Optimizer::zero_grad() {
  for (const auto& parameter : arena_.parameters()) parameter->value.zero_grad();
  arena_.forget_decision();
}

void Optimizer::check_group(size_t group) const {
  if (group >= rows_.size()) {
    throw Error(fmt::format("[{}] group {} is not there; the optimizer has {}", rules_.name, group,
                            rows_.size()));
  }
}

double Optimizer::lr(size_t group) const {
  check_group(group);
  return rows_[group][0];
}

void Optimizer::set_lr(double lr) {
  for (size_t group = 0; group < rows_.size(); ++group) set_lr(lr, group);
}

void Optimizer::set_lr(double lr, size_t group) {
  check_range(rules_.name.c_str(), "lr", lr, 0);
  check_group(group);
  if (StepTrace* trace = StepTrace::current()) {
    trace->add_obstacle("it sets a learning rate; call set_lr before the step");
  }
  double& current = rows_[group][0];
  rows_changed_ = rows_changed_ || current != lr;
  current = lr;
}

// -- clipping -------------------------------------------------------------------------------------

Tensor Optimizer::clip_norm(double max_norm, const ClipNormOptions& options) {
  return adret::clip_norm({this}, max_norm, options);
}

void Optimizer::clip_value(double limit) {
  check_range("clip_value", "limit", limit, 0);
  if (!arena_.collect()) return;
  run(kernels::ClipByValue{
      .grads = arena_.gradients(), .segments = arena_.segments(), .limit = limit});
  arena_.bump_gradients();
}

// -- state ----------------------------------------------------------------------------------------

Tensor Optimizer::make_state(const StateSpec& spec) const {
  if (spec.kind == StateKind::per_element) return arena_.make_state();
  const DType dtype = spec.kind == StateKind::counter ? DType::i64 : DType::f64;
  const auto parameters = int64_t(arena_.parameters().size());
  return Tensor::zeros({spec.kind == StateKind::record ? spec.length : parameters},
                       {.dtype = dtype, .device = arena_.device()});
}

std::vector<Optimizer::State> Optimizer::make_states(const std::vector<Row>& rows) const {
  std::vector<State> states;
  for (const StateSpec& spec : rules_.states(rows)) states.push_back({spec, make_state(spec)});
  return states;
}

Tensor Optimizer::state_tensor(const std::string& name) const {
  const auto it =
      std::ranges::find_if(states_, [&](const State& state) { return state.spec.name == name; });
  return it == states_.end() ? Tensor() : it->tensor;
}

// The state's parts by name, in place.
std::vector<NamedTensor> Optimizer::parts(const std::vector<State>& states) const {
  std::vector<NamedTensor> list;
  for (const auto& [spec, tensor] : states) {
    if (spec.kind != StateKind::per_element) {
      list.push_back({spec.name, tensor});
      continue;
    }
    for (size_t i = 0; i < arena_.parameters().size(); ++i) {
      list.push_back({fmt::format("{}.{}", spec.name, i), arena_.state_of(tensor, i)});
    }
  }
  return list;
}

OptimizerState Optimizer::state() const {
  const NoGrad no_grad;
  OptimizerState state{.optimizer = rules_.name, .tensors = {}};
  for (size_t column = 0; column < rules_.columns.size(); ++column) {
    std::vector<double> values;
    for (const Row& row : rows_) values.push_back(row[column]);
    state.tensors.push_back(
        {"groups." + rules_.columns[column], Tensor::from(values, {int64_t(values.size())})});
  }
  for (const NamedTensor& part : parts(states_)) {
    state.tensors.push_back({part.name, part.tensor.clone().to(Device::cpu())});
  }
  return state;
}

namespace {

const Tensor* find(const OptimizerState& state, const std::string& name) {
  const auto it = std::ranges::find(state.tensors, name, &NamedTensor::name);
  return it == state.tensors.end() ? nullptr : &it->tensor;
}

std::string text_of(const Shape& shape, DType dtype) {
  return fmt::format("{} {}", to_string(shape), name(dtype));
}

// The tensor of that name. Throws CheckpointError if it is missing or of another kind.
const Tensor& expect(const OptimizerState& state, const std::string& name, const Shape& shape,
                     DType dtype) {
  const Tensor* tensor = find(state, name);
  if (tensor && tensor->shape() == shape && tensor->dtype() == dtype) return *tensor;
  throw CheckpointError(
      fmt::format("[load_state] the optimizer wants \"{}\" {}, the state has {}; build the model "
                  "and the groups as they were when it was saved",
                  name, text_of(shape, dtype),
                  tensor ? text_of(tensor->shape(), tensor->dtype()) : "no such tensor"));
}

}  // namespace

std::vector<Optimizer::Row> Optimizer::read_rows(const OptimizerState& state) const {
  std::vector<Row> rows(rows_.size());
  for (const std::string& column : rules_.columns) {
    const Tensor& tensor = expect(state, "groups." + column, {int64_t(rows_.size())}, DType::f64);
    const std::vector<double> values = tensor.to_vector<double>();
    for (size_t group = 0; group < rows.size(); ++group) rows[group].push_back(values[group]);
  }
  return checked(std::move(rows), rules_.check);
}

void Optimizer::load_state(const OptimizerState& state) {
  if (state.optimizer != rules_.name) {
    throw CheckpointError(fmt::format("[load_state] the state is that of \"{}\", not of \"{}\"",
                                      state.optimizer, rules_.name));
  }
  std::vector<Row> rows = read_rows(state);
  std::vector<State> states = make_states(rows);
  const std::vector<NamedTensor> places = parts(states);
  for (const NamedTensor& place : places) {
    expect(state, place.name, place.tensor.shape(), place.tensor.dtype());
  }
  const size_t known = places.size() + rules_.columns.size();
  if (state.tensors.size() != known) {
    throw CheckpointError(fmt::format(
        "[load_state] the state has {} tensors, the optimizer wants {}; build the model "
        "and the groups as they were when it was saved",
        state.tensors.size(), known));
  }
  const NoGrad no_grad;
  for (const NamedTensor& place : places) {
    run(kernels::Copy{.x = find(state, place.name)->to(arena_.device()), .y = place.tensor});
  }
  rows_ = std::move(rows);
  states_ = std::move(states);
  structure_changed();  // the state lies elsewhere now
  rows_changed_ = true;
}

}  // namespace adret
