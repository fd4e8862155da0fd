// Depthwise convolution: every channel has a kernel and an output of its own.
#pragma once

#include <adret/core/cpu/conv_geometry.h>

namespace adret::cpu {

inline bool is_depthwise(const ConvGeometry& g) {
  return g.groups > 1 && g.group_channels == 1 && g.group_outputs == 1;
}

template <class T>
void depthwise_forward(const ConvGeometry& g, const kernels::Conv2dForward& call);
template <class T>
void depthwise_backward_input(const ConvGeometry& g, const kernels::Conv2dBackwardInput& call);
template <class T>
void depthwise_backward_weight(const ConvGeometry& g, const kernels::Conv2dBackwardWeight& call);

}  // namespace adret::cpu
