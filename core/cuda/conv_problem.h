// One convolution as what decides how it is run: the key of its plan.
#pragma once

#include <adret/core/compute_mode.h>
#include <adret/core/cuda/cudnn_graph.h>
#include <adret/core/kernels/conv.h>

#include <cstdint>
#include <string>
#include <type_traits>

namespace adret::cuda {

// x (n, h, w, c), weight (o, kh, kw, c / groups), y (n, oh, ow, o), or their gradients. No byte of
// it is padding, so that it can be hashed and compared as bytes.
struct ConvProblem {
  int64_t n, h, w, c, o, kh, kw, oh, ow;
  int64_t stride_h, stride_w, padding_h, padding_w, dilation_h, dilation_w, groups;
  int64_t workspace_limit;
  // How the addresses are aligned, 16 bytes at most; 0 for a bias (or, with a weight's gradient,
  // its gradient) that is not there.
  uint8_t x_alignment, weight_alignment, y_alignment, bias_alignment;
  ConvDirection direction;
  DType dtype;
  MathMode math;
  PlanSearch search;
  bool relu, deterministic;
  uint8_t unused[6];

  bool has_bias() const { return bias_alignment != 0; }
  bool adds_bias() const { return has_bias() && direction == ConvDirection::forward; }
  bool sums_bias() const { return has_bias() && direction == ConvDirection::backward_weight; }
  kernels::Conv2dParams params() const {
    return {.stride = {stride_h, stride_w},
            .padding = {padding_h, padding_w},
            .dilation = {dilation_h, dilation_w},
            .groups = groups};
  }
  int64_t channels() const { return c / groups; }  // of a group
  int64_t outputs() const { return o / groups; }
  double multiply_adds() const {
    return double(n) * double(oh * ow) * double(o) * double(kh * kw * channels());
  }
  bool operator==(const ConvProblem&) const = default;
};
static_assert(std::has_unique_object_representations_v<ConvProblem>);

// Where a problem's operands are, outputs among them.
struct ConvOperands {
  void* x;
  void* weight;
  void* y;
  void* bias = nullptr;
};

struct ConvCall {
  ConvProblem problem;
  ConvOperands operands;
};
// With the thread's compute mode.
ConvCall conv_call(const kernels::Conv2dForward& call);
ConvCall conv_call(const kernels::Conv2dBackwardInput& call);
// Of the weight's gradient, which must be defined, and the bias's if it is.
ConvCall conv_call(const kernels::Conv2dBackwardWeight& call);

// One line with all that a choice depends on, for files of choices.
std::string to_string(const ConvProblem& problem);

// As a graph of cuDNN's, with the bias (if one is added) or without. ReLU is never in it: only
// engines with the note STRICT_NAN_PROP, which are slow, promise not to turn NaN into 0.
Graph::Convolution graph_of(const ConvProblem& problem, bool with_bias);

// Whether an engine keeps what the compute mode promises: exactness, determinism, workspace.
bool is_allowed(const EngineConfig& config, const ConvProblem& problem);

}  // namespace adret::cuda
