// A row's time against the times that its FLOPs and its bytes need at least.
#include <adret/core/decorators/roofline.h>
#include <adret/core/error.h>
#include <fmt/core.h>

#include <algorithm>

namespace adret {

Roofline roofline(const ProfileRow& row, const Ceilings& ceilings) {
  const auto at = ceilings.flops_per_second.find(row.arithmetic);
  const double peak = at == ceilings.flops_per_second.end() ? 0 : at->second;
  if (!(peak > 0) || !(ceilings.bytes_per_second > 0)) {
    throw Error(
        fmt::format("[roofline] got ceilings of {} flops/s in {} and {} bytes/s for {}; "
                    "give positive ones",
                    peak, to_string(row.arithmetic), ceilings.bytes_per_second, row.kernel));
  }
  const double computing = row.flops / peak, moving = row.bytes / ceilings.bytes_per_second;
  const auto share = [&](double seconds) { return row.seconds > 0 ? seconds / row.seconds : 0; };
  const double least = std::max(computing, moving);
  return {.of_arithmetic = share(computing),
          .of_memory = share(moving),
          .least_seconds = least,
          .lost_seconds = row.seconds - least};
}

}  // namespace adret
