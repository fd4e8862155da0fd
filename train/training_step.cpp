// Forward, backward and the optimizers' step.
#include <adret/autograd/ops/arithmetic.h>
#include <adret/core/random.h>
#include <adret/optim/clip.h>
#include <adret/train/training_step.h>

#include <algorithm>
#include <utility>

namespace adret {

std::vector<Optimizer*> all_of(const std::vector<ScheduledOptimizer>& optimizers) {
  std::vector<Optimizer*> all;
  for (const ScheduledOptimizer& one : optimizers) all.push_back(&one.optimizer);
  return all;
}

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
                           const TrainerOptions& options, const Helpers& helpers)
    : model_(model),
      optimizers_(optimizers),
      options_(options),
      with_(helpers),
      step_(
          [this](const Tensor& inputs, const Tensor& targets) {
            Results results = learn(inputs, targets, [](const Results&) {});
            std::vector<Tensor> list = {std::move(results.outputs), std::move(results.loss)};
            if (with_.guard) list.push_back(std::move(results.is_finite));
            if (results.norm.defined()) list.push_back(std::move(results.norm));
            return list;
          },
          {.mode = options.mode}) {
  if (with_.guard) with_.guard->find_buffers();  // the average has moved some
}

bool TrainingStep::is_eager() const {
  return options_.mode == StepMode::eager ||
         (options_.mode == StepMode::automatic && model_.device().is_cpu());
}

void TrainingStep::run(const Batch& batch, const StepPart& part, Statistics& statistics) {
  // Not in the recorded step, so that each replay begins with it.
  if (with_.guard && part.first) with_.guard->begin();
  random::begin_step(part.batch);
  if (part.last) set_rates(part.step);
  part_ = part;
  const Device device = model_.device();
  const Tensor inputs = batch.inputs.to(device), targets = batch.targets.to(device);
  if (!is_eager()) {
    const std::vector<Tensor> list = step_.run({inputs, targets}, variant_of(part));
    // A guard's is_finite() or the norm, if either.
    const Tensor third = list.size() > 2 ? list[2] : Tensor();
    add(batch, {.outputs = list[0], .loss = list[1], .is_finite = with_.guard ? third : Tensor()},
        targets, statistics);
    if (!with_.guard && third.defined()) statistics.add_norm(batch, third);
  } else if (with_.guard) {
    Results results = learn(inputs, targets, [](const Results&) {});
    if (!device.is_cpu()) results.is_finite = results.is_finite.clone();  // it is read late
    add(batch, results, targets, statistics);
  } else {
    // So that what is bad need not reach the weights, where the host sees it at once.
    learn(inputs, targets, [&](const Results& results) {
      if (!results.norm.defined()) return add(batch, results, targets, statistics);
      statistics.add_norm(batch, results.norm);
    });
  }
}

void TrainingStep::add(const Batch& batch, const Results& results, const Tensor& targets,
                       Statistics& statistics) const {
  statistics.add(batch, {.outputs = results.outputs,
                         .targets = targets,
                         .loss = results.loss,
                         .is_finite = results.is_finite,
                         .ends_step = part_.last});
}

TrainingStep::Results TrainingStep::forward(const Tensor& inputs, const Tensor& targets) {
  if (part_.first) {
    for (const ScheduledOptimizer& one : optimizers_) one.optimizer.zero_grad();
  }
  Results results{.outputs = model_.call(inputs)};
  results.loss = options_.loss(results.outputs, targets);
  check_loss(results.loss);
  return results;
}

void TrainingStep::backward(const Tensor& loss) {
  const Tensor share = part_.weight == 1 ? loss : loss * part_.weight;
  (with_.scaler ? with_.scaler->scale(share) : share).backward();
}

TrainingStep::Results TrainingStep::learn(const Tensor& inputs, const Tensor& targets,
                                          const Look& look) {
  StepGuard* const guard = with_.guard;
  Results results = forward(inputs, targets);
  look(results);
  backward(results.loss);
  if (guard) guard->add_loss(results.loss);
  if (part_.last) {
    update(results, look);
  } else if (guard) {
    results.is_finite = guard->is_finite();
  }
  return results;
}

void TrainingStep::update(Results& results, const Look& look) {
  if (with_.scaler) with_.scaler->unscale();
  if (with_.guard) results.is_finite = with_.guard->decide();
  if (options_.clip_norm > 0) {
    const Tensor norm = clip_norm(all_of(optimizers_), options_.clip_norm);
    if (with_.guard) {
      results.is_finite = with_.guard->add_norm(norm);
    } else {
      results.norm = norm;
      look(results);
    }
  }
  for (const ScheduledOptimizer& one : optimizers_) one.optimizer.step();
  if (with_.average) with_.average->update(results.is_finite);
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
