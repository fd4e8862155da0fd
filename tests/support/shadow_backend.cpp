// The shadow device's kernels are the CPU's.
#include "tests/support/shadow_backend.h"

#include <gtest/gtest.h>

namespace adret::test {

void ShadowBackend::run(const Kernel& call) {
  for (const auto& operands : {inputs(call), outputs(call)}) {
    for (const auto& [name, view] : operands) {
      EXPECT_FALSE(view.defined() && view.device.is_cpu()) << name << " of " << to_string(call);
    }
  }
  backend_for(Device::cpu()).run(call);
}

}  // namespace adret::test
