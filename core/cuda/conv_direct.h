// Our own convolution kernels: for everything that cuDNN has no engine for, and where they are
// faster: small problems, and 64 channels on Hopper.
#pragma once

#include <adret/core/cuda/context.h>
#include <adret/core/cuda/conv_problem.h>

#include <cstddef>
#include <optional>

namespace adret::cuda {

// The choices of every process that has these kernels: a file of choices names them by number.
enum class DirectKernel : uint8_t {
  general,    // everything
  tiled,      // few channels: the weights and a piece of an image in shared memory
  depthwise,  // one input channel a group
  tensor,     // few channels, on tensor cores
  wide,       // 64 channels to 64 by 3x3, on Hopper's tensor cores
};
inline constexpr DirectKernel direct_kernels[] = {DirectKernel::general, DirectKernel::tiled,
                                                  DirectKernel::depthwise, DirectKernel::tensor,
                                                  DirectKernel::wide};

// The one that beats what cuDNN would suggest first, where one does.
std::optional<DirectKernel> direct_favourite(const Context& context, const ConvProblem& problem);
// Whether it is worth a place in a race: it is not many times slower than tensor cores.
bool can_win(DirectKernel kernel, const ConvProblem& problem);
bool can_run(const Context& context, DirectKernel kernel, const ConvProblem& problem);
size_t workspace_of(const Context& context, DirectKernel kernel, const ConvProblem& problem);
// A forward one adds the bias and applies ReLU too; of a weight's gradient sums_bias() tells
// whether it writes the bias's.
bool sums_bias(DirectKernel kernel);
void run_direct(Context& context, DirectKernel kernel, const ConvProblem& problem,
                const ConvOperands& operands, void* workspace);

// sums (columns) = the sum over the rows of data (rows, columns); zero for no rows.
void column_sums(const Context& context, DType dtype, const void* data, void* sums, int64_t rows,
                 int64_t columns);
// The same of `parts` in the accumulator's type of `dtype`, which sums have.
void column_sums_of_parts(const Context& context, DType dtype, const void* parts, void* sums,
                          int64_t rows, int64_t columns);

}  // namespace adret::cuda
