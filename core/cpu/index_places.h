// Indices along a dimension of a tensor, as kernels read them.
#pragma once

#include <adret/core/cpu/lines.h>
#include <adret/core/tensor_view.h>

#include <cstdint>

namespace adret::cpu {

// Of a tensor of the shape `lines`: each element's own, or the same for all at a place.
class Indices {
 public:
  Indices(const TensorView& view, const Lines& lines)
      : view_(view), alike_(view.shape.rank() == 1), lines_(lines) {}

  bool alike() const { return alike_; }
  // Of element (outer, place, column).
  int64_t operator()(int64_t outer, int64_t place, int64_t column) const {
    const int64_t at = alike_ ? place : (outer * lines_.length + place) * lines_.inner + column;
    return view_.dtype == DType::i32 ? view_.as<int32_t>()[at] : view_.as<int64_t>()[at];
  }

 private:
  TensorView view_;
  bool alike_;
  Lines lines_;
};

}  // namespace adret::cpu
