// Which way attention runs: by our own kernels, or by an engine of cuDNN's where a race has shown
// one to be faster.
#pragma once

#include <adret/core/cuda/attention_graph.h>
#include <adret/core/cuda/context.h>
#include <adret/core/cuda/plan_file.h>
#include <adret/core/kernels/attention.h>

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace adret::cuda {

// A call that cuDNN may take, with its operands by their ids.
struct AttentionCall {
  AttentionShape shape;
  std::vector<std::pair<int64_t, void*>> operands;
};
// Nothing for calls with a mask, lengths or dropout, and for small ones, which take no time.
std::optional<AttentionCall> attention_call(const kernels::AttentionForward& call);
std::optional<AttentionCall> attention_call(const kernels::AttentionBackward& call);

class AttentionPlan {
 public:
  // Throws DeviceError for an engine that cannot.
  AttentionPlan(EngineConfig config, cudnnHandle_t handle, const AttentionShape& shape);

  const std::string& name() const { return name_; }  // "cudnn engine 2 knobs ..."
  // Throws OutOfMemory when there is no room for its workspace.
  void run(Context& context, const AttentionCall& call);

 private:
  std::string name_;
  ExecutionPlan plan_;
  std::unique_ptr<std::array<float, 3>> numbers_;  // the graph's, by value
};

// The plans of a device. Used by the one thread that launches on it.
class AttentionPlans {
 public:
  static AttentionPlans& of(Context& context);  // never destroyed
  AttentionPlans(Context& context, PlanFile* file) : context_(context), file_(file) {}

  // Runs the call by the faster way; `own` runs our kernels. In the search mode `measure` the first
  // call of a shape is a race, which overwrites the outputs several times; its winner is kept in
  // the file and used in both modes. Throws DeviceError when capturing a shape
  // whose way is not chosen yet.
  void run(const AttentionCall& call, const std::function<void()>& own);

  struct Sample {
    std::string plan;
    double microseconds;
  };
  // Every way with its time, for benchmarks.
  std::vector<Sample> measure_all(const AttentionCall& call, const std::function<void()>& own);

 private:
  struct Entry {
    std::optional<AttentionPlan> plan;  // none: ours
    bool was_chosen = false;            // by a race
  };
  Entry choose(const AttentionCall& call, const std::function<void()>& own);
  Entry race(const AttentionCall& call, const std::function<void()>& own,
             std::vector<Sample>* samples = nullptr);

  Context& context_;
  PlanFile* file_;
  std::map<AttentionShape, Entry> plans_;
};

}  // namespace adret::cuda
