// Keeps a step whose loss or gradients are not finite from changing anything.
#pragma once

#include <adret/optim/optimizer.h>

#include <cstdint>
#include <vector>

namespace adret {

struct StepGuardOptions {
  // Whether the steps after one that is not finite are made. By default none is until reset(), so
  // that all stays as it was before the first such step, however late the host looks.
  bool continue_after_failure = false;
};

// Note [Guarded steps]
//   StepGuard guard(net, optimizer);
//   guard.begin();
//   optimizer.zero_grad();
//   const Tensor loss = cross_entropy(net(images), labels);
//   loss.backward();
//   guard.add_loss(loss);
//   const Tensor is_finite = guard.decide();
//   guard.add_norm(optimizer.clip_norm(1));  // if wanted
//   optimizer.step();
//   average.update(is_finite);  // if there is one
//
// A step in which a loss or an element of a gradient is infinite or NaN changes nothing: weights,
// optimizer states and averages are not written, and the model's buffers, as the running
// statistics of batch norms, are put back. That is decided on the device, so it goes with a Step,
// and the host waits for nothing: it may read the boolean, or failed(), whenever it likes. A
// Trainer does all this by itself, and says where the value came from. Costs one reading of all
// gradients, copies of the buffers, and a few small kernels.
class StepGuard {
 public:
  // Of all optimizers that share the model. Buffers move into one block of memory, but for those
  // that have views; make a WeightAverage, which moves some of them, behind the guard. Model and
  // optimizers must outlive it. Throws Error for an empty list.
  StepGuard(Module& model, const std::vector<Optimizer*>& optimizers,
            const StepGuardOptions& options = {});
  StepGuard(Module& model, Optimizer& optimizer, const StepGuardOptions& options = {})
      : StepGuard(model, std::vector<Optimizer*>{&optimizer}, options) {}
  ~StepGuard();
  StepGuard(const StepGuard&) = delete;
  StepGuard& operator=(const StepGuard&) = delete;

  // Before the first forward of a step. Until decide() or abandon() the steps of the optimizers
  // throw Error, and so does a second begin(), as the buffers are not those of the start any more.
  void begin();
  // For each loss of a step. Throws ShapeError for more than one element, or none.
  void add_loss(const Tensor& loss);
  // Between the last backward of a step and the first use of its gradients. Returns is_finite().
  // Throws Error where no step was begun, and behind LossScaler::unscale, which decides by itself.
  Tensor decide();
  // Between decide() and the first optimizer's step: the norm that clipped gradients, of all
  // elements together, can be infinite where each element is finite, in f64. Then nothing is
  // clipped and the step is not made. Returns is_finite().
  Tensor add_norm(const Tensor& norm);
  // A boolean scalar on the device, for WeightAverage::update: whether the step is finite so far,
  // and without continue_after_failure also those before it since reset(). The next step overwrites
  // it.
  Tensor is_finite();

  // Gives up a step that was begun and ends before decide(), as by an error, or in the middle of a
  // replay: puts the buffers back to what they were then, and forgets what was found in the step.
  // Does nothing where none is begun. Whether one is.
  void abandon();
  bool is_begun() const { return is_begun_; }

  // Whether the last decision was that a step is not made. Reads the device: waits for it.
  bool failed() const;
  void reset();  // forgets all failures

  // Looks for buffers that moved, as begin() does by itself; in a recorded Step they would not be
  // found in time for the first recording.
  void find_buffers();

 private:
  // A piece of memory that holds buffers of the model.
  struct Range {
    Tensor place, saved;  // u8
  };
  bool moved(const std::vector<Tensor>& buffers) const;
  void save();
  void end();  // what begin() began
  Tensor compare(const Tensor& result) const;
  // Calls off the step in the tables of the arenas that wait for it, and in the buffers.
  Tensor apply();

  Module& model_;
  std::vector<Optimizer*> optimizers_;
  StepGuardOptions options_;
  Tensor scale_, counts_;  // of kernels::UpdateLossScale, the scale being 1
  Tensor loss_rows_;       // a segment for a scalar of each floating dtype
  Tensor before_, zero_;   // i64: of counts_ when the step began, or 0; 0
  Tensor row_;             // boolean, a column of Segment each: true, but of `active` the decision
  Tensor is_finite_;       // boolean
  Tensor arena_;           // of buffers
  std::vector<const void*> places_;
  std::vector<Range> ranges_;
  bool is_begun_ = false;
};

}  // namespace adret
