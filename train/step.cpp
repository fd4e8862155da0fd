// Forward, backward and the optimizers' step.
#include <adret/autograd/ops/arithmetic.h>
#include <adret/core/random.h>
#include <adret/train/step.h>

#include <algorithm>

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

void TrainingStep::run(const Batch& batch, const StepPart& part, Statistics& statistics) {
  random::begin_step(part.batch);
  if (part.first) {
    for (const ScheduledOptimizer& one : optimizers_) one.optimizer.zero_grad();
  }
  const Device device = model_.device();
  const Tensor targets = batch.targets.to(device);
  const Tensor outputs = model_.call(batch.inputs.to(device));
  const Tensor loss = options_.loss(outputs, targets);
  statistics.add(batch, outputs, targets, loss);
  const Tensor share = part.weight == 1 ? loss : loss * part.weight;
  (scaler_ ? scaler_->scale(share) : share).backward();
  if (part.last) update(batch, part.step, statistics);
}

void TrainingStep::update(const Batch& batch, int64_t step, Statistics& statistics) {
  if (scaler_) scaler_->unscale();
  for (const auto& [optimizer, schedule] : optimizers_) {
    if (options_.clip_norm > 0) statistics.add_norm(batch, optimizer.clip_norm(options_.clip_norm));
    if (schedule) optimizer.set_lr(schedule(step));
    optimizer.step();
  }
  if (average_) average_->update();
}

}  // namespace adret
