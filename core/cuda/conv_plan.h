// Which plan runs a convolution: from memory, from disk, by cuDNN's heuristics or by a race.
#pragma once

#include <adret/core/cuda/context.h>
#include <adret/core/cuda/conv_direct.h>
#include <adret/core/cuda/conv_problem.h>
#include <adret/core/cuda/plan_file.h>

#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace adret::cuda {

// One way to run a problem: an engine of cuDNN, with or without the bias, and a kernel of ours
// behind it for what is left of bias and ReLU; or one of our convolution kernels, which do it all.
class ConvPlan {
 public:
  // `fused`: the bias, if there is one, is in the engine's graph. Throws DeviceError for an engine
  // that cannot, or that needs more workspace than the problem allows.
  ConvPlan(EngineConfig config, cudnnHandle_t handle, bool fused, const ConvProblem& problem);
  ConvPlan(DirectKernel kernel, const Context& context, const ConvProblem& problem);

  size_t workspace() const { return workspace_; }  // bytes
  // "cudnn engine 57 knobs 2:1", "cudnn+bias engine ...", "direct 1".
  const std::string& name() const { return name_; }
  void run(Context& context, const ConvProblem& problem, const ConvOperands& operands,
           void* workspace);

 private:
  std::optional<ExecutionPlan> cudnn_;
  DirectKernel direct_ = DirectKernel::general;
  bool fused_ = true;
  size_t workspace_ = 0;
  std::string name_;
};

// What a race measured.
struct ConvSample {
  std::string plan;
  double microseconds;
  size_t workspace;
};

// The plans of a device. Used by the one thread that launches on it.
class ConvPlanCache {
 public:
  static ConvPlanCache& of(Context& context);  // never destroyed
  // `file` null: nothing is kept on disk.
  ConvPlanCache(Context& context, PlanFile* file) : context_(context), file_(file) {}

  // The plan for a problem. A search may run candidates on the operands, of which the outputs are
  // overwritten. Throws DeviceError when it would have to search while capturing.
  ConvPlan& find(const ConvProblem& problem, const ConvOperands& operands);
  // Runs the problem; when there is no memory for the plan's workspace, with one that needs less,
  // or throws OutOfMemory while capturing.
  void run(const ConvProblem& problem, const ConvOperands& operands);

  // Every allowed plan with its time, for benchmarks: runs them all.
  std::vector<ConvSample> measure_all(const ConvProblem& problem, const ConvOperands& operands);
  size_t size() const { return plans_.size(); }

  static constexpr size_t most_plans = 4096;

 private:
  struct Hash {
    size_t operator()(const ConvProblem& problem) const;
  };
  struct Entry {
    ConvPlan plan;
    uint64_t used;  // when, in finds
  };
  struct Entrant {
    ConvPlan plan;
    double microseconds;
  };
  class Race;

  ConvPlan search(const ConvProblem& problem, const ConvOperands& operands);
  // Of a line of the file, if it has that origin and names a plan that can be made.
  std::optional<ConvPlan> from_text(const ConvProblem& problem, std::string_view text,
                                    std::string_view origin);
  ConvPlan first_suggestion(const ConvProblem& problem);
  std::optional<ConvPlan> race(const ConvProblem& problem, const ConvOperands& operands);
  void drop_oldest();

  Context& context_;
  PlanFile* file_;
  std::unordered_map<ConvProblem, Entry, Hash> plans_;
  uint64_t finds_ = 0;
};

}  // namespace adret::cuda
