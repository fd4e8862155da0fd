// Counts what would be computed, and computes nothing.
#include <adret/core/decorators/dry_run.h>
#include <adret/core/kernels/kernel.h>

namespace adret {

Cost& Cost::operator+=(const Cost& other) {
  calls += other.calls;
  flops += other.flops;
  bytes += other.bytes;
  return *this;
}

void DryRun::run(const Kernel& call) {
  by_path_[NameScope::path()] += {.calls = 1, .flops = flops(call), .bytes = bytes_moved(call)};
}

Cost DryRun::under(const std::string& path) const {
  Cost sum;
  for (const auto& [name, cost] : by_path_) {
    const bool inside = name.size() > path.size() && name[path.size()] == '/';
    if (path.empty() || name == path || (name.starts_with(path) && inside)) sum += cost;
  }
  return sum;
}

}  // namespace adret
