// Loss and accuracy of an epoch, read from the device late so that it is not waited for.
#pragma once

#include <adret/core/backend.h>
#include <adret/core/error.h>
#include <adret/data/dataset.h>
#include <adret/train/metrics.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace adret {

// Replaces tensors on a device by copies on the CPU; the device is waited for once.
class DeviceReader {
 public:
  explicit DeviceReader(Device device) : device_(device) {}
  void read(std::vector<Tensor>& tensors);

 private:
  Device device_;
  std::unique_ptr<HostBuffer> buffer_;
  size_t room_ = 0;
};

struct StatisticsOptions {
  Device device;         // of the model
  bool training = true;  // a loss that is not finite is an error; a mere evaluation reports it
  int64_t classes = 0;   // of the data set; 0: floating targets are no shares of classes
  bool skips = false;    // a step that is not finite is counted, its loss is not
  bool clips = false;    // gradients are clipped, by a norm that has to be finite too
};

// What a batch gave.
struct BatchResults {
  Tensor outputs, targets, loss;
  Tensor is_finite = {};  // a boolean scalar (StepGuard::is_finite), or undefined
  bool ends_step = true;
};

// A batch of a training was not finite.
class NotFinite : public Error {
 public:
  NotFinite(const std::string& what, int64_t epoch, int64_t number);
  int64_t epoch, number;
};

// Throws ShapeError for a loss that is no scalar.
void check_loss(const Tensor& loss);

// What is added is read at once on the CPU, and in groups of batches elsewhere. Errors name epoch
// and batch.
class Statistics {
 public:
  explicit Statistics(const StatisticsOptions& options)
      : options_(options), reader_(options.device) {}

  // Throws ShapeError as check_loss.
  void add(const Batch& batch, const BatchResults& results);
  // The norm of the gradients of the step that ends with the batch; it has to be finite.
  void add_norm(const Batch& batch, const Tensor& norm);
  // Reads what is left. Throws NotFinite for the first loss, step or norm that is not.
  void read();

  double loss() const { return loss_.value(); }
  std::optional<double> accuracy() const {
    return hits_.samples ? std::optional(hits_.rate()) : std::nullopt;
  }
  int64_t samples() const { return loss_.samples(); }
  int64_t skipped_steps() const { return skipped_; }

 private:
  struct Pending {
    int64_t epoch = 0, number = 0, samples = 0;
    bool of_classes = false;  // `outputs` are logits and `targets` labels, or shares of the classes
    Tensor value;             // loss or norm
    Tensor outputs, targets, is_finite;
    bool ends_step = true;
  };
  bool are_classes(const Tensor& outputs, const Tensor& targets) const;
  void read_if_due(const Tensor& latest);
  void take_loss(const Pending& batch);

  StatisticsOptions options_;
  DeviceReader reader_;
  std::vector<Pending> losses_, norms_;
  Mean loss_;
  Hits hits_;
  int64_t skipped_ = 0;
};

}  // namespace adret
