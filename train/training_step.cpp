// Forward, backward and the optimizers' step.
#include <adret/autograd/ops/arithmetic.h>
#include <adret/core/random.h>
#include <adret/train/training_step.h>

#include <algorithm>
#include <utility>

namespace adret {

StepPart step_part(const DataLoader& loader, int64_t accumulate, int64_t epoch, int64_t number) {
  const int64_t batches = loader.batches(), steps = (batches + accumulate - 1) / accumulate;
  const int64_t first = number / accumulate * accumulate,
                last = std::min(first + accumulate, batches) - 1;
  const int64_t batch_size = loader.options().batch_size;
  const auto samples_before = [&](int64_t batch) {
    return std::min(batch * batch_size, loader.samples());
  };
  return {.step = (epoch - 1) * steps + number / accumulate,
          .batch = (epoch - 1) * batches + number,
          .weight = double(samples_before(number + 1) - samples_before(number)) /
                    double(samples_before(last + 1) - samples_before(first)),
          .first = number == first,
          .last = number == last};
}

TrainingStep::TrainingStep(Module& model, const std::vector<ScheduledOptimizer>& optimizers,
                           const TrainerOptions& options, LossScaler* scaler,
                           WeightAverage* average)
    : model_(model),
      optimizers_(optimizers),
      options_(options),
      scaler_(scaler),
      average_(average),
      step_(
          [this](const Tensor& inputs, const Tensor& targets) {
            Results results = learn(inputs, targets, [](const Results&) {});
            std::vector<Tensor> list = {std::move(results.outputs), std::move(results.loss)};
            list.insert(list.end(), results.norms.begin(), results.norms.end());
            return list;
          },
          {.mode = options.mode}) {}

// The CPU has a loss as soon as it is computed, so that a bad one need not reach the weights.
bool TrainingStep::looks_between() const {
  return options_.mode == StepMode::eager ||
         (options_.mode == StepMode::automatic && model_.device().is_cpu());
}

void TrainingStep::run(const Batch& batch, const StepPart& part, Statistics& statistics) {
  random::begin_step(part.batch);
  if (part.last) set_rates(part.step);
  part_ = part;
  const Device device = model_.device();
  const Tensor inputs = batch.inputs.to(device), targets = batch.targets.to(device);
  if (looks_between()) {
    size_t norms = 0;
    learn(inputs, targets, [&](const Results& results) {
      if (results.norms.empty())
        return statistics.add(batch, results.outputs, targets, results.loss);
      statistics.add_norm(batch, results.norms[norms++]);
    });
    return;
  }
  const std::vector<Tensor> results = step_.run({inputs, targets}, variant_of(part));
  statistics.add(batch, results[0], targets, results[1]);
  for (size_t i = 2; i < results.size(); ++i) statistics.add_norm(batch, results[i]);
}

TrainingStep::Results TrainingStep::learn(const Tensor& inputs, const Tensor& targets,
                                          const Look& look) {
  if (part_.first) {
    for (const ScheduledOptimizer& one : optimizers_) one.optimizer.zero_grad();
  }
  Results results{.outputs = model_.call(inputs)};
  results.loss = options_.loss(results.outputs, targets);
  check_loss(results.loss);
  look(results);
  const Tensor share = part_.weight == 1 ? results.loss : results.loss * part_.weight;
  (scaler_ ? scaler_->scale(share) : share).backward();
  if (part_.last) update(results, look);
  return results;
}

void TrainingStep::update(Results& results, const Look& look) {
  if (scaler_) scaler_->unscale();
  for (const ScheduledOptimizer& one : optimizers_) {
    if (options_.clip_norm > 0) {
      results.norms.push_back(one.optimizer.clip_norm(options_.clip_norm));
      look(results);
    }
    one.optimizer.step();
  }
  if (average_) average_->update();
}

void TrainingStep::set_rates(int64_t step) {
  for (const auto& [optimizer, schedule] : optimizers_) {
    if (schedule) optimizer.set_lr(schedule(step));
  }
}

// Batches are alike that take the same part in a step.
int64_t TrainingStep::variant_of(const StepPart& part) {
  const auto alike = [&](const StepPart& other) {
    return other.weight == part.weight && other.first == part.first && other.last == part.last;
  };
  const auto it = std::ranges::find_if(variants_, alike);
  const auto index = it - variants_.begin();
  if (it == variants_.end()) variants_.push_back(part);
  return index;
}

}  // namespace adret
