// Runs each kernel call on a second device too, and notes where the results differ.
#pragma once

#include <adret/core/backend.h>
#include <adret/core/dtype.h>

#include <cstdint>
#include <string>
#include <vector>

namespace adret {

struct ShadowOptions {
  Device device = Device::cuda();
  double factor = 1;  // times shadow_tolerance
  bool stop = false;  // whether the first difference throws Error
};

// The largest difference of an output's element that passes, relative to the largest magnitude in
// the output: 1000 epsilons of f32 and f64, whose sums may run in another order (1.2e-4 and
// 2.2e-13); 2 epsilons of bf16 and f16, which are rounded once (1.6e-2 and 2e-3); 0 for integers.
double shadow_tolerance(DType dtype);

// An output that differed by more.
struct ShadowDifference {
  std::string path;     // the names it ran in (NameScope)
  std::string call;     // the kernel with its operands
  std::string output;   // "y"; "values of parameter 2" of an optimizer's
  int64_t element = 0;  // where the difference is largest; NaN against a number counts as that
  double here = 0, there = 0;
  double relative = 0;  // |here - there| / the largest magnitude in the output
};
std::string to_string(const ShadowDifference& difference);

// While it lives, every kernel call of this thread runs twice on the same operands: on a copy of
// them on the second device, then where they are. What follows uses the results of its own
// device, so that each call is judged by itself:
//   Shadow shadow;                    // a model on the CPU, with cuda:0 beside it
//   loss = ...; loss.backward();
//   for (const auto& difference : shadow.differences()) fmt::print("{}\n", to_string(difference));
// A model on a GPU takes {.device = Device::cpu()}. Custom kernels that the second device does not
// have, and calls on operands that are there already, run once.
class Shadow : public Decorator {
 public:
  explicit Shadow(ShadowOptions options = {}) : options_(options) {}
  void run(const Kernel& call) override;

  const std::vector<ShadowDifference>& differences() const { return differences_; }
  int64_t compared() const { return compared_; }  // calls

 private:
  ShadowOptions options_;
  std::vector<ShadowDifference> differences_;
  int64_t compared_ = 0;
};

}  // namespace adret
