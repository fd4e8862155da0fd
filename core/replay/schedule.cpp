// Finds what calls of two lanes have to do with each other.
#include <adret/core/replay/schedule.h>

#include <algorithm>
#include <functional>
#include <optional>

namespace adret {
namespace {

struct Range {
  const std::byte* begin;
  const std::byte* end;
};

std::vector<Range> ranges(const std::vector<kernels::Operand>& operands) {
  std::vector<Range> list;
  for (const auto& [name, view] : operands) {
    if (!view.defined() || view.bytes() == 0) continue;
    const auto* const begin = static_cast<const std::byte*>(view.data);
    list.push_back({begin, begin + view.bytes()});
  }
  return list;
}

bool meet(const std::vector<Range>& a, const std::vector<Range>& b) {
  return std::ranges::any_of(a, [&](const Range& one) {
    return std::ranges::any_of(b, [&](const Range& other) {
      return std::less<>()(one.begin, other.end) && std::less<>()(other.begin, one.end);
    });
  });
}

struct Touched {
  std::vector<Range> reads, writes;
  explicit Touched(const Kernel& call)
      : reads(ranges(inputs(call))), writes(ranges(outputs(call))) {}
  bool conflicts(const Touched& other) const {
    return meet(writes, other.writes) || meet(writes, other.reads) || meet(reads, other.writes);
  }
};

}  // namespace

bool runs_beside(const Kernel& call) {
  return std::holds_alternative<kernels::LinearBackwardWeight>(call.any()) ||
         std::holds_alternative<kernels::Conv2dBackwardWeight>(call.any());
}

std::vector<Scheduled> schedule(std::span<const Kernel* const> calls, std::span<const int> lanes) {
  std::vector<Touched> touched;
  std::vector<Scheduled> result;
  for (size_t i = 0; i < calls.size(); ++i) {
    touched.emplace_back(*calls[i]);
    Scheduled one{.lane = lanes[i]};
    // The last one that it waits for: those before it in that lane are done then, too.
    for (size_t before = i; before-- > 0;) {
      if (lanes[before] == lanes[i]) continue;
      if (!touched[before].conflicts(touched[i])) continue;
      one.after.push_back(before);
      break;
    }
    result.push_back(std::move(one));
  }
  return result;
}

}  // namespace adret
