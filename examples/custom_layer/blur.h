// A blur of images with kernels of its own for the CPU and the GPU.
#pragma once

#include <adret/core/kernels/custom.h>
#include <adret/layers/module.h>

namespace custom_layer {

using namespace adret;

// Each channel of images (N, H, W, C) with the weights 1 2 1 in both directions, divided by 16; 0
// around the image. Before a stride or a pooling it keeps what is left out from showing up as
// something else (Zhang 2019, arXiv:1904.11486). Throws ShapeError for other ranks and dtypes.
Tensor blur(const Tensor& images);

// One kernel for both directions: blur.cpp runs it on the CPU, blur.cu on a GPU.
struct BlurKernel {
  static constexpr const char* name = "blur";
  bool operator==(const BlurKernel&) const = default;
  void run_cpu(const CustomCall& call) const;
};

struct Blur : Layer<Blur> {
  Tensor forward(const Tensor& images) { return blur(images); }
  Blur rebuild() const { return Blur(); }
};

}  // namespace custom_layer
