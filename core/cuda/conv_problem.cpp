// Problems from kernel calls, their text, and which of cuDNN's engines may solve them.
#include <adret/core/cuda/conv_problem.h>
#include <fmt/core.h>

#include <algorithm>

namespace adret::cuda {
namespace {

uint8_t alignment_of(const void* data) {
  const auto address = reinterpret_cast<uintptr_t>(data);
  return uint8_t(address == 0 ? 16 : std::min<uintptr_t>(16, address & (~address + 1)));
}

ConvCall make(ConvDirection direction, const TensorView& x, const TensorView& weight,
              const TensorView& y, const kernels::Conv2dParams& params, MathMode math) {
  const ComputeMode& mode = compute_mode();
  const ConvProblem problem{.n = x.shape[0],
                            .h = x.shape[1],
                            .w = x.shape[2],
                            .c = x.shape[3],
                            .o = weight.shape[0],
                            .kh = weight.shape[1],
                            .kw = weight.shape[2],
                            .oh = y.shape[1],
                            .ow = y.shape[2],
                            .stride_h = params.stride.h,
                            .stride_w = params.stride.w,
                            .padding_h = params.padding.h,
                            .padding_w = params.padding.w,
                            .dilation_h = params.dilation.h,
                            .dilation_w = params.dilation.w,
                            .groups = params.groups,
                            .workspace_limit = int64_t(mode.workspace_limit),
                            .x_alignment = alignment_of(x.data),
                            .weight_alignment = alignment_of(weight.data),
                            .y_alignment = alignment_of(y.data),
                            .bias_alignment = 0,
                            .direction = direction,
                            .dtype = x.dtype,
                            .math = x.dtype == DType::f32 ? math : MathMode::exact,
                            .search = mode.plans,
                            .relu = false,
                            .deterministic = mode.deterministic,
                            .unused = {}};
  return {problem, {x.data, weight.data, y.data}};
}

}  // namespace

ConvCall conv_call(const kernels::Conv2dForward& call) {
  ConvCall made = make(ConvDirection::forward, call.x, call.weight, call.y, call.conv, call.math);
  if (call.bias.defined()) {
    made.problem.bias_alignment = alignment_of(call.bias.data);
    made.operands.bias = call.bias.data;
  }
  made.problem.relu = call.activation == kernels::Activation::relu;
  return made;
}

ConvCall conv_call(const kernels::Conv2dBackwardInput& call) {
  return make(ConvDirection::backward_input, call.dx, call.weight, call.dy, call.conv, call.math);
}

ConvCall conv_call(const kernels::Conv2dBackwardWeight& call) {
  ConvCall made =
      make(ConvDirection::backward_weight, call.x, call.dweight, call.dy, call.conv, call.math);
  if (call.dbias.defined()) {
    made.problem.bias_alignment = alignment_of(call.dbias.data);
    made.operands.bias = call.dbias.data;
  }
  return made;
}

std::string to_string(const ConvProblem& p) {
  static constexpr const char* directions[] = {"forward", "backward_input", "backward_weight"};
  return fmt::format(
      "{} {} x {}x{}x{}x{} weight {}x{}x{} y {}x{} stride {}x{} padding {}x{} dilation {}x{} "
      "groups {}{}{} {}{} aligned {} {} {} {} workspace {}",
      directions[size_t(p.direction)], name(p.dtype), p.n, p.h, p.w, p.c, p.o, p.kh, p.kw, p.oh,
      p.ow, p.stride_h, p.stride_w, p.padding_h, p.padding_w, p.dilation_h, p.dilation_w, p.groups,
      p.has_bias() ? " bias" : "", p.relu ? " relu" : "",
      p.math == MathMode::exact ? "exact" : "tf32", p.deterministic ? " deterministic" : "",
      p.x_alignment, p.weight_alignment, p.y_alignment, p.bias_alignment, p.workspace_limit);
}

Graph::Convolution graph_of(const ConvProblem& p, bool with_bias) {
  Graph::Convolution graph{
      .direction = p.direction,
      .x = {Graph::x_id, p.dtype, {p.n, p.c, p.h, p.w}, p.x_alignment},
      .weight = {Graph::weight_id, p.dtype, {p.o, p.channels(), p.kh, p.kw}, p.weight_alignment},
      .y = {Graph::y_id, p.dtype, {p.n, p.o, p.oh, p.ow}, p.y_alignment},
      .params = p.params()};
  if (with_bias && p.adds_bias()) {
    graph.bias = GraphTensor{Graph::bias_id, p.dtype, {1, p.o, 1, 1}, p.bias_alignment};
  }
  return graph;
}

// Winograd and Fourier transforms cost several bits of an f32 result, tensor cores thirteen.
bool is_allowed(const EngineConfig& config, const ConvProblem& problem) {
  if (config.workspace > problem.workspace_limit) return false;
  if (problem.deterministic && config.has(CUDNN_NUMERICAL_NOTE_NONDETERMINISTIC)) return false;
  if (config.has(CUDNN_NUMERICAL_NOTE_DOWN_CONVERT_INPUTS) ||
      config.has(CUDNN_NUMERICAL_NOTE_REDUCED_PRECISION_REDUCTION) ||
      config.has(CUDNN_NUMERICAL_NOTE_WINOGRAD) || config.has(CUDNN_NUMERICAL_NOTE_FFT)) {
    return false;
  }
  return problem.dtype != DType::f32 || problem.math == MathMode::tf32 ||
         !config.has(CUDNN_NUMERICAL_NOTE_TENSOR_CORE);
}

}  // namespace adret::cuda
