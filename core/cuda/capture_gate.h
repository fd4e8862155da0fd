// What keeps the capture of a step apart from all else that is asked of the compute stream.
#pragma once

#include <atomic>
#include <functional>
#include <shared_mutex>
#include <thread>

namespace adret::cuda {

// What to do about that which is only done once.
inline constexpr const char* run_once_before =
    "run the same calls once before, in the same compute mode";

// Note [Captures]
// While a thread captures, the compute stream takes down what it is given instead of doing it.
// Whatever beside kernels concerns that stream (copies from and to the host, waiting, events)
// passes the gate. The thread that captures gets an error there, before CUDA is asked and breaks
// the capture; others wait until it is over, as what they ask for would become part of it. Kernels
// need no gate: one thread runs them.
class CaptureGate {
 public:
  // Whether this thread captures: nothing may wait, be read, or be timed then.
  bool is_capturing() const {
    return owner_.load(std::memory_order_relaxed) == std::this_thread::get_id();
  }
  // Throws DeviceError when it does: "[capture] `what` inside a captured step; `advice`".
  void refuse_capture(const char* what, const char* advice) const;
  // The same; and no other thread captures while the result lives.
  std::shared_lock<std::shared_mutex> pass(const char* what, const char* advice) const;

  // This thread captures while it lives. Throws DeviceError when it does already.
  class Turn {
   public:
    // `end_call` is told of each kernel call.
    explicit Turn(
        CaptureGate& gate, std::function<void()> end_call = [] {});
    ~Turn();
    Turn(const Turn&) = delete;
    Turn& operator=(const Turn&) = delete;

   private:
    CaptureGate& gate_;
  };
  // To be called by the thread that captures, behind each kernel call. Throws DeviceError when the
  // call, or something since the one before, broke the capture.
  void end_call() { end_call_(); }

 private:
  mutable std::shared_mutex mutex_;
  std::atomic<std::thread::id> owner_;
  std::function<void()> end_call_;
};

}  // namespace adret::cuda
