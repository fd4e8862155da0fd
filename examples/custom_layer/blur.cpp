// The blur's kernel for the CPU, and its node.
#include "blur.h"

#include <adret/autograd/node.h>
#include <adret/core/kernels/kernel.h>
#include <adret/core/scope.h>
#include <adret/core/thread_pool.h>

#include <vector>

namespace custom_layer {
namespace {

// Rows of all images, one after another; each first along its column, then along itself.
template <class T, class Sum>
void blur_images(const T* x, T* y, const Shape& shape) {
  const int64_t height = shape[1], channels = shape[3], row = shape[2] * channels;
  parallel_for(shape[0] * height, 16, [&](int64_t begin, int64_t end) {
    std::vector<Sum> sums(size_t(row + 2 * channels));  // zeros beside the image's columns
    Sum* const column = sums.data() + channels;
    for (int64_t r = begin; r < end; ++r) {
      const T* const here = x + r * row;
      const T* const above = r % height > 0 ? here - row : nullptr;
      const T* const below = r % height < height - 1 ? here + row : nullptr;
      for (int64_t i = 0; i < row; ++i) column[i] = 2 * Sum(here[i]);
      if (above)
        for (int64_t i = 0; i < row; ++i) column[i] += Sum(above[i]);
      if (below)
        for (int64_t i = 0; i < row; ++i) column[i] += Sum(below[i]);
      for (int64_t i = 0; i < row; ++i) {
        y[r * row + i] = T((column[i - channels] + 2 * column[i] + column[i + channels]) / 16);
      }
    }
  });
}

struct BlurKernel final : CustomKernel {
  const char* name() const override { return "blur"; }

  void run_cpu(Views in, Views out) const override {
    const auto run = [&]<class T, class Sum>() {
      blur_images<T, Sum>(in[0].as<T>(), out[0].as<T>(), in[0].shape);
    };
    switch (in[0].dtype) {
      case DType::f64: return run.operator()<double, double>();
      case DType::bf16: return run.operator()<bfloat16, float>();
      case DType::f16: return run.operator()<float16, float>();
      default: return run.operator()<float, float>();
    }
  }
  double flops(Views in, Views) const override { return 8.0 * double(in[0].numel()); }
};

// The weights are the same to the left and to the right, so an image's gradient is the blurred
// gradient of the result.
struct BlurBackward final : Node {
  const char* name() const override { return "blur"; }
  std::vector<Tensor> backward(const std::vector<Tensor>& grads) override {
    return {blur(grads[0])};
  }
};

}  // namespace

Tensor blur(const Tensor& images) {
  if (images.rank() != 4 || !is_floating(images.dtype())) {
    throw ShapeError("[blur] wanted floating images (N, H, W, C), got " + to_string(images));
  }
  static const BlurKernel kernel;
  const FunctionScope scope("blur");  // the name in errors and profiles
  const Tensor y = Tensor::empty(images.shape(), {images.dtype(), images.device()});
  const TensorView in = images, out = y;
  run(kernels::Custom{.kernel = &kernel, .in = {&in, 1}, .out = {&out, 1}});
  record<BlurBackward>({y}, {images});
  return y;
}

}  // namespace custom_layer
