// Averages in arenas beside the optimizers', and their way into the model.
#include <adret/autograd/grad_mode.h>
#include <adret/autograd/ops/inplace.h>
#include <adret/autograd/step_trace.h>
#include <adret/core/error.h>
#include <adret/core/kernels/kernel.h>
#include <adret/train/weight_average.h>
#include <fmt/core.h>

#include <algorithm>
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
  check_parameters(optimizers);
  for (Optimizer* optimizer : optimizers) add_arena(optimizer->arena());
  add_buffers();
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
  Part part{.arena = &arena, .average = arena.make_state()};
  part.updates = Tensor::zeros({}, {.dtype = DType::i64, .device = arena.device()});
  for (size_t i = 0; i < arena.parameters().size(); ++i) {
    write(arena.state_of(part.average, i), arena.parameters()[i]->exact());
  }
  parts_.push_back(std::move(part));
}

// The buffers move into an arena, as an optimizer moves the parameters (Note [Arenas]).
void WeightAverage::add_buffers() {
  std::vector<kernels::Segment> table;
  int64_t value_bytes = 0, average_bytes = 0;
  const auto behind = [](int64_t bytes, DType dtype, int64_t length) {
    return bytes + (length * int64_t(size_of(dtype)) + 511) / 512 * 512;
  };
  for (const NamedTensor& buffer : model_.named_buffers()) {
    const DType dtype = buffer.tensor.dtype();
    if (!is_floating(dtype)) continue;
    const int64_t length = buffer.tensor.numel();
    table.push_back({.value_offset = value_bytes,
                     .state_offset = average_bytes,
                     .length = length,
                     .dtype = int64_t(dtype)});
    value_bytes = behind(value_bytes, dtype, length);
    average_bytes = behind(average_bytes, wide(dtype), length);
    buffers_.push_back({.buffer = buffer});
  }
  if (buffers_.empty()) return;
  const Device device = model_.device();
  const TensorOptions bytes{.dtype = DType::u8, .device = device},
      words{.dtype = DType::i64, .device = device};
  const Part part{
      .values = Tensor::zeros({value_bytes}, bytes),
      .segments = Tensor::empty({int64_t(table.size()), kernels::segment_columns}, words),
      .average = Tensor::zeros({average_bytes}, bytes),
      .updates = Tensor::zeros({}, words)};
  upload(part.segments, table.data());
  for (size_t i = 0; i < buffers_.size(); ++i) {
    auto& [buffer, place, average] = buffers_[i];
    const Tensor& tensor = buffer.tensor;
    place = part.values.segment(tensor.shape(), size_t(table[i].value_offset), tensor.dtype());
    average =
        part.average.segment(tensor.shape(), size_t(table[i].state_offset), wide(tensor.dtype()));
    write(place, tensor);
    write(average, tensor);
    tensor.rebind(place);
  }
  structure_changed();
  parts_.push_back(part);
}

void WeightAverage::check_buffers() const {
  for (const auto& [buffer, place, average] : buffers_) {
    if (buffer.tensor.shares_start(place)) continue;
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

void WeightAverage::update() {
  const FunctionScope scope("weight average");
  prepare();
  if (StepTrace* trace = StepTrace::current()) trace->before_replay([this] { prepare(); });
  for (const Part& part : parts_) {
    run(kernels::AverageWeights{.values = part.arena ? part.arena->values() : part.values,
                                .masters = part.arena ? part.arena->masters() : Tensor(),
                                .average = part.average,
                                .updates = part.updates,
                                .segments = part.arena ? part.arena->segments() : part.segments,
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
  for (const auto& [buffer, place, average] : buffers_) write(buffer.tensor, average);
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
