// The flat memory of all parameters and gradients of an optimizer; Note [Arenas] of
// core/kernels/optimizer.h has the layout.
#pragma once

#include <adret/core/kernels/optimizer.h>
#include <adret/layers/parameter.h>

#include <memory>
#include <vector>

namespace adret {

class Leaf;

// Owns the places of its parameters from construction to destruction; afterwards they keep their
// values and may join another arena.
class ParameterArena {
 public:
  using Group = std::vector<std::shared_ptr<Parameter>>;

  // Moves values, and gradients that are there. Throws Error, changing nothing, for no parameters,
  // one that is given twice or lies in another arena, and DeviceError for several devices.
  explicit ParameterArena(const std::vector<Group>& groups);
  ~ParameterArena();
  ParameterArena(const ParameterArena&) = delete;
  ParameterArena& operator=(const ParameterArena&) = delete;

  // Gathers the gradients into the arena and marks their segments active; false when there are
  // none. Renews the masters of values that were written to by others. Throws Error when a
  // parameter's value was replaced by another tensor.
  bool collect();
  // The same for a kernel that then decides which of the segments with a gradient are active. What
  // it decides stays until end_step() or forget_decision(), or until other parameters get
  // gradients.
  bool collect_to_decide();
  bool decided_on_device() const { return decided_; }
  // Of a step that is not made; losses that were scaled for it are forgotten, too.
  void forget_decision() { decided_ = awaits_unscale_ = false; }
  // What must be called before the gradients are used: by a LossScaler that scaled a loss, by a
  // StepGuard that began a step.
  void await_unscale(bool awaits) { awaits_unscale_ = awaits; }
  void await_decide(bool awaits) { awaits_decide_ = awaits; }
  bool awaits_unscale() const { return awaits_unscale_; }
  bool awaits_decide() const { return awaits_decide_; }
  void renew_masters();
  // Tells saved tensors that the active gradients, or values, were written to; at the end of a step
  // the values' masters were, too.
  void bump_gradients() const;
  void end_step();

  const std::vector<std::shared_ptr<Parameter>>& parameters() const { return parameters_; }
  bool holds(const Leaf* leaf) const;
  const Tensor& values() const { return values_; }
  const Tensor& gradients() const { return gradients_; }
  const Tensor& masters() const { return masters_; }  // undefined without 16-bit parameters
  const Tensor& segments() const { return segment_table_; }
  // The row of `segments` of a parameter, as the host knows it.
  const kernels::Segment& segment(size_t parameter) const { return segments_[parameter]; }
  Device device() const { return values_.device(); }
  // Zeros for one f32 (f64 for f64 parameters) per element of every parameter, and one's part of
  // it.
  Tensor make_state() const;
  Tensor state_of(const Tensor& state, size_t parameter) const;

 private:
  void lay_out(const std::vector<Group>& groups);
  void move_in();
  void place_master(size_t parameter, const Tensor& master);
  void renew_master(size_t parameter);
  bool gather(size_t parameter);
  bool gather_all(bool& changed);

  std::vector<std::shared_ptr<Parameter>> parameters_;
  std::vector<kernels::Segment> segments_;
  std::vector<Tensor> value_places_, gradient_places_;
  std::vector<Tensor> master_places_;    // undefined for parameters that have none
  Tensor values_, gradients_, masters_;  // u8
  Tensor segment_table_;
  int64_t value_bytes_ = 0, state_bytes_ = 0;
  // Whether a kernel wrote into the table since it was uploaded, and for the coming step.
  bool written_ = false, decided_ = false;
  bool awaits_unscale_ = false, awaits_decide_ = false;
};

// Copies host values over a device tensor's elements.
void upload(const Tensor& to, const void* from);

}  // namespace adret
