// Pooling layers of sequences, images and volumes. The constructors throw Error for sizes out of
// range.
#pragma once

#include <adret/autograd/ops/pool.h>
#include <adret/layers/module.h>

namespace adret {

// (N, L, C) -> (N, OL, C), see max_pool1d. The stride defaults to the kernel.
class MaxPool1d : public Layer<MaxPool1d> {
 public:
  explicit MaxPool1d(int64_t kernel, const Pool1dOptions& options = {});
  Tensor forward(const Tensor& x) { return max_pool1d(x, kernel, options); }
  MaxPool1d rebuild() const { return MaxPool1d(kernel, options); }

  const int64_t kernel;
  const Pool1dOptions options;
};

class AvgPool1d : public Layer<AvgPool1d> {
 public:
  explicit AvgPool1d(int64_t kernel, const Pool1dOptions& options = {});
  Tensor forward(const Tensor& x) { return avg_pool1d(x, kernel, options); }
  AvgPool1d rebuild() const { return AvgPool1d(kernel, options); }

  const int64_t kernel;
  const Pool1dOptions options;
};

// (N, H, W, C) -> (N, OH, OW, C), see max_pool2d. The stride defaults to the kernel.
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

// (N, D, H, W, C) -> (N, OD, OH, OW, C), see max_pool3d. The stride defaults to the kernel.
class MaxPool3d : public Layer<MaxPool3d> {
 public:
  explicit MaxPool3d(Size3 kernel, const Pool3dOptions& options = {});
  Tensor forward(const Tensor& x) { return max_pool3d(x, kernel, options); }
  MaxPool3d rebuild() const { return MaxPool3d(kernel, options); }

  const Size3 kernel;
  const Pool3dOptions options;
};

class AvgPool3d : public Layer<AvgPool3d> {
 public:
  explicit AvgPool3d(Size3 kernel, const Pool3dOptions& options = {});
  Tensor forward(const Tensor& x) { return avg_pool3d(x, kernel, options); }
  AvgPool3d rebuild() const { return AvgPool3d(kernel, options); }

  const Size3 kernel;
  const Pool3dOptions options;
};

// (N, H, W, C) -> (N, C).
class GlobalAvgPool2d : public Layer<GlobalAvgPool2d> {
 public:
  Tensor forward(const Tensor& x) { return global_avg_pool2d(x); }
  GlobalAvgPool2d rebuild() const { return GlobalAvgPool2d(); }
};

class GlobalMaxPool2d : public Layer<GlobalMaxPool2d> {
 public:
  Tensor forward(const Tensor& x) { return global_max_pool2d(x); }
  GlobalMaxPool2d rebuild() const { return GlobalMaxPool2d(); }
};

// (N, H, W, C) -> (N, size.h, size.w, C) and the like, see adaptive_max_pool2d.
class AdaptiveMaxPool1d : public Layer<AdaptiveMaxPool1d> {
 public:
  explicit AdaptiveMaxPool1d(int64_t size);
  Tensor forward(const Tensor& x) { return adaptive_max_pool1d(x, size); }
  AdaptiveMaxPool1d rebuild() const { return AdaptiveMaxPool1d(size); }

  const int64_t size;
};

class AdaptiveMaxPool2d : public Layer<AdaptiveMaxPool2d> {
 public:
  explicit AdaptiveMaxPool2d(Size2 size);
  Tensor forward(const Tensor& x) { return adaptive_max_pool2d(x, size); }
  AdaptiveMaxPool2d rebuild() const { return AdaptiveMaxPool2d(size); }

  const Size2 size;
};

class AdaptiveMaxPool3d : public Layer<AdaptiveMaxPool3d> {
 public:
  explicit AdaptiveMaxPool3d(Size3 size);
  Tensor forward(const Tensor& x) { return adaptive_max_pool3d(x, size); }
  AdaptiveMaxPool3d rebuild() const { return AdaptiveMaxPool3d(size); }

  const Size3 size;
};

}  // namespace adret
