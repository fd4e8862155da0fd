// Bracketing a step length and narrowing the bracket.
#include <adret/optim/line_search.h>

#include <algorithm>
#include <cmath>
#include <utility>

namespace adret {
namespace {

constexpr double decrease = 1e-4, curvature = 0.9;
constexpr int most_evaluations = 25;

// Where the cubic through both points with their slopes is lowest, within bounds; their middle if
// it has no minimum (Nocedal and Wright 2006, equation 3.59).
double cubic_minimum(const LinePoint& one, const LinePoint& other, double low, double high) {
  const auto& [a, b] = one.t <= other.t ? std::pair(one, other) : std::pair(other, one);
  const double d1 = a.slope + b.slope - 3 * (a.value - b.value) / (a.t - b.t);
  const double square = d1 * d1 - a.slope * b.slope;
  if (!(square >= 0)) return (low + high) / 2;
  const double d2 = std::sqrt(square);
  const double t = b.t - (b.t - a.t) * ((b.slope + d2 - d1) / (b.slope - a.slope + 2 * d2));
  return std::min(std::max(t, low), high);
}

class Search {
 public:
  Search(const LineFunction& evaluate, const LinePoint& start, double narrowest)
      : evaluate_(evaluate), start_(start), narrowest_(narrowest) {}

  // Steps out until a bracket holds a point that is wanted.
  LinePoint run(double t) {
    LinePoint before = start_, now = evaluate_(t);
    for (; evaluations_ < most_evaluations; ++evaluations_) {
      const bool rises = evaluations_ > 1 && now.value >= before.value;
      if (is_too_high(now) || rises) return narrow(before, now);
      if (is_flat(now)) return now;
      if (now.slope >= 0) return narrow(before, now);
      const double next = cubic_minimum(before, now, now.t + 0.01 * (now.t - before.t), now.t * 10);
      before = std::exchange(now, evaluate_(next));
    }
    return now.value < start_.value ? now : start_;
  }

 private:
  bool is_too_high(const LinePoint& point) const {  // NaN is, too
    return !(point.value <= start_.value + decrease * point.t * start_.slope);
  }
  bool is_flat(const LinePoint& point) const {
    return std::abs(point.slope) <= -curvature * start_.slope;
  }

  // A wanted point lies between the two; the low end never is too high itself, so that it lies
  // there after each step.
  LinePoint narrow(LinePoint low, LinePoint high) {
    if (!is_too_high(high) && high.value < low.value) std::swap(low, high);
    bool near_an_end = false;
    for (; evaluations_ < most_evaluations; ++evaluations_) {
      if (std::abs(high.t - low.t) < narrowest_) break;
      const LinePoint now = evaluate_(inner(low, high, near_an_end));
      if (is_too_high(now) || now.value >= low.value) {
        high = now;
        continue;
      }
      if (is_flat(now)) return now;
      if (now.slope * (high.t - low.t) >= 0) high = low;
      low = now;
    }
    return low;
  }

  // The next t: that of the cubic, but a tenth away from an end that it is near twice in a row.
  static double inner(const LinePoint& low, const LinePoint& high, bool& near_an_end) {
    const auto [least, most] = std::minmax({low.t, high.t});
    double t = cubic_minimum(low, high, least, most);
    const double margin = 0.1 * (most - least);
    const bool was_near = std::exchange(near_an_end, std::min(most - t, t - least) < margin);
    if (near_an_end && (was_near || t >= most || t <= least)) {
      t = std::abs(t - most) < std::abs(t - least) ? most - margin : least + margin;
      near_an_end = false;
    }
    return t;
  }

  const LineFunction& evaluate_;
  const LinePoint& start_;
  const double narrowest_;
  int evaluations_ = 0;  // behind the first
};

}  // namespace

LinePoint strong_wolfe(const LineFunction& evaluate, const LinePoint& start, double t,
                       double narrowest) {
  return Search(evaluate, start, narrowest).run(t);
}

}  // namespace adret
