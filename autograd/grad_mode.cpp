// The thread's recording switch.
#include <adret/autograd/grad_mode.h>

#include <utility>

namespace adret {
namespace {
thread_local bool enabled_now = true;
}

bool grad_enabled() { return enabled_now; }

GradMode::GradMode(bool enabled) : before_(std::exchange(enabled_now, enabled)) {}
GradMode::~GradMode() { enabled_now = before_; }

}  // namespace adret
