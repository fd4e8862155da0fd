// The thread's compute mode.
#include <adret/core/compute_mode.h>
#include <adret/core/error.h>

#include <cstdlib>
#include <string>
#include <utility>

namespace adret {
namespace {

ComputeMode initial() {
  ComputeMode mode;
  const char* plans = std::getenv("ADRET_CUDA_PLANS");
  if (!plans || !*plans || std::string(plans) == "heuristic") return mode;
  if (std::string(plans) != "measure") {
    throw Error("[compute_mode] ADRET_CUDA_PLANS=" + std::string(plans) +
                ": use heuristic or measure");
  }
  mode.plans = PlanSearch::measure;
  return mode;
}

ComputeMode& current() {
  thread_local ComputeMode mode = initial();
  return mode;
}

}  // namespace

const ComputeMode& compute_mode() { return current(); }

ComputeModeScope::ComputeModeScope(const ComputeMode& mode)
    : before_(std::exchange(current(), mode)) {}
ComputeModeScope::~ComputeModeScope() { current() = before_; }

}  // namespace adret
