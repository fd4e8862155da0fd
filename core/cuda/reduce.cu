// Reductions: sums, means, products and extremes of floats.
#include <adret/core/cuda/kernels.h>
#include <adret/core/cuda/reduce_launch.h>

namespace adret::cuda {

using kernels::ReduceOp;

namespace {

// What the reduction of no elements gives.
double of_nothing(ReduceOp op) {
  constexpr double infinity = std::numeric_limits<double>::infinity();
  switch (op) {
    case ReduceOp::sum: return 0;
    case ReduceOp::mean: return std::numeric_limits<double>::quiet_NaN();
    case ReduceOp::max: return -infinity;
    case ReduceOp::min: return infinity;
    case ReduceOp::prod: return 1;
    case ReduceOp::norm: return 0;
    case ReduceOp::var: return std::numeric_limits<double>::quiet_NaN();
    case ReduceOp::logsumexp: return -infinity;
  }
  return 0;
}

}  // namespace

void run(Context& context, const kernels::Reduce& call) {
  const int64_t outputs = call.y.numel(), elements = call.x.numel();
  if (outputs == 0) return;
  if (elements == 0) {
    if (call.mean.defined()) {
      run(context, kernels::Fill{.y = call.mean, .value = of_nothing(ReduceOp::mean)});
    }
    return run(context, kernels::Fill{.y = call.y, .value = of_nothing(call.op)});
  }
  if (is_statistic(call.op)) return run_statistic(context, call);
  if (!is_floating(call.x.dtype)) return run_integer_reduction(context, call);
  dispatch_float(call.x.dtype, call.name, [&](auto zero) {
    using T = decltype(zero);
    using A = Accumulator<T>;
    if (elements == outputs) return run(context, kernels::Copy{.x = call.x, .y = call.y});
    const A divisor = call.op == ReduceOp::mean ? A(elements / outputs) : A(1);
    const auto with = [&]<class Kept>(Kept) {
      reduce<Kept, T>(context, call,
                      {.data = call.y.data, .dtype = call.y.dtype, .divisor = divisor});
    };
    switch (call.op) {
      case ReduceOp::max: return with(Largest<A>());
      case ReduceOp::min: return with(Smallest<A>());
      case ReduceOp::prod: return with(ProductOf<A>());
      default: return with(Total<A>());
    }
  });
}

}  // namespace adret::cuda
