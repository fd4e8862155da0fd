// Averages of a model's weights over the steps: exponential moving, or uniform.
#pragma once

#include <adret/optim/optimizer.h>
#include <adret/train/snapshot.h>

#include <cstdint>
#include <memory>
#include <vector>

namespace adret {

struct WeightAverageOptions {
  double decay = 0.999;  // from 0 to below 1
  // Update t = 0, 1, ... uses min(decay, (1 + t) / (10 + t)), so that the start is soon forgotten.
  bool warm_up = true;
  // The mean of the weights at all updates instead, for few of these at a high rate, as one an
  // epoch (stochastic weight averaging, Izmailov et al. 2018); update_batch_norm belongs to it.
  bool uniform = false;
};

// average += (1 - decay) * (weight - average) after every step, in f32 (f64 for f64 weights) and
// from the masters of 16-bit weights (Polyak and Juditsky 1992 average alike; with decay: Tarvainen
// and Valpola 2017). Floating buffers, as the running statistics of batch norm, are averaged the
// same way. An update is one kernel for each optimizer and one for the buffers, which move into an
// arena of their own, but for those that have views and are copied there by each update; nothing
// waits.
//
//   WeightAverage average(model, optimizer);
//   ... optimizer.step(); average.update(); ...
//   {
//     const AveragedWeights averaged(average);
//     ... evaluate, save_weights ...
//   }
class WeightAverage {
 public:
  // The parameters are read in the optimizers' arenas, so the optimizers hold exactly the model's:
  // throws Error for one that learns and is in none, and for one that is not the model's. Averages
  // start from the weights as they are. Model and optimizers must outlive this. Throws Error for a
  // decay out of range.
  WeightAverage(Module& model, Optimizer& optimizer, const WeightAverageOptions& options = {})
      : WeightAverage(model, std::vector<Optimizer*>{&optimizer}, options) {}
  WeightAverage(Module& model, const std::vector<Optimizer*>& optimizers,
                const WeightAverageOptions& options = {});

  // Throws Error while the averages are in the model. With `is_finite`, a boolean scalar on the
  // device (StepGuard::is_finite), that is false nothing changes; ShapeError for any other tensor.
  void update(const Tensor& is_finite = {});
  // Reads the device: waits for it.
  int64_t updates() const;

 private:
  friend class AveragedWeights;
  // What one kernel call averages: the arena of an optimizer, or the buffers'.
  struct Part {
    ParameterArena* arena = nullptr;
    Tensor values, segments;  // of the buffers
    Tensor average, updates;
  };
  struct Buffer {
    NamedTensor buffer;
    Tensor place, average;
    bool moved = false;  // to its place
  };
  void check_parameters(const std::vector<Optimizer*>& optimizers) const;
  void add_arena(ParameterArena& arena);
  void add_buffers();
  void check_buffers() const;
  void prepare() const;
  void average_all(bool guarded) const;
  void write_averages() const;

  Module& model_;
  WeightAverageOptions options_;
  std::vector<Part> parts_;
  std::vector<Buffer> buffers_;
  Tensor updates_;  // i64, one for each part
  Tensor columns_;  // boolean, a column of Segment each: true, but of `length` that of update()
  Tensor zero_;     // i64
  bool in_model_ = false;
};

// Puts the averages into the model's weights, their masters and buffers while it lives; then all
// are what they were, bit for bit, also when an error ends the scope. Train not meanwhile.
class AveragedWeights {
 public:
  // Throws Error while another one lives.
  explicit AveragedWeights(WeightAverage& average);
  ~AveragedWeights();
  AveragedWeights(const AveragedWeights&) = delete;
  AveragedWeights& operator=(const AveragedWeights&) = delete;

 private:
  void put_back() noexcept;

  WeightAverage& average_;
  Snapshot before_;
};

}  // namespace adret
