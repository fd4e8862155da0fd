// Steps, epochs and evaluation.
#include <adret/autograd/grad_mode.h>
#include <adret/core/backend.h>
#include <adret/core/error.h>
#include <adret/core/random.h>
#include <adret/core/tensor_view.h>
#include <adret/layers/eval_mode.h>
#include <adret/train/metrics.h>
#include <adret/train/trainer.h>
#include <fmt/core.h>

#include <cmath>
#include <cstring>
#include <memory>
#include <utility>

namespace adret {
namespace {

// Other devices are asked for their losses this many batches late, as asking waits for them.
constexpr size_t batches_read_late = 32;

[[noreturn]] void throw_not_finite(const char* what, double value, int64_t epoch, int64_t batch) {
  throw Error(
      fmt::format("[fit] {} is {} in epoch {}, batch {}; lower the learning rate, clip the "
                  "gradients, or look at the data of that batch",
                  what, value, epoch, batch));
}

// Devices other than the CPU take labels as they come, and answer a wrong one with NaN.
void refuse_wrong_labels(const std::vector<int64_t>& labels, int64_t classes, int64_t epoch,
                         int64_t batch) {
  for (size_t i = 0; i < labels.size(); ++i) {
    if (labels[i] >= 0 && labels[i] < classes) continue;
    if (labels[i] == CrossEntropyOptions().ignore_index) continue;
    throw Error(fmt::format(
        "[fit] the loss is nan in epoch {}, batch {}: label {} of sample {} is outside 0..{} ({} "
        "classes)",
        epoch, batch, labels[i], i, classes - 1, classes));
  }
}

double read_scalar(const Tensor& scalar) {
  return scalar.dtype() == DType::f64 ? scalar.item<double>()
                                      : double(scalar.to(DType::f32).item());
}

// Replaces tensors on a device by copies on the CPU; the device is waited for once.
class Reader {
 public:
  explicit Reader(Device device) : device_(device) {}

  void read(std::vector<Tensor>& tensors) {
    const auto is_there = [&](const Tensor& tensor) {
      return !device_.is_cpu() && tensor.device() == device_;
    };
    size_t total = 0;
    for (const Tensor& tensor : tensors) total += is_there(tensor) ? place(tensor) : 0;
    if (total == 0) return;
    DeviceServices& services = backend_for(device_).services();
    if (total > room_) {
      buffer_ = services.host_buffer(total);
      room_ = total;
    }
    auto* to = static_cast<std::byte*>(buffer_->data());
    std::vector<MemoryCopy> copies;
    std::vector<Tensor*> copied;
    for (Tensor& tensor : tensors) {
      if (!is_there(tensor)) continue;
      copies.push_back({.to = to, .from = tensor.data(), .bytes = tensor.bytes()});
      copied.push_back(&tensor);
      to += place(tensor);
    }
    if (const Moment there = services.download(copies, services.now())) there->wait();
    for (size_t i = 0; i < copies.size(); ++i) {
      const Tensor copy = Tensor::empty(copied[i]->shape(), {.dtype = copied[i]->dtype()});
      if (copies[i].bytes) std::memcpy(copy.data(), copies[i].to, copies[i].bytes);
      *copied[i] = copy;
    }
  }

 private:
  static size_t place(const Tensor& tensor) { return (tensor.bytes() + 63) / 64 * 64; }

  Device device_;
  std::unique_ptr<HostBuffer> buffer_;
  size_t room_ = 0;
};

}  // namespace

// Loss and accuracy of an epoch, read from the device at once on the CPU and late elsewhere.
class Trainer::Statistics {
 public:
  // In training a loss that is not finite is an error; a mere evaluation reports it.
  Statistics(Device device, bool training)
      : device_(device), training_(training), reader_(device) {}

  Device device() const { return device_; }  // of the model
  void add(const Batch& batch, const Tensor& outputs, const Tensor& targets, const Tensor& loss) {
    if (loss.numel() != 1) {
      throw ShapeError(
          fmt::format("[fit] the loss function gave {}, wanted a scalar: the mean "
                      "over the batch",
                      to_string(TensorView(loss))));
    }
    const bool classes =
        outputs.rank() == 2 && targets.rank() == 1 && !is_floating(targets.dtype());
    batches_.push_back({batch.epoch, batch.number, batch.size(), classes});
    pending_.push_back(loss.detach());
    if (classes) pending_.insert(pending_.end(), {outputs.detach(), targets});
    if (loss.device().is_cpu() || batches_.size() >= batches_read_late) read();
  }
  void read() {
    const auto batches = std::exchange(batches_, {});
    std::vector<Tensor> tensors = std::exchange(pending_, {});
    reader_.read(tensors);
    auto next = tensors.begin();
    for (const auto& [epoch, number, samples, classes] : batches) {
      const double loss = read_scalar(*next++);
      const Tensor outputs = classes ? *next++ : Tensor(), targets = classes ? *next++ : Tensor();
      if (!std::isfinite(loss)) {
        if (classes && std::isnan(loss)) {
          refuse_wrong_labels(targets.to(DType::i64).to_vector<int64_t>(), outputs.size(1), epoch,
                              number);
        }
        if (training_) throw_not_finite("the loss", loss, epoch, number);
      }
      loss_.add(loss, samples);
      if (!classes) continue;
      const Hits hits = top_k_hits(outputs, targets);
      hits_.correct += hits.correct;
      hits_.samples += hits.samples;
    }
  }
  double loss() const { return loss_.value(); }
  std::optional<double> accuracy() const {
    return hits_.samples ? std::optional(hits_.rate()) : std::nullopt;
  }
  int64_t samples() const { return loss_.samples(); }

 private:
  struct Pending {
    int64_t epoch, number, samples;
    bool classes;  // its outputs and targets are logits and labels
  };
  Device device_;
  bool training_;
  Reader reader_;
  std::vector<Pending> batches_;
  std::vector<Tensor> pending_;  // of each batch the loss, and of classes outputs and targets
  Mean loss_;
  Hits hits_;
};

Trainer::Trainer(Module& model, Optimizer& optimizer, TrainerOptions options)
    : model_(model), optimizer_(optimizer), options_(std::move(options)) {
  if (options_.epochs < 1 || options_.first_epoch < 1 || !(options_.clip_norm >= 0)) {
    throw Error(
        fmt::format("[Trainer] wants epochs and first_epoch of 1 or more and a clip_norm not "
                    "negative, got {}, {} and {}",
                    options_.epochs, options_.first_epoch, options_.clip_norm));
  }
}

std::vector<EpochReport> Trainer::fit(const DataLoader& train, const TrainerCallbacks& callbacks) {
  return run(train, nullptr, callbacks);
}

std::vector<EpochReport> Trainer::fit(const DataLoader& train, const DataLoader& validation,
                                      const TrainerCallbacks& callbacks) {
  return run(train, &validation, callbacks);
}

std::vector<EpochReport> Trainer::run(const DataLoader& train, const DataLoader* validation,
                                      const TrainerCallbacks& callbacks) {
  const NameScope scope("fit");
  const GradMode recording(true);
  if (!model_.training()) model_.train();
  stopping_ = false;
  std::vector<EpochReport> reports;
  for (int64_t epoch = options_.first_epoch; epoch <= options_.epochs && !stopping_; ++epoch) {
    if (callbacks.on_epoch_begin) callbacks.on_epoch_begin(epoch);
    EpochReport report = train_epoch(train, epoch, callbacks);
    if (validation) {
      const Evaluation evaluation = evaluate(*validation);
      report.test_loss = evaluation.loss;
      report.test_accuracy = evaluation.accuracy;
    }
    reports.push_back(report);
    if (callbacks.on_epoch_end) callbacks.on_epoch_end(report);
  }
  return reports;
}

EpochReport Trainer::train_epoch(const DataLoader& loader, int64_t epoch,
                                 const TrainerCallbacks& callbacks) {
  const double start = options_.clock();
  Statistics statistics(model_.device(), true);
  int64_t samples = 0;
  for (const Batch& batch : loader.epoch(epoch)) {
    train_step(batch, (epoch - 1) * loader.batches() + batch.number, statistics);
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
  return {.epoch = epoch,
          .train_loss = statistics.loss(),
          .train_accuracy = statistics.accuracy(),
          .images_per_s = seconds > 0 ? double(samples) / seconds : 0,
          .seconds = seconds};
}

void Trainer::train_step(const Batch& batch, int64_t step, Statistics& statistics) {
  random::begin_step(step);
  optimizer_.zero_grad();
  const Tensor targets = batch.targets.to(statistics.device());
  const Tensor outputs = model_.call(batch.inputs.to(statistics.device()));
  const Tensor loss = options_.loss(outputs, targets);
  statistics.add(batch, outputs, targets, loss);
  loss.backward();
  if (options_.clip_norm > 0) {
    const double norm = optimizer_.clip_norm(options_.clip_norm).item<double>();
    if (!std::isfinite(norm)) {
      throw_not_finite("the norm of the gradients", norm, batch.epoch, batch.number);
    }
  }
  if (options_.schedule) optimizer_.set_lr(options_.schedule(step));
  optimizer_.step();
}

Evaluation Trainer::evaluate(const DataLoader& loader) {
  const NameScope scope("evaluate");
  const NoGrad no_grad;
  const EvalMode evaluation(model_);
  Statistics statistics(model_.device(), false);
  for (const Batch& batch : loader.epoch(0)) {
    const Tensor targets = batch.targets.to(statistics.device());
    const Tensor outputs = model_.call(batch.inputs.to(statistics.device()));
    statistics.add(batch, outputs, targets, options_.loss(outputs, targets));
  }
  statistics.read();
  return {.loss = statistics.loss(),
          .accuracy = statistics.accuracy(),
          .samples = statistics.samples()};
}

}  // namespace adret
