// The kernels that a thread runs, for tests that count them.
#pragma once

#include <adret/core/backend.h>
#include <adret/core/kernels/kernel.h>

#include <map>
#include <string>
#include <vector>

namespace adret::test {

// Notes the calls while it lives, and runs them on.
class SeenKernels final : public Decorator {
 public:
  void run(const Kernel& call) override {
    calls.push_back(call);
    names_.emplace_back(kernel_name(call));
    forward(call);
  }
  const std::vector<std::string>& names() const { return names_; }
  // How often each name.
  std::map<std::string, int> counts() const {
    std::map<std::string, int> all;
    for (const std::string& name : names_) ++all[name];
    return all;
  }

  std::vector<Kernel> calls;  // of custom kernels with nothing behind it: those are gone

 private:
  std::vector<std::string> names_;
};

}  // namespace adret::test
