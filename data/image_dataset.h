// A set of images in the memory of a device, augmented as its batches are gathered.
#pragma once

#include <adret/data/dataset.h>
#include <adret/data/transforms.h>

#include <optional>

namespace adret {

// Images (N, H, W, C) u8 and labels (N, ...) on one device. A batch is one upload of its indices,
// one kernel for the images (gather, crop, flip, cutout, normalise, cast) and one for the labels.
//
//   ImageDataset set(images.to(device), labels.to(device), 10, augment);
class ImageDataset : public TensorDataset {
 public:
  // Throws ShapeError for images that are none or that `augment` does not fit, and as TensorDataset
  // does.
  ImageDataset(Tensor images, Tensor labels, int64_t num_classes = 0,
               std::optional<Augment> augment = {});

  // As a batch of one has it in epoch 0.
  Sample get(int64_t index) const override;
  Batch get_batch(const BatchRequest& request) const override;

  const std::optional<Augment>& augment() const { return augment_; }

 private:
  std::optional<Augment> augment_;
};

}  // namespace adret
