// The capturing thread's errors, and the waiting of the others.
#include <adret/core/cuda/capture_gate.h>
#include <adret/core/error.h>
#include <adret/core/scope.h>
#include <fmt/core.h>

#include <string>
#include <utility>

namespace adret::cuda {

void CaptureGate::refuse_capture(const char* what, const char* advice) const {
  if (!is_capturing()) return;
  const std::string place = current_place();
  throw DeviceError(fmt::format("[capture] {} inside a captured step{}{}; {}", what,
                                place.empty() ? "" : ", by ", place, advice));
}

std::shared_lock<std::shared_mutex> CaptureGate::pass(const char* what, const char* advice) const {
  refuse_capture(what, advice);
  return std::shared_lock(mutex_);
}

CaptureGate::Turn::Turn(CaptureGate& gate, std::function<void()> end_call) : gate_(gate) {
  gate_.refuse_capture("a step is captured", "capture one behind the other");
  gate_.mutex_.lock();
  gate_.end_call_ = std::move(end_call);
  gate_.owner_ = std::this_thread::get_id();
}

CaptureGate::Turn::~Turn() {
  gate_.owner_ = std::thread::id();
  gate_.mutex_.unlock();
}

}  // namespace adret::cuda
