// A recording that is run again: its memory planned in one block, its calls captured where the
// device has graphs.
#pragma once

#include <adret/core/backend.h>
#include <adret/core/decorators/record.h>
#include <adret/core/replay/schedule.h>
#include <adret/core/tensor.h>

#include <cstddef>
#include <deque>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace adret {

// Note [Replays]
// The first run makes the calls one by one, so that the device chooses its algorithms for the new
// places; the second captures them. Capturing changes no bit: a replay that is not captured is the
// reference of one that is. Inputs are copied to where the recording found them, outputs to memory
// of the caller's own, as part of the list.
class Replay {
 public:
  // `inputs` is the memory that the recorded calls read them from. Throws OutOfMemory.
  Replay(const Recording& recording, std::vector<Tensor> inputs, bool capture = true);

  // All calls, on these inputs and on what the other memory that they read holds now.
  std::vector<Tensor> run(std::span<const Tensor> inputs);

  // Without the copies.
  size_t calls() const;
  // Of the planned block, and what lives in it at the fullest moment.
  size_t planned_bytes() const { return planned_bytes_; }
  size_t peak_bytes() const { return peak_bytes_; }
  // Of the calls' scratch memory; known once it is captured.
  size_t scratch_bytes() const { return graph_ ? graph_->bytes() : 0; }
  bool captured() const { return graph_ != nullptr; }
  // What the device said when it could not be captured; empty otherwise.
  const std::string& why_not_captured() const { return why_not_captured_; }

 private:
  static constexpr size_t none = size_t(-1);
  class Draft;  // of the list, before its memory has places
  struct Call {
    template <class Entry, class Placed>
    Call(const Entry& entry, const Placed& placed)
        : kernel(entry.call, placed),
          place(entry.place),
          input(entry.input),
          output(entry.output) {}
    RewrittenCall kernel;
    std::string place;
    // Of a kernels::Copy, whose other side is the caller's.
    size_t input, output;
    Scheduled order;
  };

  void run_call(const Call& call, std::span<const Tensor> inputs,
                std::span<const Tensor> outputs) const;
  void capture();
  void capture_calls(GraphOrder& order) const;
  std::vector<MemoryCopy> copies(std::span<const Tensor> inputs,
                                 std::span<const Tensor> outputs) const;
  std::vector<Tensor> empty_outputs() const;
  void raise_versions();

  const Device device_;
  const std::vector<IntrusivePtr<Storage>> kept_;
  const std::vector<Tensor> inputs_;
  std::vector<TensorView> outputs_;  // in the block, or in what is kept
  Tensor block_;
  std::deque<Call> calls_;
  std::vector<Storage*> written_;  // of what is kept
  size_t planned_bytes_ = 0, peak_bytes_ = 0;
  bool capture_;
  int64_t runs_ = 0;
  std::string why_not_captured_;
  std::unique_ptr<DeviceGraph> graph_;
};

}  // namespace adret
