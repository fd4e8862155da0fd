// Batches of images by one kernel.
#include <adret/core/error.h>
#include <adret/core/kernels/kernel.h>
#include <adret/data/image_dataset.h>
#include <fmt/core.h>

#include <utility>

namespace adret {

ImageDataset::ImageDataset(Tensor images, Tensor labels, int64_t num_classes,
                           std::optional<Augment> augment)
    : TensorDataset(std::move(images), std::move(labels), num_classes),
      augment_(std::move(augment)) {
  if (inputs().rank() != 4 || inputs().dtype() != DType::u8) {
    throw ShapeError(fmt::format("[ImageDataset] wants images (N, H, W, C) u8, got {}",
                                 to_string(TensorView(inputs()))));
  }
  if (augment_) augment_->output_shape(inputs().shape());
}

Sample ImageDataset::get(int64_t index) const {
  const Batch one = get_batch({.indices = {&index, 1}});
  return {one.inputs.alias(one.inputs.shape().without(0)),
          one.targets.alias(one.targets.shape().without(0))};
}

Batch ImageDataset::get_batch(const BatchRequest& request) const {
  if (!augment_) return TensorDataset::get_batch(request);
  for (const int64_t index : request.indices) check_index(index);
  const SampleIds samples(request.indices, request.epoch, inputs().device());
  const Tensor labels = Tensor::empty(targets().shape().with(0, samples.ids.numel()),
                                      {.dtype = targets().dtype(), .device = targets().device()});
  run(kernels::Gather{.x = targets(), .indices = samples.ids, .y = labels});
  return {.inputs = augment_->gather(inputs(), samples),
          .targets = labels,
          .indices = {request.indices.begin(), request.indices.end()},
          .epoch = request.epoch,
          .number = request.number};
}

}  // namespace adret
