// A step that was not finite, made again with checks on.
#include <adret/core/decorators/find_nonfinite.h>
#include <adret/core/random.h>
#include <adret/optim/clip.h>
#include <adret/train/training_step.h>
#include <fmt/format.h>

#include <exception>

namespace adret {
namespace {

// "0.1", or those of all groups of all optimizers.
std::string rates_of(const std::vector<ScheduledOptimizer>& optimizers) {
  std::vector<double> rates;
  for (const ScheduledOptimizer& one : optimizers) {
    for (size_t group = 0; group < one.optimizer.group_count(); ++group) {
      rates.push_back(one.optimizer.lr(group));
    }
  }
  return fmt::format("{}", fmt::join(rates, ", "));
}

}  // namespace

// What the data set, forward and backward under the finder, or the norm of the gradients throw in
// the batches of the step up to the one found, and the samples of the last that was made; empty:
// nothing.
std::string TrainingStep::cause(const DataLoader& loader, const NotFinite& found,
                                std::vector<int64_t>& samples) {
  const Device device = model_.device();
  const int64_t first = found.number / options_.accumulate * options_.accumulate;
  try {
    for (int64_t number = first; number <= found.number; ++number) {
      const Batch batch = loader.batch(found.epoch, number);
      samples = batch.indices;
      part_ = step_part(loader, options_.accumulate, found.epoch, number);
      random::begin_step(part_.batch);
      const Tensor inputs = batch.inputs.to(device), targets = batch.targets.to(device);
      const FindNonFinite find({.at_once = false});
      const Tensor loss = forward(inputs, targets).loss;
      backward(loss);
      find.check(loss, "the loss");
      for (const auto& [name, parameter] : model_.named_parameters()) {
        const Tensor gradient = parameter->value.grad();
        if (gradient.defined()) find.check(gradient, "the gradient of " + name);
      }
    }
    if (!part_.last || options_.clip_norm <= 0) return {};
    clip_norm(all_of(optimizers_), options_.clip_norm, {.error_if_nonfinite = true});
  } catch (const std::exception& error) {
    return error.what();
  }
  return {};
}

std::string TrainingStep::explain(const DataLoader& loader, const NotFinite& found) {
  const StepPart last = step_part(loader, options_.accumulate, found.epoch, found.number);
  set_rates(last.step);
  with_.guard->begin();
  std::vector<int64_t> samples;
  std::string cause_text = cause(loader, found, samples);
  with_.guard->abandon();
  for (const ScheduledOptimizer& one : optimizers_) one.optimizer.zero_grad();
  if (cause_text.empty()) {
    cause_text = "all was finite, so data, model or rounding differ from one run to the next";
  }
  return fmt::format(
      "{}; nothing was changed by step {}, of learning rate {}. Made again with checks: {}. The "
      "batch's samples are {}",
      found.what(), last.step, rates_of(optimizers_), cause_text, fmt::join(samples, ", "));
}

}  // namespace adret
