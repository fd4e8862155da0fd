// Fills, copies, casts and functions of one operand.
#include <adret/core/cuda/kernels.h>
#include <adret/core/cuda/launch.h>

namespace adret::cuda {
namespace {

template <class T>
__global__ void fill(T* y, int64_t count, T value) {
  for (int64_t i = first_item(); i < count; i += all_threads()) y[i] = value;
}

}  // namespace

void run(Context& context, const kernels::Fill& call) {
  dispatch_all(call.y.dtype, [&](auto zero) {
    using T = decltype(zero);
    launch(context, fill<T>, grid_for(context, call.y.numel()), call.y.as<T>(), call.y.numel(),
           T(call.value));
  });
}

}  // namespace adret::cuda
