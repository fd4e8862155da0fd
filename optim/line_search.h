// A step length along a direction by the strong Wolfe conditions.
#pragma once

#include <adret/core/tensor.h>

#include <functional>

namespace adret {

// A function along a line x + t * direction.
struct LinePoint {
  double t = 0;
  double value = 0, slope = 0;  // slope: the gradient times the direction
  Tensor gradient;
};

using LineFunction = std::function<LinePoint(double t)>;

// A point that is low and flat enough, beginning with a guess t > 0:
//   value <= start.value + 1e-4 * t * start.slope and |slope| <= 0.9 * |start.slope|
// or the lowest one found when 25 more evaluations or brackets narrower than `narrowest` give none
// (Nocedal and Wright 2006, algorithms 3.5 and 3.6, with cubic interpolation). As PyTorch's, but
// for an end of a bracket that is low and yet too high, which PyTorch narrows towards. start.t is 0
// and its slope negative.
LinePoint strong_wolfe(const LineFunction& evaluate, const LinePoint& start, double t,
                       double narrowest);

}  // namespace adret
