// How long launches take on the device, without the host's time between them.
#pragma once

#include <adret/core/cuda/context.h>

namespace adret::cuda {

// Keeps the compute stream busy for so long, in which the host gets ahead: what it launches
// meanwhile runs without gaps.
void hold(const Context& context, double seconds);

class Stopwatch {
 public:
  explicit Stopwatch(Context& context);

  // Microseconds a run takes of `runs` launched by `launch()`, one behind the other. The device is
  // kept busy until a few are launched. Throws DeviceError for what fails on the device.
  template <class Launch>
  double microseconds(int runs, Launch&& launch) {
    begin(runs);
    for (int i = 0; i < runs; ++i) launch();
    return end() / runs;
  }

 private:
  void begin(int runs);
  double end();

  Context& context_;
  Event start_, stop_;
};

}  // namespace adret::cuda
