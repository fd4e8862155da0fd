// Dynamic loss scaling, for gradients in f16.
#pragma once

#include <adret/optim/optimizer.h>

#include <cstdint>

namespace adret {

// Scales are powers of two, so that scaling changes no bit where nothing overflows or underflows.
struct LossScaleOptions {
  double initial = 0x1p16;
  double lowest = 1, largest = 0x1p24;
  int64_t growth_interval = 2000;  // steps with finite gradients in a row before the scale doubles
};

struct LossScaleState {
  double scale = 0;
  int64_t finite_steps = 0;  // in a row
  int64_t skipped_steps = 0;
};

// Gradients below 6e-8 are 0 in f16. So the loss is multiplied before the backward pass, and the
// optimizer divides when it reads the gradients, in f32 (Micikevicius et al. 2018):
//
//   LossScaler scaler(optimizer);
//   optimizer.zero_grad();
//   scaler.scale(loss).backward();  // once, or for several batches
//   scaler.unscale();
//   optimizer.clip_norm(1);         // if wanted
//   optimizer.step();
//
// When a gradient is infinite or NaN, this step changes nothing, neither weights nor the
// optimizer's state, and the scale is halved. That is decided on the device: the host waits for
// nothing. Gradients in the parameters stay times the scale.
//
// A scaler serves one optimizer, which takes the whole model: a loss is multiplied by one scale, so
// of two optimizers the other would take its gradients times that scale, or with a scaler of its
// own divide them by a scale that comes to differ. Nothing notices this. Of two scalers of one
// optimizer the second unscale() of a step throws Error.
class LossScaler {
 public:
  // The optimizer must outlive the scaler. Throws Error for scales that are no powers of two, or
  // not in order, and a growth_interval below 1.
  explicit LossScaler(Optimizer& optimizer, const LossScaleOptions& options = {});

  // The loss times the scale, in f32 (f64 for an f64 loss). Until unscale() or zero_grad() the
  // optimizer's step() throws Error.
  Tensor scale(const Tensor& loss) const;
  // Between the last backward of a step and the first use of its gradients. Throws Error if called
  // twice without step() or zero_grad() in between, and for gradients of
  // a loss that was not scaled since zero_grad().
  void unscale();

  // These read the device: they wait for the steps made so far.
  LossScaleState state() const;
  int64_t skipped_steps() const { return state().skipped_steps; }
  // Throws Error for a scale that the options do not allow, and for negative counts.
  void load_state(const LossScaleState& state);

  const LossScaleOptions& options() const { return options_; }

 private:
  Optimizer& optimizer_;
  LossScaleOptions options_;
  Tensor scale_, counts_;  // Note [Arenas], kernels::UpdateLossScale
};

}  // namespace adret
