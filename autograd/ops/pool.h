// Pooling of images (N, H, W, C).
#pragma once

#include <adret/core/size2.h>
#include <adret/core/tensor.h>

namespace adret {

struct Pool2dOptions {
  Size2 stride = 0;   // 0: the kernel size
  Size2 padding = 0;  // at most half the kernel
  // Rounds output sizes up; a window that would start in the trailing padding is dropped.
  bool ceil_mode = false;
  bool count_include_pad = true;  // average only
};

// x (N, H, W, C) -> (N, OH, OW, C) with OH = (H + 2 padding - kernel) / stride + 1, rounded down.
// Throws ShapeError when the kernel is larger than the padded image or the padding too large.
//
// Padding never wins; the first of equal elements gets the gradient; NaN wins.
Tensor max_pool2d(const Tensor& x, Size2 kernel, const Pool2dOptions& options = {});
Tensor avg_pool2d(const Tensor& x, Size2 kernel, const Pool2dOptions& options = {});
// The mean of each channel: (N, H, W, C) -> (N, C).
Tensor global_avg_pool2d(const Tensor& x);

}  // namespace adret
