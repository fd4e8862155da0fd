// How this thread's products are computed where a device has a choice: precision, search, limits.
#pragma once

#include <cstddef>
#include <cstdint>

namespace adret {

// Products of f32 operands: exactly, or with operands rounded to TF32 (10 bits of mantissa) and
// sums in f32. The CPU always computes exactly.
enum class MathMode : uint8_t { exact, tf32 };

// How convolutions and matrix products on CUDA find their algorithm for a new shape: the library's
// first suggestion, or a race of its suggestions (and our own kernels) on the real data. What a
// race chose is kept on disk and used in both modes.
enum class PlanSearch : uint8_t { heuristic, measure };

struct ComputeMode {
  MathMode math = MathMode::exact;
  PlanSearch plans = PlanSearch::heuristic;
  bool deterministic = false;                  // the same bits each time, if slower
  size_t workspace_limit = size_t(512) << 20;  // bytes that one kernel may take for scratch
  bool operator==(const ComputeMode&) const = default;
};

// This thread's mode. At its start `plans` is what the environment variable ADRET_CUDA_PLANS names
// (heuristic or measure), else heuristic.
const ComputeMode& compute_mode();

// Sets the thread's mode for a scope:
//   ComputeMode mode = compute_mode();
//   mode.math = MathMode::tf32;
//   const ComputeModeScope fast(mode);
// A gradient is computed in the math mode of its forward.
class ComputeModeScope {
 public:
  explicit ComputeModeScope(const ComputeMode& mode);
  ~ComputeModeScope();
  ComputeModeScope(const ComputeModeScope&) = delete;
  ComputeModeScope& operator=(const ComputeModeScope&) = delete;

 private:
  ComputeMode before_;
};

}  // namespace adret
