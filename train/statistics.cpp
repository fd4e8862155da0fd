// Loss and accuracy of an epoch.
#include <adret/autograd/ops/loss.h>
#include <adret/core/error.h>
#include <adret/core/tensor_view.h>
#include <adret/train/statistics.h>
#include <fmt/core.h>

#include <cmath>
#include <cstring>
#include <utility>

namespace adret {
namespace {

// Other devices are asked for their losses this many batches late, as asking waits for them.
constexpr size_t batches_read_late = 32;

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

// The sign of a NaN says nothing.
std::string text_of(double value) { return std::isnan(value) ? "nan" : fmt::format("{}", value); }

size_t place(const Tensor& tensor) { return (tensor.bytes() + 63) / 64 * 64; }

}  // namespace

void DeviceReader::read(std::vector<Tensor>& tensors) {
  const auto is_there = [&](const Tensor& tensor) {
    return !device_.is_cpu() && tensor.defined() && tensor.device() == device_;
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

NotFinite::NotFinite(const std::string& what, int64_t epoch, int64_t number)
    : Error(fmt::format("[fit] {} in epoch {}, batch {}", what, epoch, number)),
      epoch(epoch),
      number(number) {}

bool Statistics::are_classes(const Tensor& outputs, const Tensor& targets) const {
  if (outputs.rank() != 2 || !is_floating(outputs.dtype())) return false;
  if (!is_floating(targets.dtype())) return targets.rank() == 1;
  return outputs.size(1) == options_.classes && targets.shape() == outputs.shape();
}

void check_loss(const Tensor& loss) {
  if (loss.numel() == 1) return;
  throw ShapeError(
      fmt::format("[fit] the loss function gave {}, wanted a scalar: the mean "
                  "over the batch",
                  to_string(TensorView(loss))));
}

void Statistics::add(const Batch& batch, const BatchResults& results) {
  check_loss(results.loss);
  const bool of_classes = are_classes(results.outputs, results.targets);
  losses_.push_back({.epoch = batch.epoch,
                     .number = batch.number,
                     .samples = batch.size(),
                     .of_classes = of_classes,
                     .value = results.loss.detach(),
                     .outputs = of_classes ? results.outputs.detach() : Tensor(),
                     .targets = of_classes ? results.targets : Tensor(),
                     .is_finite = results.is_finite,
                     .ends_step = results.ends_step});
  read_if_due(results.loss);
}

void Statistics::add_norm(const Batch& batch, const Tensor& norm) {
  norms_.push_back({.epoch = batch.epoch, .number = batch.number, .value = norm});
  read_if_due(norm);
}

void Statistics::read_if_due(const Tensor& latest) {
  if (latest.device().is_cpu() || losses_.size() >= batches_read_late) read();
}

void Statistics::read() {
  std::vector<Pending> losses = std::exchange(losses_, {}), norms = std::exchange(norms_, {});
  std::vector<Tensor> tensors;
  for (std::vector<Pending>* list : {&losses, &norms}) {
    for (const Pending& one : *list) {
      tensors.insert(tensors.end(), {one.value, one.outputs, one.targets, one.is_finite});
    }
  }
  reader_.read(tensors);
  auto next = tensors.begin();
  for (std::vector<Pending>* list : {&losses, &norms}) {
    for (Pending& one : *list) {
      one.value = *next++;
      one.outputs = *next++;
      one.targets = *next++;
      one.is_finite = *next++;
    }
  }
  for (const Pending& batch : losses) take_loss(batch);
  for (const Pending& step : norms) {
    const double norm = read_scalar(step.value);
    if (!std::isfinite(norm)) {
      throw NotFinite("the norm of the gradients is " + text_of(norm), step.epoch, step.number);
    }
  }
}

void Statistics::take_loss(const Pending& batch) {
  const double loss = read_scalar(batch.value);
  if (std::isnan(loss) && batch.of_classes && !is_floating(batch.targets.dtype())) {
    refuse_wrong_labels(batch.targets.to(DType::i64).to_vector<int64_t>(), batch.outputs.size(1),
                        batch.epoch, batch.number);
  }
  const bool finite = !batch.is_finite.defined() || batch.is_finite.item<bool>();
  if (options_.training && !options_.skips && !(finite && std::isfinite(loss))) {
    const std::string gradient = options_.clips ? "a gradient, or the norm of all, is not finite"
                                                : "a gradient is not finite";
    throw NotFinite(std::isfinite(loss) ? gradient : "the loss is " + text_of(loss), batch.epoch,
                    batch.number);
  }
  if (!finite && batch.ends_step) ++skipped_;
  if (options_.skips && !(finite && std::isfinite(loss))) return;
  loss_.add(loss, batch.samples);
  if (!batch.of_classes) return;
  const Hits hits = top_k_hits(batch.outputs, batch.targets);
  hits_.correct += hits.correct;
  hits_.samples += hits.samples;
}

}  // namespace adret
