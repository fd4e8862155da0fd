// Images (N, H, W, C) in other sizes: weighted sums along both directions.
#pragma once

#include <adret/core/kernels/operand.h>

#include <algorithm>
#include <cstdint>
#include <string>

namespace adret::kernels {

enum class Resampling : uint8_t { nearest, bilinear, area };
const char* to_string(Resampling mode);

struct ResampleParams {
  Resampling mode = Resampling::nearest;
  bool align_corners = false;  // bilinear alone
  bool operator==(const ResampleParams&) const = default;
};
std::string to_string(const ResampleParams& params);

// y (N, OH, OW, C): each place of it is a sum over some rows and columns of x (N, H, W, C), whose
// weights are products of one for the row and one for the column: see ResampleLine. There is at
// least one pixel on both sides, and at most 2^31 - 1 in a direction.
struct ResampleForward {
  static constexpr const char* name = "resample_forward";
  TensorView x, y;
  ResampleParams resample;

  auto inputs() const { return operands(Operand{"x", x}); }
  auto outputs() const { return operands(Operand{"y", y}); }
  double flops() const {
    return resample.mode == Resampling::nearest ? 0 : 2.0 * double(std::max(x.numel(), y.numel()));
  }
  std::string params() const { return to_string(resample); }
};

// Its transpose: each place of dx is a sum over the places of dy that it has a weight in.
struct ResampleBackward {
  static constexpr const char* name = "resample_backward";
  TensorView dy, dx;
  ResampleParams resample;

  auto inputs() const { return operands(Operand{"dy", dy}); }
  auto outputs() const { return operands(Operand{"dx", dx}); }
  double flops() const { return 2.0 * double(std::max(dy.numel(), dx.numel())); }
  std::string params() const { return to_string(resample); }
};

}  // namespace adret::kernels
