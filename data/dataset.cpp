// Stacking items into batches, and gathering them from tensors in memory.
#include <adret/core/error.h>
#include <adret/core/kernels/kernel.h>
#include <adret/data/dataset.h>
#include <fmt/core.h>

#include <exception>
#include <string>
#include <utility>

namespace adret {
namespace {

std::string describe(const Tensor& tensor) { return to_string(TensorView(tensor)); }

// Copies tensors of one shape and dtype, one after the other, into a batch of `count`.
class Stack {
 public:
  Stack(const char* what, int64_t count) : what_(what), count_(count) {}

  void push(const Tensor& item, int64_t index) {
    if (!stacked_.defined()) {
      first_ = item;
      first_index_ = index;
      stacked_ = Tensor::empty(item.shape().inserted(0, count_),
                               {.dtype = item.dtype(), .device = item.device()});
    } else if (item.shape() != first_.shape() || item.dtype() != first_.dtype() ||
               item.device() != first_.device()) {
      throw DataError(
          fmt::format("[Dataset] {} of item {} is {}, that of item {} is {}; the items of a batch "
                      "must be alike",
                      what_, index, describe(item), first_index_, describe(first_)));
    }
    run(kernels::Copy{.x = item,
                      .y = stacked_.alias(item.shape(), size_t(next_++) * item.bytes())});
  }
  Tensor finish() { return std::move(stacked_); }

 private:
  const char* what_;
  int64_t count_;
  int64_t next_ = 0;
  int64_t first_index_ = 0;
  Tensor first_;
  Tensor stacked_;
};

Tensor gather(const Tensor& x, const Tensor& indices) {
  Tensor y =
      Tensor::empty(x.shape().with(0, indices.numel()), {.dtype = x.dtype(), .device = x.device()});
  run(kernels::Gather{.x = x, .indices = indices, .y = y});
  return y;
}

}  // namespace

Batch Dataset::get_batch(const BatchRequest& request) const {
  const std::span<const int64_t> indices = request.indices;
  if (indices.empty()) throw Error("[Dataset] a batch wants at least one index, got none");
  Stack inputs("the input", int64_t(indices.size()));
  Stack targets("the target", int64_t(indices.size()));
  for (const int64_t index : indices) {
    Sample sample;
    try {
      sample = get(index);
    } catch (const OutOfMemory&) {
      throw;
    } catch (const std::exception& error) {
      std::throw_with_nested(DataError(fmt::format("[Dataset] item {}: {}", index, error.what())));
    }
    inputs.push(sample.input, index);
    targets.push(sample.target, index);
  }
  return {.inputs = inputs.finish(),
          .targets = targets.finish(),
          .indices = {indices.begin(), indices.end()},
          .epoch = request.epoch,
          .number = request.number};
}

TensorDataset::TensorDataset(Tensor inputs, Tensor targets, int64_t num_classes)
    : inputs_(std::move(inputs)), targets_(std::move(targets)), num_classes_(num_classes) {
  if (inputs_.rank() == 0 || targets_.rank() == 0 || inputs_.size(0) != targets_.size(0)) {
    throw ShapeError(fmt::format(
        "[TensorDataset] wants inputs (N, ...) and targets (N, ...) of one N, got {} and {}",
        describe(inputs_), describe(targets_)));
  }
  if (inputs_.device() != targets_.device()) {
    throw DeviceError(fmt::format(
        "[TensorDataset] inputs {} and targets {} are on two devices; move one with to(device)",
        describe(inputs_), describe(targets_)));
  }
}

void TensorDataset::check_index(int64_t index) const {
  if (index < 0 || index >= size()) {
    throw Error(fmt::format("[TensorDataset] index {} is outside 0..{}", index, size() - 1));
  }
}

Sample TensorDataset::get(int64_t index) const {
  check_index(index);
  const auto row = [index](const Tensor& x) {
    const Shape shape = x.shape().without(0);
    return x.alias(shape, size_t(index * shape.numel()) * size_of(x.dtype()));
  };
  return {row(inputs_), row(targets_)};
}

Batch TensorDataset::get_batch(const BatchRequest& request) const {
  const std::span<const int64_t> indices = request.indices;
  for (const int64_t index : indices) check_index(index);
  const Tensor wanted = Tensor::from(indices, {int64_t(indices.size())}, inputs_.device());
  return {.inputs = gather(inputs_, wanted),
          .targets = gather(targets_, wanted),
          .indices = {indices.begin(), indices.end()},
          .epoch = request.epoch,
          .number = request.number};
}

}  // namespace adret
