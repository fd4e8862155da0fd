// Pooling layers.
#pragma once

#include <adret/autograd/ops/pool.h>
#include <adret/layers/module.h>

namespace adret {

// (N, H, W, C) -> (N, OH, OW, C), see max_pool2d. The stride defaults to the kernel. The
// constructors throw Error for sizes out of range.
class MaxPool2d : public Layer<MaxPool2d> {
 public:
  explicit MaxPool2d(Size2 kernel, const Pool2dOptions& options = {});
  Tensor forward(const Tensor& x) { return max_pool2d(x, kernel, options); }
  MaxPool2d rebuild() const { return MaxPool2d(kernel, options); }

  const Size2 kernel;
  const Pool2dOptions options;
};

class AvgPool2d : public Layer<AvgPool2d> {
 public:
  explicit AvgPool2d(Size2 kernel, const Pool2dOptions& options = {});
  Tensor forward(const Tensor& x) { return avg_pool2d(x, kernel, options); }
  AvgPool2d rebuild() const { return AvgPool2d(kernel, options); }

  const Size2 kernel;
  const Pool2dOptions options;
};

// (N, H, W, C) -> (N, C).
class GlobalAvgPool2d : public Layer<GlobalAvgPool2d> {
 public:
  Tensor forward(const Tensor& x) { return global_avg_pool2d(x); }
  GlobalAvgPool2d rebuild() const { return GlobalAvgPool2d(); }
};

}  // namespace adret
