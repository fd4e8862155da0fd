// The blur's kernel for the CPU, and its node.
#include "blur.h"

#include <adret/autograd/node.h>
#include <adret/core/scope.h>
#include <adret/core/thread_pool.h>

#include <vector>

namespace custom_layer {
namespace {

// Rows of all images, one after another; each first along its column, then along itself.
template <class T, class Sum>
void blur_images(const TensorView& images, const TensorView& blurred) {
  const T* const x = images.as<T>();
  T* const y = blurred.as<T>();
  const int64_t height = images.shape[1], channels = images.shape[3];
  const int64_t row = images.shape[2] * channels;
  parallel_for(images.shape[0] * height, 16, [&](int64_t begin, int64_t end) {
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

// The weights are the same to the left and to the right, so an image's gradient is the blurred
// gradient of the result.
struct BlurBackward final : Node {
  const char* name() const override { return "blur"; }
  std::vector<Tensor> backward(const std::vector<Tensor>& grads) override {
    return {blur(grads[0])};
  }
};

}  // namespace

void BlurKernel::run_cpu(const CustomCall& call) const {
  const TensorView &x = call.inputs[0], &y = call.outputs[0];
  switch (x.dtype) {
    case DType::f64: return blur_images<double, double>(x, y);
    case DType::bf16: return blur_images<bfloat16, float>(x, y);
    case DType::f16: return blur_images<float16, float>(x, y);
    default: return blur_images<float, float>(x, y);
  }
}

Tensor blur(const Tensor& images) {
  if (images.rank() != 4 || !is_floating(images.dtype())) {
    throw ShapeError("[blur] wanted floating images (N, H, W, C), got " + to_string(images));
  }
  const FunctionScope scope("blur");  // the name in errors and profiles
  const Tensor y = Tensor::empty(images.shape(), {images.dtype(), images.device()});
  run_custom(BlurKernel{}, {images}, {y});
  record<BlurBackward>({y}, {images});
  return y;
}

}  // namespace custom_layer
