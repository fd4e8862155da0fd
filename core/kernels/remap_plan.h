// Where the elements of Remap come from and go to, dimension by dimension, in integers alone:
// compiled for every device.
#pragma once

#include <adret/core/kernels/index.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstdlib>
#include <optional>

namespace adret::kernels {

// Places of y that come from one place of x, in their order. The list is indexed by constants, so
// that a GPU keeps it in registers.
struct RemapPreimages {
  int64_t count = 0;
  int64_t stride = 0;  // 0: the places are listed
  int64_t places[3] = {};

  constexpr int64_t operator[](int64_t i) const {
    if (stride) return places[0] + i * stride;
    return i == 0 ? places[0] : i == 1 ? places[1] : places[2];
  }
  constexpr void add(int64_t place) {
    if (count == 0) {
      places[0] = place;
    } else if (count == 1) {
      places[1] = place;
    } else {
      places[2] = place;
    }
    ++count;
  }
};

// Places begin..end-1.
struct RemapRange {
  int64_t begin = 0, end = 0;
};

// One dimension.
struct RemapAxis {
  int64_t x_size = 1, y_size = 1, start = 0, step = 1;
  PadMode mode = PadMode::constant;

  // The place in x of place i of y; -1: outside.
  constexpr int64_t source(int64_t i) const {
    int64_t at = start + step * i;
    switch (mode) {
      case PadMode::reflect:
        if (at < 0) at = -at;
        return at < x_size ? at : 2 * (x_size - 1) - at;
      case PadMode::replicate: return at < 0 ? 0 : at < x_size ? at : x_size - 1;
      case PadMode::circular: at %= x_size; return at < 0 ? at + x_size : at;
      default: return at >= 0 && at < x_size ? at : -1;
    }
  }

  // The places i with source(i) == place.
  constexpr RemapPreimages preimages(int64_t place) const {
    RemapPreimages found;
    switch (mode) {
      case PadMode::reflect: {
        // Behind the mirrors and between them.
        const int64_t far = 2 * (x_size - 1) - place;
        const int64_t first = step > 0 ? -place : far, last = step > 0 ? far : -place;
        if (first != place) list(found, first);
        list(found, place);
        if (last != place) list(found, last);
        return found;
      }
      case PadMode::replicate: return held(place);
      case PadMode::circular: {
        const int64_t at = (place - start) * step % x_size;
        found.places[0] = at < 0 ? at + x_size : at;
        found.stride = x_size;
        if (found.places[0] < y_size) found.count = (y_size - 1 - found.places[0]) / x_size + 1;
        return found;
      }
      default: list(found, place); return found;
    }
  }

  // Most of the places that only place (place - start) * step of y comes from, if not all.
  constexpr RemapRange single() const {
    if (y_size == 0 || (step != 1 && step != -1)) return {};
    const int64_t last = start + step * (y_size - 1);
    const int64_t low = std::min(start, last), high = std::max(start, last);  // of y, before rules
    RemapRange range{std::max<int64_t>(0, low), std::min(x_size, high + 1)};
    switch (mode) {
      case PadMode::reflect:
        range.begin = std::max(range.begin, 1 - low);
        range.end = std::min(range.end, 2 * (x_size - 1) - high);
        break;
      case PadMode::replicate:
        range.begin = std::max<int64_t>(range.begin, 1);
        range.end = std::min(range.end, x_size - 1);
        break;
      case PadMode::circular:
        range.begin = std::max(range.begin, high - x_size + 1);
        range.end = std::min(range.end, low + x_size);
        break;
      default: break;
    }
    return range.begin < range.end ? range : RemapRange{};
  }

  // Whether nothing changes along it.
  constexpr bool is_identity() const { return start == 0 && step == 1 && x_size == y_size; }

 private:
  // The place that leads to `at` before it is mirrored, if y has it.
  constexpr void list(RemapPreimages& found, int64_t at) const {
    const int64_t way = at - start;
    int64_t place = way * step;
    if (step != 1 && step != -1) {  // else without a division
      if (way % step != 0) return;
      place = way / step;
    }
    if (place >= 0 && place < y_size) found.add(place);
  }
  // Those of replicate: an end stands for all beyond it.
  constexpr RemapPreimages held(int64_t place) const {
    RemapPreimages found;
    const bool is_first = place == 0, is_last = place == x_size - 1;
    if (!is_first && !is_last) {
      list(found, place);
      return found;
    }
    // In the direction of i: those up to the place, and those from it on.
    const int64_t own = (place - start) * step;
    const bool up_to = step > 0 ? is_first : is_last, from = step > 0 ? is_last : is_first;
    const int64_t begin = up_to || own < 0 ? 0 : own;
    const int64_t end = from || own >= y_size ? y_size : own + 1;
    found.stride = 1;
    found.places[0] = begin;
    found.count = end > begin ? end - begin : 0;
    return found;
  }
};

// The dimensions, inner ones merged into those around them where they move as one.
struct RemapPlan {
  int rank = 0;
  std::array<RemapAxis, Shape::max_rank> axes;

  // Of units of so many elements, by which the last dimension divides (see unit_limit).
  RemapPlan(const Shape& x, const Shape& y, const RemapParams& params, int64_t unit = 1) {
    for (int d = 0; d < x.rank(); ++d) {
      const auto at = size_t(d);
      RemapAxis axis{x[d], y[d], params.start[at], params.step[at], params.mode};
      if (axis.is_identity()) axis.mode = PadMode::constant;
      if (d == x.rank() - 1) {
        axis.x_size /= unit;
        axis.y_size /= unit;
      }
      add(axis);
    }
    if (rank == 0) add({});
  }

  RemapAxis& inner() { return axes[size_t(rank - 1)]; }
  const RemapAxis& inner() const { return axes[size_t(rank - 1)]; }
  // Steps from place to place in x and in y.
  std::array<int64_t, Shape::max_rank> x_strides() const { return strides(&RemapAxis::x_size); }
  std::array<int64_t, Shape::max_rank> y_strides() const { return strides(&RemapAxis::y_size); }

 private:
  void add(const RemapAxis& axis) {
    const bool moves_along =
        rank > 0 && inner().step == 1 &&
        (inner().mode == PadMode::constant || inner().mode == PadMode::circular);
    if (axis.is_identity() && moves_along) {
      inner().start *= axis.x_size;
      inner().x_size *= axis.x_size;
      inner().y_size *= axis.x_size;
    } else {
      axes[size_t(rank++)] = axis;
    }
  }
  std::array<int64_t, Shape::max_rank> strides(int64_t RemapAxis::*size) const {
    std::array<int64_t, Shape::max_rank> result{};
    int64_t step = 1;
    for (int d = rank; d-- > 0; step *= axes[size_t(d)].*size) result[size_t(d)] = step;
    return result;
  }
};

// The parameters that take y back to x where each place of x is in y at most once: then the
// gradient moves as x did. Nothing where places meet.
inline std::optional<RemapParams> inverse(const RemapParams& params, const Shape& x,
                                          const Shape& y) {
  RemapParams back{.mode = params.mode == PadMode::circular ? params.mode : PadMode::constant};
  for (int d = 0; d < x.rank(); ++d) {
    const auto at = size_t(d);
    const RemapAxis axis{x[d], y[d], params.start[at], params.step[at], params.mode};
    const bool is_alone = axis.is_identity() || params.mode == PadMode::constant ||
                          (params.mode == PadMode::circular && x[d] == y[d]);
    if (!is_alone || std::abs(axis.step) != 1) return {};
    back.step[at] = axis.step;
    back.start[at] = -axis.start * axis.step;
  }
  return back;
}

// How many elements of the last dimension move as one at most.
inline int64_t unit_limit(const Shape& x, const Shape& y, const RemapParams& params) {
  if (x.rank() == 0) return 1;
  const auto last = size_t(x.rank() - 1);
  const RemapAxis axis{x[-1], y[-1], params.start[last], params.step[last], params.mode};
  return axis.is_identity() ? x[-1] : 1;
}

}  // namespace adret::kernels
