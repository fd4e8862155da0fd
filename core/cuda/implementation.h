// Which implementation runs pooling, activations and softmax: our own kernels, or cuDNN's functions
// for them.
#pragma once

#include <adret/core/cuda/cudnn_layers.h>

#include <string>

namespace adret::cuda {

enum class Implementation { fastest, own, cudnn };

// "own", "cudnn", or "fastest", which nothing means too. Throws DeviceError for other values.
Implementation parse_implementation(const std::string& value);
// What the environment variable ADRET_CUDA_LAYERS asks for, read once: tests and benchmarks run
// both. Throws as above.
Implementation asked_implementation();

// Whether cuDNN was measured to be the faster one for the call's shape: docs/cuda-layers.md has the
// table. In f64 our own run.
bool cudnn_is_faster(const kernels::AvgPool2dForward& call);
bool cudnn_is_faster(const kernels::AvgPool2dBackward& call);
bool cudnn_is_faster(const kernels::SoftmaxForward& call);
bool cudnn_is_faster(const kernels::SoftmaxBackward& call);
template <class K>
bool cudnn_is_faster(const K&) {
  return false;
}

// What cuDNN cannot express is always run by our own kernels.
template <class K>
bool runs_on_cudnn(const K& call) {
  const Implementation asked = asked_implementation();
  return asked != Implementation::own &&
         (asked == Implementation::cudnn || cudnn_is_faster(call)) && cudnn_can(call);
}

}  // namespace adret::cuda
