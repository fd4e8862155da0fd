// Pooling layers of sequences, images and volumes. The constructors throw Error for sizes out of
// range.
#pragma once

#include <adret/autograd/ops/pool.h>
#include <adret/layers/module.h>

namespace adret {

// The base of MaxPool1d to AvgPool3d. The stride defaults to the kernel.
template <class Self, class Size>
class PoolLayer : public Layer<Self> {
 public:
  Self rebuild() const { return Self(kernel, options); }

  const Size kernel;
  const PoolOptions<Size> options;

 protected:
  // `type` is the name of Self, for errors.
  PoolLayer(const char* type, const Size& kernel, const PoolOptions<Size>& options);
};

// (N, L, C) -> (N, OL, C), see max_pool1d.
class MaxPool1d : public PoolLayer<MaxPool1d, int64_t> {
 public:
  explicit MaxPool1d(int64_t kernel, const Pool1dOptions& options = {})
      : PoolLayer("MaxPool1d", kernel, options) {}
  Tensor forward(const Tensor& x) { return max_pool1d(x, kernel, options); }
};
class AvgPool1d : public PoolLayer<AvgPool1d, int64_t> {
 public:
  explicit AvgPool1d(int64_t kernel, const Pool1dOptions& options = {})
      : PoolLayer("AvgPool1d", kernel, options) {}
  Tensor forward(const Tensor& x) { return avg_pool1d(x, kernel, options); }
};

// (N, H, W, C) -> (N, OH, OW, C), see max_pool2d.
class MaxPool2d : public PoolLayer<MaxPool2d, Size2> {
 public:
  explicit MaxPool2d(Size2 kernel, const Pool2dOptions& options = {})
      : PoolLayer("MaxPool2d", kernel, options) {}
  Tensor forward(const Tensor& x) { return max_pool2d(x, kernel, options); }
};
class AvgPool2d : public PoolLayer<AvgPool2d, Size2> {
 public:
  explicit AvgPool2d(Size2 kernel, const Pool2dOptions& options = {})
      : PoolLayer("AvgPool2d", kernel, options) {}
  Tensor forward(const Tensor& x) { return avg_pool2d(x, kernel, options); }
};

// (N, D, H, W, C) -> (N, OD, OH, OW, C), see max_pool3d.
class MaxPool3d : public PoolLayer<MaxPool3d, Size3> {
 public:
  explicit MaxPool3d(Size3 kernel, const Pool3dOptions& options = {})
      : PoolLayer("MaxPool3d", kernel, options) {}
  Tensor forward(const Tensor& x) { return max_pool3d(x, kernel, options); }
};
class AvgPool3d : public PoolLayer<AvgPool3d, Size3> {
 public:
  explicit AvgPool3d(Size3 kernel, const Pool3dOptions& options = {})
      : PoolLayer("AvgPool3d", kernel, options) {}
  Tensor forward(const Tensor& x) { return avg_pool3d(x, kernel, options); }
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

// The base of AdaptiveMaxPool1d to AdaptiveAvgPool3d.
template <class Self, class Size>
class AdaptivePoolLayer : public Layer<Self> {
 public:
  Self rebuild() const { return Self(size); }

  const Size size;

 protected:
  // `type` is the name of Self, for errors.
  AdaptivePoolLayer(const char* type, const Size& size);
};

// (N, H, W, C) -> (N, size.h, size.w, C) and the like, see adaptive_max_pool2d and
// adaptive_avg_pool2d.
class AdaptiveMaxPool1d : public AdaptivePoolLayer<AdaptiveMaxPool1d, int64_t> {
 public:
  explicit AdaptiveMaxPool1d(int64_t size) : AdaptivePoolLayer("AdaptiveMaxPool1d", size) {}
  Tensor forward(const Tensor& x) { return adaptive_max_pool1d(x, size); }
};
class AdaptiveMaxPool2d : public AdaptivePoolLayer<AdaptiveMaxPool2d, Size2> {
 public:
  explicit AdaptiveMaxPool2d(Size2 size) : AdaptivePoolLayer("AdaptiveMaxPool2d", size) {}
  Tensor forward(const Tensor& x) { return adaptive_max_pool2d(x, size); }
};
class AdaptiveMaxPool3d : public AdaptivePoolLayer<AdaptiveMaxPool3d, Size3> {
 public:
  explicit AdaptiveMaxPool3d(Size3 size) : AdaptivePoolLayer("AdaptiveMaxPool3d", size) {}
  Tensor forward(const Tensor& x) { return adaptive_max_pool3d(x, size); }
};
class AdaptiveAvgPool1d : public AdaptivePoolLayer<AdaptiveAvgPool1d, int64_t> {
 public:
  explicit AdaptiveAvgPool1d(int64_t size) : AdaptivePoolLayer("AdaptiveAvgPool1d", size) {}
  Tensor forward(const Tensor& x) { return adaptive_avg_pool1d(x, size); }
};
class AdaptiveAvgPool2d : public AdaptivePoolLayer<AdaptiveAvgPool2d, Size2> {
 public:
  explicit AdaptiveAvgPool2d(Size2 size) : AdaptivePoolLayer("AdaptiveAvgPool2d", size) {}
  Tensor forward(const Tensor& x) { return adaptive_avg_pool2d(x, size); }
};
class AdaptiveAvgPool3d : public AdaptivePoolLayer<AdaptiveAvgPool3d, Size3> {
 public:
  explicit AdaptiveAvgPool3d(Size3 size) : AdaptivePoolLayer("AdaptiveAvgPool3d", size) {}
  Tensor forward(const Tensor& x) { return adaptive_avg_pool3d(x, size); }
};

extern template class PoolLayer<MaxPool1d, int64_t>;
extern template class PoolLayer<MaxPool2d, Size2>;
extern template class PoolLayer<MaxPool3d, Size3>;
extern template class PoolLayer<AvgPool1d, int64_t>;
extern template class PoolLayer<AvgPool2d, Size2>;
extern template class PoolLayer<AvgPool3d, Size3>;
extern template class AdaptivePoolLayer<AdaptiveMaxPool1d, int64_t>;
extern template class AdaptivePoolLayer<AdaptiveMaxPool2d, Size2>;
extern template class AdaptivePoolLayer<AdaptiveMaxPool3d, Size3>;
extern template class AdaptivePoolLayer<AdaptiveAvgPool1d, int64_t>;
extern template class AdaptivePoolLayer<AdaptiveAvgPool2d, Size2>;
extern template class AdaptivePoolLayer<AdaptiveAvgPool3d, Size3>;

}  // namespace adret
