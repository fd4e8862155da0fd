// Reductions of integers: sums and products modulo 2^64, extremes.
#include <adret/core/cuda/kernels.h>
#include <adret/core/cuda/reduce_launch.h>

namespace adret::cuda {

using kernels::ReduceOp;

namespace {

// What is kept are numbers of type A.
template <class Kept, class T, class A>
void reduce_in(const Context& context, const kernels::Reduce& call) {
  reduce<Kept, T, A>(context, call.x.as<T>(), Dimensions(call),
                     {.data = call.y.data, .dtype = call.y.dtype, .divisor = 1});
}

template <class T>
void run_in(const Context& context, const kernels::Reduce& call) {
  using A = std::conditional_t<sizeof(T) == 8, int64_t, int32_t>;
  switch (call.op) {
    case ReduceOp::sum: return reduce_in<Total<uint64_t>, T, uint64_t>(context, call);
    case ReduceOp::prod: return reduce_in<ProductOf<uint64_t>, T, uint64_t>(context, call);
    case ReduceOp::max: return reduce_in<Largest<A>, T, A>(context, call);
    case ReduceOp::min: return reduce_in<Smallest<A>, T, A>(context, call);
    default:
      throw ShapeError(std::string("[") + call.name + "] of this kind runs in floating dtypes");
  }
}

}  // namespace

void run_integer_reduction(Context& context, const kernels::Reduce& call) {
  if (call.x.numel() == call.y.numel()) {
    return run(context, kernels::Cast{.x = call.x, .y = call.y});
  }
  switch (call.x.dtype) {
    case DType::i32: return run_in<int32_t>(context, call);
    case DType::i64: return run_in<int64_t>(context, call);
    default: return run_in<uint8_t>(context, call);  // a boolean is a byte of 0 or 1
  }
}

}  // namespace adret::cuda
