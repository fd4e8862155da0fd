// Averages in arenas beside the optimizers', and their way into the model.
#include <adret/autograd/grad_mode.h>
#include <adret/autograd/ops/inplace.h>
#include <adret/autograd/step_trace.h>
#include <adret/core/error.h>
#include <adret/core/kernels/kernel.h>
#include <adret/optim/move_together.h>
#include <adret/train/weight_average.h>
#include <fmt/core.h>

#include <algorithm>
#include <cstddef>
#include <set>

namespace adret {
namespace {

DType wide(DType dtype) { return dtype == DType::f64 ? DType::f64 : DType::f32; }

// `to` = `from` in its dtype.
void write(const Tensor& to, const Tensor& from) { copy_(to, from.to(to.dtype())); }

std::string describe(const std::string& name, const Tensor& tensor) {
  return fmt::format("\"{}\" {}", name, to_string(tensor.shape()));
}

}  // namespace

WeightAverage::WeightAverage(Module& model, const std::vector<Optimizer*>& optimizers,
                             const WeightAverageOptions& options)
    : model_(model), options_(options) {
  if (!(options.decay >= 0 && options.decay < 1)) {
    throw Error(fmt::format("[WeightAverage] decay is {}; it must be at least 0 and below 1",
                            options.decay));
  }
  const FunctionScope scope("weight average");
  const NoGrad no_grad;
  check_optimizers("WeightAverage", optimizers);
  check_parameters(optimizers);
  for (Optimizer* optimizer : optimizers) add_arena(optimizer->arena());
  add_buffers();
  const Device device = parts_.front().average.device();
  const TensorOptions words{.dtype = DType::i64, .device = device};
  columns_ = Tensor::ones({kernels::segment_columns}, {.dtype = DType::boolean, .device = device});
  zero_ = Tensor::zeros({}, words);
  updates_ = Tensor::zeros({int64_t(parts_.size())}, words);
  for (size_t i = 0; i < parts_.size(); ++i) {
    parts_[i].updates = updates_.alias({}, i * sizeof(int64_t));
  }
}

void WeightAverage::check_parameters(const std::vector<Optimizer*>& optimizers) const {
  std::set<const Parameter*> owned, held;
  for (const auto& parameter : model_.parameters()) owned.insert(parameter.get());
  for (Optimizer* optimizer : optimizers) {
    for (const auto& parameter : optimizer->arena().parameters()) {
      held.insert(parameter.get());
      if (owned.contains(parameter.get())) continue;
      throw Error(fmt::format(
          "[WeightAverage] an optimizer holds the parameter {}, which is not the model's",
          describe(parameter->name, parameter->value)));
    }
  }
  for (const auto& [name, parameter] : model_.named_parameters()) {
    if (held.contains(parameter.get()) || !parameter->requires_grad()) continue;
    throw Error(fmt::format(
        "[WeightAverage] the parameter {} learns, but none of the optimizers holds it; give the "
        "average all of the model's optimizers",
        describe(name, parameter->value)));
  }
}

void WeightAverage::add_arena(ParameterArena& arena) {
  const Part part{.arena = &arena, .average = arena.make_state()};
  for (size_t i = 0; i < arena.parameters().size(); ++i) {
    write(arena.state_of(part.average, i), arena.parameters()[i]->exact());
  }
  parts_.push_back(part);
}

// The buffers move into an arena, as an optimizer moves the parameters (Note [Arenas]), or have a
// copy there.
void WeightAverage::add_buffers() {
  std::vector<Tensor> floating;
  for (const NamedTensor& buffer : model_.named_buffers()) {
    if (!is_floating(buffer.tensor.dtype())) continue;
    floating.push_back(buffer.tensor);
    buffers_.push_back({.buffer = buffer});
  }
  if (buffers_.empty()) return;
  const Together together = move_together(floating);
  Part part{.values = together.block};
  std::vector<kernels::Segment> table;
  int64_t average_bytes = 0;
  for (const Tensor& place : together.places) {
    table.push_back({.value_offset = int64_t(place.byte_offset() - part.values.byte_offset()),
                     .state_offset = average_bytes,
                     .length = place.numel(),
                     .dtype = int64_t(place.dtype())});
    average_bytes += padded_bytes(place.numel() * int64_t(size_of(wide(place.dtype()))));
  }
  const Device device = model_.device();
  part.segments = Tensor::empty({int64_t(table.size()), kernels::segment_columns},
                                {.dtype = DType::i64, .device = device});
  part.average = Tensor::zeros({average_bytes}, {.dtype = DType::u8, .device = device});
  upload(part.segments, table.data());
  for (size_t i = 0; i < buffers_.size(); ++i) {
    auto& [buffer, place, average, moved] = buffers_[i];
    place = together.places[i];
    moved = together.moved[i];
    average =
        part.average.segment(place.shape(), size_t(table[i].state_offset), wide(place.dtype()));
    write(average, place);
  }
  parts_.push_back(part);
}

void WeightAverage::check_buffers() const {
  for (const auto& [buffer, place, average, moved] : buffers_) {
    if (!moved || buffer.tensor.shares_start(place)) continue;
    throw Error(
        fmt::format("[WeightAverage] the buffer {} lies in another place now, perhaps that of a "
                    "second average; a model has one",
                    describe(buffer.name, buffer.tensor)));
  }
}

// Before the kernels of an update.
void WeightAverage::prepare() const {
  if (in_model_) {
    throw Error(
        "[WeightAverage] the averages are in the model; update them when it has its own "
        "weights again");
  }
  check_buffers();
  for (const Part& part : parts_) {
    if (part.arena) part.arena->renew_masters();
  }
}

// Segments without length are averaged as little as a step that did not happen, which is not
// counted either.
void WeightAverage::update(const Tensor& is_finite) {
  const FunctionScope scope("weight average");
  const NoGrad no_grad;
  prepare();
  if (is_finite.defined() && (is_finite.dtype() != DType::boolean || is_finite.numel() != 1)) {
    throw ShapeError(
        fmt::format("[WeightAverage] is_finite is {}; wanted one boolean, as a StepGuard gives",
                    to_string(TensorView(is_finite))));
  }
  if (StepTrace* trace = StepTrace::current()) trace->before_replay([this] { prepare(); });
  for (const auto& [buffer, place, average, moved] : buffers_) {
    if (!moved) run(kernels::Copy{.x = buffer.tensor, .y = place});
  }
  if (!is_finite.defined()) return average_all(false);
  constexpr size_t column = offsetof(kernels::Segment, length) / sizeof(int64_t);
  run(kernels::Copy{.x = is_finite, .y = columns_.alias({}, column)});
  const Tensor before = updates_.clone();
  average_all(true);
  run(kernels::Select{.condition = is_finite, .a = updates_, .b = before, .y = updates_});
}

void WeightAverage::average_all(bool guarded) const {
  for (const Part& part : parts_) {
    Tensor segments = part.arena ? part.arena->segments() : part.segments;
    if (guarded) {
      const Tensor table =
          Tensor::empty(segments.shape(), {.dtype = segments.dtype(), .device = segments.device()});
      run(kernels::Select{.condition = columns_, .a = segments, .b = zero_, .y = table});
      segments = table;
    }
    run(kernels::AverageWeights{.values = part.arena ? part.arena->values() : part.values,
                                .masters = part.arena ? part.arena->masters() : Tensor(),
                                .average = part.average,
                                .updates = part.updates,
                                .segments = segments,
                                .decay = options_.decay,
                                .warm_up = options_.warm_up,
                                .uniform = options_.uniform});
  }
}

int64_t WeightAverage::updates() const { return parts_.front().updates.item<int64_t>(); }

void WeightAverage::write_averages() const {
  const NoGrad no_grad;
  for (const Part& part : parts_) {
    if (!part.arena) continue;
    const auto& parameters = part.arena->parameters();
    for (size_t i = 0; i < parameters.size(); ++i) {
      const Tensor average = part.arena->state_of(part.average, i);
      write(parameters[i]->value, average);
      if (size_of(parameters[i]->value.dtype()) == 2) parameters[i]->set_master(average);
    }
  }
  for (const auto& [buffer, place, average, moved] : buffers_) write(buffer.tensor, average);
}

AveragedWeights::AveragedWeights(WeightAverage& average)
    : average_(average), before_(average.model_) {
  if (average_.in_model_) {
    throw Error("[AveragedWeights] the averages are in the model already; one scope at a time");
  }
  average_.in_model_ = true;
  try {
    average_.write_averages();
  } catch (...) {
    put_back();
    throw;
  }
}

AveragedWeights::~AveragedWeights() { put_back(); }

void AveragedWeights::put_back() noexcept {
  average_.in_model_ = false;
  try {
    before_.restore();
  } catch (...) {
    // The device itself failed: there is nothing to put anything back into.
  }
}

}  // namespace adret
