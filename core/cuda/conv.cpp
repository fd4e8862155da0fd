// Convolution in its three directions, each by the plan that its problem has.
#include <adret/core/cuda/conv_direct.h>
#include <adret/core/cuda/conv_plan.h>
#include <adret/core/cuda/conv_problem.h>
#include <adret/core/cuda/kernels.h>
#include <adret/core/cuda/memory.h>

namespace adret::cuda {
namespace {

void run(Context& context, const ConvCall& call) {
  ConvPlanCache::of(context).run(call.problem, call.operands);
}

}  // namespace

void run(Context& context, const kernels::Conv2dForward& call) {
  if (call.y.numel() > 0) run(context, conv_call(call));
}

void run(Context& context, const kernels::Conv2dBackwardInput& call) {
  if (call.dx.numel() == 0) return;
  if (call.dy.numel() == 0) return clear(context, call.dx);
  run(context, conv_call(call));
}

void run(Context& context, const kernels::Conv2dBackwardWeight& call) {
  const bool has_weight = call.dweight.defined() && call.dweight.numel() > 0;
  if (has_weight && call.dy.numel() > 0 && call.x.numel() > 0) {
    return run(context, conv_call(call));
  }
  if (call.dbias.defined()) {
    const int64_t outputs = call.dbias.numel();
    column_sums(context, call.dy.dtype, call.dy.data, call.dbias.data,
                outputs > 0 ? call.dy.numel() / outputs : 0, outputs);
  }
  if (has_weight) clear(context, call.dweight);
}

}  // namespace adret::cuda
