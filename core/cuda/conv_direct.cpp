// Which of our kernels suit a convolution.
#include <adret/core/cuda/conv_direct.h>
#include <adret/core/cuda/conv_own.h>

namespace adret::cuda {

bool can_run(const Context& context, DirectKernel kernel, const ConvProblem& problem) {
  switch (kernel) {
    case DirectKernel::general: return true;
    case DirectKernel::tiled:
      return tiled_can_run(context, problem) &&
             int64_t(tiled_workspace(context, problem)) <= problem.workspace_limit;
    case DirectKernel::depthwise:
      return depthwise_can_run(problem) &&
             int64_t(depthwise_workspace(context, problem)) <= problem.workspace_limit;
    case DirectKernel::tensor:
      return tensor_can_run(context, problem) &&
             int64_t(tensor_workspace(context, problem)) <= problem.workspace_limit;
    case DirectKernel::wide:
      return wide_can_run(context, problem) &&
             int64_t(wide_workspace(context, problem)) <= problem.workspace_limit;
  }
  return false;
}

size_t workspace_of(const Context& context, DirectKernel kernel, const ConvProblem& problem) {
  switch (kernel) {
    case DirectKernel::general: return 0;
    case DirectKernel::tiled: return tiled_workspace(context, problem);
    case DirectKernel::depthwise: return depthwise_workspace(context, problem);
    case DirectKernel::tensor: return tensor_workspace(context, problem);
    case DirectKernel::wide: return wide_workspace(context, problem);
  }
  return 0;
}

// Libraries' kernels on tensor cores need some 16 channels; with fewer, or few operations, it is
// loads and launches that count, not products.
bool can_win(DirectKernel kernel, const ConvProblem& problem) {
  switch (kernel) {
    case DirectKernel::general: return problem.multiply_adds() < 1e6;
    case DirectKernel::tiled:
      return problem.multiply_adds() < (problem.channels() <= 8 ? 5e9 : 5e8);
    case DirectKernel::depthwise:
    case DirectKernel::tensor:
    case DirectKernel::wide: return true;
  }
  return false;
}

std::optional<DirectKernel> direct_favourite(const Context& context, const ConvProblem& problem) {
  if (can_run(context, DirectKernel::depthwise, problem)) return DirectKernel::depthwise;
  // Tiles for all multiprocessors.
  if (problem.n * problem.oh * problem.ow >= 32'768 &&
      can_run(context, DirectKernel::wide, problem)) {
    return DirectKernel::wide;
  }
  const bool has_few_channels = problem.channels() <= 16 && problem.outputs() <= 32;
  const bool is_first_layer = problem.channels() <= 4 && problem.outputs() <= 64;
  if ((is_first_layer || (has_few_channels && problem.multiply_adds() < 5e9)) &&
      can_run(context, DirectKernel::tensor, problem)) {
    return DirectKernel::tensor;
  }
  if (has_few_channels && problem.multiply_adds() < 3e8 &&
      can_run(context, DirectKernel::tiled, problem)) {
    return DirectKernel::tiled;
  }
  return std::nullopt;
}

bool sums_bias(DirectKernel kernel) { return kernel == DirectKernel::tensor; }

void run_direct(Context& context, DirectKernel kernel, const ConvProblem& problem,
                const ConvOperands& operands, void* workspace) {
  switch (kernel) {
    case DirectKernel::general: return run_general(context, problem, operands);
    case DirectKernel::tiled: return run_tiled(context, problem, operands, workspace);
    case DirectKernel::depthwise: return run_depthwise(context, problem, operands, workspace);
    case DirectKernel::tensor: return run_tensor(context, problem, operands, workspace);
    case DirectKernel::wide: return run_wide(context, problem, operands, workspace);
  }
}

}  // namespace adret::cuda
