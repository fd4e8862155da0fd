// Epochs and evaluation.
#include <adret/autograd/grad_mode.h>
#include <adret/core/error.h>
#include <adret/layers/eval_mode.h>
#include <adret/train/atomic_file.h>
#include <adret/train/statistics.h>
#include <adret/train/trainer.h>
#include <adret/train/training_step.h>
#include <adret/train/update_batch_norm.h>
#include <adret/train/weights.h>
#include <fmt/core.h>

#include <algorithm>
#include <filesystem>
#include <system_error>
#include <utility>

namespace adret {
namespace {

TrainerOptions checked(TrainerOptions options) {
  if (options.epochs < 1 || options.first_epoch < 1 || !(options.clip_norm >= 0)) {
    throw Error(
        fmt::format("[Trainer] wants epochs and first_epoch of 1 or more and a clip_norm not "
                    "negative, got {}, {} and {}",
                    options.epochs, options.first_epoch, options.clip_norm));
  }
  if (!options.loss || !options.clock) {
    throw Error(fmt::format("[Trainer] the {} is empty; leave it out for the usual one",
                            options.loss ? "clock" : "loss"));
  }
  if (options.accumulate < 1) {
    throw Error(fmt::format("[Trainer] accumulate is {}; a step takes at least 1 batch",
                            options.accumulate));
  }
  if (options.average_from < 1) {
    throw Error(
        fmt::format("[Trainer] average_from is {}; epochs count from 1", options.average_from));
  }
  if (options.early_stopping &&
      (options.early_stopping->patience < 1 || !(options.early_stopping->min_delta >= 0))) {
    throw Error(fmt::format(
        "[Trainer] early_stopping wants a patience of 1 epoch or more and a min_delta not "
        "negative, got {} and {}",
        options.early_stopping->patience, options.early_stopping->min_delta));
  }
  return options;
}

TrainerOptions without_schedule(TrainerOptions options) {
  options.schedule = {};
  return options;
}

void check_optimizers(size_t count, const TrainerOptions& options) {
  if (count == 0) throw Error("[Trainer] the list of optimizers is empty; give at least one");
  if (options.schedule) {
    throw Error(
        "[Trainer] the options have a schedule beside a list of optimizers, each of which has its "
        "own; put it into the list");
  }
  if (count > 1 && options.loss_scale) {
    throw Error(
        fmt::format("[Trainer] loss_scale wants the gradients of all parameters in one optimizer, "
                    "got {} optimizers; use one with several groups, or train in bf16",
                    count));
  }
}

// So that no epoch is lost to a path that cannot be written to.
void check_can_save(const std::filesystem::path& path) {
  const auto folder = path.has_parent_path() ? path.parent_path() : std::filesystem::path(".");
  std::error_code ignored;
  if (!std::filesystem::is_directory(folder, ignored)) {
    throw CheckpointError(
        fmt::format("[fit] the best weights go to {}, but there is no folder {}; create it first",
                    path.string(), folder.string()));
  }
  const AtomicFile creates_and_removes(path);
}

}  // namespace

Trainer::Trainer(Module& model, Optimizer& optimizer, TrainerOptions options)
    : Trainer(model, {{optimizer, options.schedule}}, without_schedule(options)) {}

Trainer::Trainer(Module& model, std::vector<ScheduledOptimizer> optimizers, TrainerOptions options)
    : model_(model), options_(checked(std::move(options))), optimizers_(std::move(optimizers)) {
  check_optimizers(optimizers_.size(), options_);
  const std::vector<Optimizer*> all = all_of(optimizers_);
  adret::check_optimizers("Trainer", all);
  if (options_.loss_scale) {
    scaler_.emplace(*all[0], *options_.loss_scale);
  } else if (options_.non_finite != NonFinite::unguarded) {
    guard_.emplace(
        model, all,
        StepGuardOptions{.continue_after_failure = options_.non_finite == NonFinite::skip});
  }
  if (options_.average) average_.emplace(model, all, *options_.average);
  step_ = std::make_unique<TrainingStep>(
      model_, optimizers_, options_,
      TrainingStep::Helpers{.scaler = loss_scaler(),
                            .guard = guard(),
                            .average = averages_epochs() ? nullptr : average()});
}

Trainer::~Trainer() = default;

const StepReport& Trainer::step_report() const { return step_->report(); }

std::vector<EpochReport> Trainer::fit(const DataLoader& train, const TrainerCallbacks& callbacks) {
  return run(train, nullptr, callbacks);
}

std::vector<EpochReport> Trainer::fit(const DataLoader& train, const DataLoader& validation,
                                      const TrainerCallbacks& callbacks) {
  return run(train, &validation, callbacks);
}

std::vector<EpochReport> Trainer::run(const DataLoader& train, const DataLoader* validation,
                                      const TrainerCallbacks& callbacks) {
  if (!validation && (options_.early_stopping || options_.best_weights)) {
    throw Error(
        "[fit] early_stopping and best_weights go by the evaluation; give a validation set");
  }
  if (options_.best_weights && !options_.best_weights->path.empty()) {
    check_can_save(options_.best_weights->path);
  }
  const NameScope scope("fit");
  const GradMode recording(true);
  if (!model_.training()) model_.train();
  stopping_ = false;
  if (guard_) guard_->reset();
  best_weights_.reset();
  if (const auto& options = options_.early_stopping)
    patience_.emplace(options->metric, options->min_delta);
  if (const auto& options = options_.best_weights) best_.emplace(options->metric);
  std::vector<EpochReport> reports;
  for (int64_t epoch = options_.first_epoch; epoch <= options_.epochs && !stopping_; ++epoch) {
    if (callbacks.on_epoch_begin) callbacks.on_epoch_begin(epoch);
    EpochReport report = train_epoch(train, epoch, callbacks);
    if (averages_epochs() && epoch >= options_.average_from) average_->update();
    if (validation) judge(train, *validation, report);
    reports.push_back(report);
    if (callbacks.on_epoch_end) callbacks.on_epoch_end(report);
  }
  if (best_weights_ && options_.best_weights->restore) best_weights_->restore();
  best_weights_.reset();
  return reports;
}

EpochReport Trainer::train_epoch(const DataLoader& loader, int64_t epoch,
                                 const TrainerCallbacks& callbacks) {
  try {
    return make_steps(loader, epoch, callbacks);
  } catch (const NotFinite& found) {
    step_->abandon();
    if (guard_) throw Error(step_->explain(loader, found));
    throw Error(
        fmt::format("{}; lower the learning rate, clip the gradients, or look at the data of that "
                    "batch",
                    found.what()));
  } catch (...) {
    step_->abandon();
    throw;
  }
}

EpochReport Trainer::make_steps(const DataLoader& loader, int64_t epoch,
                                const TrainerCallbacks& callbacks) {
  const double start = options_.clock();
  const LossScaleState scale = scaler_ ? scaler_->state() : LossScaleState();
  const bool skips = guard_ && options_.non_finite == NonFinite::skip;
  Statistics statistics({.device = model_.device(),
                         .classes = loader.dataset().num_classes(),
                         .skips = skips,
                         .clips = options_.clip_norm > 0});
  int64_t samples = 0;
  DataLoader::Epoch batches = loader.epoch(epoch);
  for (const Batch& batch : batches) {
    step_->run(batch, step_part(loader, options_.accumulate, epoch, batch.number), statistics);
    samples += batch.size();
    if (!callbacks.on_batch_end) continue;
    callbacks.on_batch_end({.epoch = epoch,
                            .epochs = options_.epochs,
                            .batch = batch.number,
                            .batches = loader.batches(),
                            .samples = samples,
                            .samples_of_epoch = loader.samples(),
                            .loss = statistics.loss(),
                            .accuracy = statistics.accuracy()});
  }
  statistics.read();
  const double seconds = options_.clock() - start;
  EpochReport report{
      .epoch = epoch,
      .train_loss = statistics.loss(),
      .train_accuracy = statistics.accuracy(),
      .images_per_s = seconds > 0 ? double(samples) / seconds : 0,
      .seconds = seconds,
      .waiting = seconds > 0 ? std::clamp(batches.waited_seconds() / seconds, 0.0, 1.0) : 0};
  const int64_t steps = (loader.batches() - 1) / options_.accumulate + 1;
  if (scaler_) count_skipped(report, scale, steps);
  if (skips) report.skipped_steps = statistics.skipped_steps();
  if (skips && statistics.skipped_steps() == steps) {
    throw Error(
        fmt::format("[fit] no step of epoch {} had a finite loss and finite gradients; set "
                    "non_finite to NonFinite::stop to learn why",
                    epoch));
  }
  return report;
}

void Trainer::count_skipped(EpochReport& report, const LossScaleState& before,
                            int64_t steps) const {
  report.skipped_steps = scaler_->skipped_steps() - before.skipped_steps;
  if (report.skipped_steps < steps || before.scale > scaler_->options().lowest) return;
  throw Error(
      fmt::format("[fit] no step of epoch {} had finite gradients, at the lowest loss scale of {} "
                  "either; train in bf16 or f32, or lower the learning rate",
                  report.epoch, before.scale));
}

// Evaluates the weights behind an epoch, or their averages.
void Trainer::judge(const DataLoader& train, const DataLoader& validation, EpochReport& report) {
  std::optional<AveragedWeights> averaged;
  const bool any = !averages_epochs() || report.epoch >= options_.average_from;
  if (average_ && any) averaged.emplace(*average_);
  if (averaged && averages_epochs()) update_batch_norm(model_, train);
  const Evaluation evaluation = evaluate(validation);
  report.test_loss = evaluation.loss;
  report.test_accuracy = evaluation.accuracy;
  const bool better = patience_ && patience_->add(report.epoch, evaluation);
  const bool keep = best_ && best_->add(report.epoch, evaluation);
  report.best = best_ ? keep : better;
  if (keep) keep_best(report);
  if (patience_ && patience_->epochs_since() >= options_.early_stopping->patience) stopping_ = true;
}

void Trainer::keep_best(EpochReport& report) {
  const BestWeightsOptions& options = *options_.best_weights;
  if (options.restore) best_weights_ = std::make_unique<Snapshot>(model_);
  if (!options.path.empty()) {
    save_weights(model_, options.path, {{"epoch", std::to_string(report.epoch)}});
  }
}

Evaluation Trainer::evaluate(const DataLoader& loader) {
  const NameScope scope("evaluate");
  const NoGrad no_grad;
  const EvalMode evaluation(model_);
  const Device device = model_.device();
  Statistics statistics(
      {.device = device, .training = false, .classes = loader.dataset().num_classes()});
  for (const Batch& batch : loader.epoch(0)) {
    const Tensor targets = batch.targets.to(device);
    const Tensor outputs = model_.call(batch.inputs.to(device));
    statistics.add(
        batch, {.outputs = outputs, .targets = targets, .loss = options_.loss(outputs, targets)});
  }
  statistics.read();
  return {.loss = statistics.loss(),
          .accuracy = statistics.accuracy(),
          .samples = statistics.samples()};
}

}  // namespace adret
