// A recording that is run again: its memory planned in one block, its calls captured where the
// device has graphs.
#pragma once

#include <adret/core/backend.h>
#include <adret/core/decorators/record.h>
#include <adret/core/tensor.h>

#include <cstddef>
#include <deque>
#include <memory>
#include <string>
#include <vector>

namespace adret {

// Note [Replays]
// The first run makes the calls one by one, so that the device chooses its algorithms for the new
// places; the second captures them. Capturing changes no bit: a replay that is not captured is the
// reference of one that is.
class Replay {
 public:
  // Throws OutOfMemory.
  explicit Replay(const Recording& recording, bool capture = true);

  // All calls, on what their inputs hold now. Outputs hold what they hold until the next run.
  void run();
  const std::vector<Tensor>& outputs() const { return outputs_; }

  size_t calls() const { return calls_.size(); }
  // Of the planned block, and what lives in it at the fullest moment.
  size_t planned_bytes() const { return planned_bytes_; }
  size_t peak_bytes() const { return peak_bytes_; }
  // Of the calls' scratch memory; known once it is captured.
  size_t scratch_bytes() const { return graph_ ? graph_->bytes() : 0; }
  bool captured() const { return graph_ != nullptr; }
  // What the device said when it could not be captured; empty otherwise.
  const std::string& why_not_captured() const { return why_not_captured_; }

 private:
  void make_calls();
  void capture();
  void raise_versions();

  const Device device_;
  std::vector<std::string> places_;  // of the calls
  const std::vector<IntrusivePtr<Storage>> kept_;
  Tensor block_;
  std::deque<RewrittenCall> calls_;
  std::vector<Tensor> outputs_;
  std::vector<Storage*> written_;  // of what is kept
  size_t planned_bytes_ = 0, peak_bytes_ = 0;
  bool capture_;
  int64_t runs_ = 0;
  std::string why_not_captured_;
  std::unique_ptr<DeviceGraph> graph_;
};

}  // namespace adret
