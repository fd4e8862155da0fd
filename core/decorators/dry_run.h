// Counts what would be computed, and computes nothing.
#pragma once

#include <adret/core/backend.h>

#include <cstdint>
#include <map>
#include <string>

namespace adret {

struct Cost {
  int64_t calls = 0;
  double flops = 0;  // a multiply-add counts two
  double bytes = 0;  // that must be read and written at least

  Cost& operator+=(const Cost& other);
};

// While it lives, kernels are counted under the names they run in (NameScope) and swallowed: the
// tensors have their shapes but no values.
class DryRun : public Decorator {
 public:
  void run(const Kernel& call) override;
  // All of it, or the part run in scope `path` ("LeNet/conv1") and those inside it.
  Cost total() const { return under(""); }
  Cost under(const std::string& path) const;

 private:
  std::map<std::string, Cost> by_path_;
};

}  // namespace adret
