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
    forward(call);
  }
  std::vector<std::string> names() const {
    std::vector<std::string> all;
    for (const Kernel& call : calls) all.emplace_back(kernel_name(call));
    return all;
  }
  // How often each name.
  std::map<std::string, int> counts() const {
    std::map<std::string, int> all;
    for (const Kernel& call : calls) ++all[kernel_name(call)];
    return all;
  }

  std::vector<Kernel> calls;
};

}  // namespace adret::test
