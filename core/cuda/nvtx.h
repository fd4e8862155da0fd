// Ranges for NVIDIA's profilers: modules, functions and kernels by their names.
#pragma once

namespace adret::cuda {

// Whether a profiler is attached that wants ranges; scopes are told to it from the first call on.
bool tell_profiler();

// A range of this thread, if it is wanted.
class ProfilerRange {
 public:
  ProfilerRange(bool wanted, const char* name) : wanted_(wanted) {
    if (wanted_) begin(name);
  }
  ~ProfilerRange() {
    if (wanted_) end();
  }
  ProfilerRange(const ProfilerRange&) = delete;
  ProfilerRange& operator=(const ProfilerRange&) = delete;

  static void begin(const char* name);
  static void end();

 private:
  bool wanted_;
};

}  // namespace adret::cuda
