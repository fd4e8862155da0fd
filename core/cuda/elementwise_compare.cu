// Comparisons of operands that broadcast.
#include <adret/core/cuda/elementwise_binary.h>

namespace adret::cuda {

using kernels::BinaryOp;

namespace {

template <class T, class F>
struct Compare {
  F f;
  __device__ bool operator()(T a, T b) const { return f(Computed<T>(a), Computed<T>(b)); }
};

template <class T>
void run_in(const Context& context, const BinaryLoops& loops) {
  using C = Computed<T>;
  const auto with = [&](auto f) { loops.zip<bool, T>(context, Compare<T, decltype(f)>{f}); };
  switch (loops.call.op) {
    case BinaryOp::equal: return with([] __device__(C a, C b) { return a == b; });
    case BinaryOp::not_equal: return with([] __device__(C a, C b) { return a != b; });
    case BinaryOp::less: return with([] __device__(C a, C b) { return a < b; });
    case BinaryOp::less_equal: return with([] __device__(C a, C b) { return a <= b; });
    default: return;  // the others have become these
  }
}

}  // namespace

void run_comparison(const Context& context, const BinaryLoops& loops) {
  switch (loops.call.a.dtype) {
    // A boolean is a byte of 0 or 1.
    case DType::u8:
    case DType::boolean: return run_in<uint8_t>(context, loops);
    case DType::i32: return run_in<int32_t>(context, loops);
    case DType::i64: return run_in<int64_t>(context, loops);
    default:
      dispatch_float(loops.call.a.dtype, loops.call.name,
                     [&](auto zero) { run_in<decltype(zero)>(context, loops); });
  }
}

}  // namespace adret::cuda
