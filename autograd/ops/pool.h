// Pooling of sequences (N, L, C), images (N, H, W, C) and volumes (N, D, H, W, C).
#pragma once

#include <adret/core/size3.h>
#include <adret/core/tensor.h>

namespace adret {

template <class Size>
struct PoolOptions {
  Size stride = 0;   // 0: the kernel size
  Size padding = 0;  // at most half the kernel
  // Rounds output sizes up; a window that would start in the trailing padding is dropped.
  bool ceil_mode = false;
  bool count_include_pad = true;  // average only
};
using Pool1dOptions = PoolOptions<int64_t>;
using Pool2dOptions = PoolOptions<Size2>;
using Pool3dOptions = PoolOptions<Size3>;

// x (N, H, W, C) -> (N, OH, OW, C) with OH = (H + 2 padding - kernel) / stride + 1, rounded down;
// others alike. Throws ShapeError when the kernel is larger than the padded image or the padding
// too large.
//
// Padding never wins; the first of equal elements gets the gradient; NaN wins. An average of
// volumes is rounded to x's dtype twice: over H and W, then over D.
Tensor max_pool1d(const Tensor& x, int64_t kernel, const Pool1dOptions& options = {});
Tensor max_pool2d(const Tensor& x, Size2 kernel, const Pool2dOptions& options = {});
Tensor max_pool3d(const Tensor& x, Size3 kernel, const Pool3dOptions& options = {});
Tensor avg_pool1d(const Tensor& x, int64_t kernel, const Pool1dOptions& options = {});
Tensor avg_pool2d(const Tensor& x, Size2 kernel, const Pool2dOptions& options = {});
Tensor avg_pool3d(const Tensor& x, Size3 kernel, const Pool3dOptions& options = {});
// The mean and the largest element of each channel: (N, H, W, C) -> (N, C).
Tensor global_avg_pool2d(const Tensor& x);
Tensor global_max_pool2d(const Tensor& x);

// The largest and the mean of each of size.h x size.w areas that cover the image, the first from
// floor(i H / size.h) to ceil((i + 1) H / size.h) - 1: (N, H, W, C) -> (N, size.h, size.w, C),
// others alike; ties and NaN as above. Throws ShapeError for other ranks and empty images or sizes.
Tensor adaptive_max_pool1d(const Tensor& x, int64_t size);
Tensor adaptive_max_pool2d(const Tensor& x, Size2 size);
Tensor adaptive_max_pool3d(const Tensor& x, Size3 size);
Tensor adaptive_avg_pool1d(const Tensor& x, int64_t size);
Tensor adaptive_avg_pool2d(const Tensor& x, Size2 size);
Tensor adaptive_avg_pool3d(const Tensor& x, Size3 size);

}  // namespace adret
