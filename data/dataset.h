// What a data set offers: items by index, one by one or as batches; and the set that lies in
// memory.
#pragma once

#include <adret/core/tensor.h>

#include <cstdint>
#include <span>
#include <vector>

namespace adret {

// One item: what the model takes and what it should give. A class label is a scalar i32.
struct Sample {
  Tensor input = {};
  Tensor target = {};
};

// Several items, stacked along a new first dimension.
struct Batch {
  Tensor inputs = {};                 // (N, ...)
  Tensor targets = {};                // (N, ...)
  std::vector<int64_t> indices = {};  // of the items in the data set
  int64_t epoch = 0;
  int64_t number = 0;  // of the batch in its epoch, from 0

  int64_t size() const { return inputs.size(0); }
};

// Which items a batch is made of, and of which epoch it is, for sets that augment.
struct BatchRequest {
  std::span<const int64_t> indices;
  int64_t epoch = 0;
  int64_t number = 0;  // of the batch in its epoch, from 0
};

// Base of all data sets. One of your own needs `size` and `get`:
//
//   struct Parabola : Dataset {
//     int64_t size() const override { return 1000; }
//     Sample get(int64_t i) const override {
//       const float x = float(i) / 1000;
//       return {Tensor::from({x}, {1}), Tensor::from({x * x}, {1})};
//     }
//   };
//
// The functions are called by several loader threads at a time.
class Dataset {
 public:
  virtual ~Dataset() = default;
  virtual int64_t size() const = 0;
  // Item `index` in 0..size()-1.
  virtual Sample get(int64_t index) const = 0;
  // The items stacked; what `get` throws arrives as a DataError that names the item and has the
  // original nested. Throws DataError for items of different shapes or dtypes. Sets that can
  // assemble a batch faster override this one too.
  virtual Batch get_batch(const BatchRequest& request) const;
  // Number of classes when targets are class labels: the loader checks each to be in
  // 0..num_classes()-1. With 0 there is no check, as for labels that hold an ignore index.
  virtual int64_t num_classes() const { return 0; }
};

// Inputs (N, ...) and targets (N, ...) in memory, shared with the caller's handles. A batch is one
// gather for each.
class TensorDataset : public Dataset {
 public:
  // Throws ShapeError for scalars and for different N, DeviceError for tensors on two devices.
  TensorDataset(Tensor inputs, Tensor targets, int64_t num_classes = 0);

  int64_t size() const override { return inputs_.size(0); }
  Sample get(int64_t index) const override;
  Batch get_batch(const BatchRequest& request) const override;
  int64_t num_classes() const override { return num_classes_; }

  const Tensor& inputs() const { return inputs_; }
  const Tensor& targets() const { return targets_; }

 protected:
  // Throws Error for an index outside 0..size()-1.
  void check_index(int64_t index) const;

 private:
  Tensor inputs_, targets_;
  int64_t num_classes_;
};

}  // namespace adret
