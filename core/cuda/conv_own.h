// The kernels behind run_direct, each in a file of its own.
#pragma once

#include <adret/core/cuda/context.h>
#include <adret/core/cuda/conv_problem.h>

#include <cstddef>

namespace adret::cuda {

void run_general(const Context& context, const ConvProblem& problem, const ConvOperands& operands);

bool tiled_can_run(const Context& context, const ConvProblem& problem);
size_t tiled_workspace(const Context& context, const ConvProblem& problem);
void run_tiled(const Context& context, const ConvProblem& problem, const ConvOperands& operands,
               void* workspace);

bool depthwise_can_run(const ConvProblem& problem);
size_t depthwise_workspace(const Context& context, const ConvProblem& problem);
void run_depthwise(const Context& context, const ConvProblem& problem, const ConvOperands& operands,
                   void* workspace);

bool tensor_can_run(const Context& context, const ConvProblem& problem);
size_t tensor_workspace(const Context& context, const ConvProblem& problem);
void run_tensor(const Context& context, const ConvProblem& problem, const ConvOperands& operands,
                void* workspace);
// The weight's gradient among them, with the bias's if there is one.
bool tensor_weight_can_run(const Context& context, const ConvProblem& problem);
size_t tensor_weight_workspace(const Context& context, const ConvProblem& problem);
void run_tensor_weight(const Context& context, const ConvProblem& problem,
                       const ConvOperands& operands, void* workspace);

bool wide_can_run(const Context& context, const ConvProblem& problem);
size_t wide_workspace(const Context& context, const ConvProblem& problem);
void run_wide(const Context& context, const ConvProblem& problem, const ConvOperands& operands,
              void* workspace);
// The weight's gradient among them.
bool wide_weight_can_run(const Context& context, const ConvProblem& problem);
size_t wide_weight_workspace(const Context& context, const ConvProblem& problem);
void run_wide_weight(const Context& context, const ConvProblem& problem,
                     const ConvOperands& operands, void* workspace);

}  // namespace adret::cuda
