// Which places along a direction make up which when images are resampled, and their weights, from
// the sizes in integers: compiled for every device.
#pragma once

#include <adret/core/kernels/resample.h>

#include <cstdint>

namespace adret::kernels {

// Places begin..end-1.
template <class Index>
struct ResampleRun {
  Index begin, end;
  constexpr Index count() const { return end - begin; }
};

// One direction, `from` places of x to `to` places of y. Place i of y lies at position(i) / unit
// among those of x. `nearest` takes the place before it, `bilinear` weighs the two around it, where
// the outermost count beyond the image, and `area` takes the mean from there to where place i + 1
// of y lies, rounded up. Divisor is that of cuda/fast_divisor.h or another like it, Weight a float.
template <class Weight, class Divisor>
class ResampleLine {
 public:
  using Index = typename Divisor::Index;
  using Run = ResampleRun<Index>;

  ResampleLine(const ResampleParams& params, int64_t from, int64_t to)
      : mode_(params.mode),
        from_(Index(from)),
        to_(Index(to)),
        step_(step(params, from)),
        ahead_(centred(params) ? from_ : 0),
        behind_(centred(params) ? to_ : 0),
        by_unit_(step(params, to)),
        by_step_(step_),
        inverse_(Weight(1) / Weight(unit())) {}

  // Whether all numbers are below 2^31.
  static constexpr bool fits_31_bits(int64_t from, int64_t to) {
    return 2 * (from + 2) <= INT32_MAX / (to + 2);
  }

  // The places of x in the sum of place i of y: two at most for `bilinear`, else one at least.
  constexpr Run sources(Index i) const {
    const Index at = position(i), first = by_unit_.quotient(at);
    switch (mode_) {
      case Resampling::nearest: return {first, first + 1};
      case Resampling::bilinear: return {first, first + (first * unit() < at ? 2 : 1)};
      default: return {first, by_unit_.quotient((i + 1) * step_ + unit() - 1)};
    }
  }

  // The places of y that have place j of x in their sum; there may be none.
  constexpr Run targets(Index j) const {
    const Index at = j * unit(), next = at + unit();
    switch (mode_) {
      case Resampling::nearest: return {steps_up(at), steps_up(next)};
      case Resampling::area: return {by_step_.quotient(at), steps_up(next)};
      default: break;
    }
    // Those behind place j - 1 and before place j + 1.
    const Index left = at + behind_, least = unit() + ahead_, right = next + behind_;
    const Index begin = left < least ? 0 : by_step_.quotient(left - least) + 1;
    const Index behind = right > ahead_ ? steps_up(right - ahead_) : 0;
    const Index end = j + 1 == from_ || behind > to_ ? to_ : behind;
    return {begin < end ? begin : end, end};
  }

  // Of place j of x in the sum of place i of y, if it is there.
  constexpr Weight weight(Index i, Index j) const {
    switch (mode_) {
      case Resampling::nearest: return 1;
      case Resampling::area: return Weight(1) / Weight(sources(i).count());
      default: break;
    }
    const Index at = position(i), place = j * unit();
    if (at == place) return 1;  // which a rounded inverse may miss
    return Weight(at < place ? at + unit() - place : place + unit() - at) * inverse_;
  }

 private:
  static constexpr bool centred(const ResampleParams& params) {
    return params.mode == Resampling::bilinear && !params.align_corners;
  }
  // Between neighbours, in units that are whole for both images.
  static constexpr Index step(const ResampleParams& params, int64_t size) {
    if (params.mode != Resampling::bilinear) return Index(size);
    if (!params.align_corners) return Index(2 * size);
    return Index(size > 1 ? size - 1 : 1);  // a single place lies at 0
  }
  constexpr Index unit() const { return by_unit_.divisor(); }
  constexpr Index steps_up(Index distance) const { return by_step_.quotient(distance + step_ - 1); }
  constexpr Index position(Index i) const {
    const Index end = i * step_ + ahead_, last = (from_ - 1) * unit();
    const Index at = end < behind_ ? 0 : end - behind_;
    return at < last ? at : last;
  }

  Resampling mode_;
  Index from_, to_, step_, ahead_, behind_;
  Divisor by_unit_, by_step_;
  Weight inverse_;
};

}  // namespace adret::kernels
