// Functions of two operands that broadcast: arithmetic of floats; and the broadcast by itself.
#include <adret/core/cuda/device_math.h>
#include <adret/core/cuda/elementwise_binary.h>
#include <adret/core/cuda/index_strided.h>
#include <adret/core/cuda/kernels.h>

namespace adret::cuda {

using kernels::BinaryOp;

namespace {

template <class T>
void run_in(const Context& context, const BinaryLoops& loops) {
  using A = Accumulator<T>;
  const auto with = [&](auto f) { loops.zip_floats<T>(context, f); };
  switch (loops.call.op) {
    case BinaryOp::add: return with([] __device__(A a, A b) { return a + b; });
    case BinaryOp::subtract: return with([] __device__(A a, A b) { return a - b; });
    case BinaryOp::multiply: return with([] __device__(A a, A b) { return a * b; });
    case BinaryOp::divide: return with([] __device__(A a, A b) { return a / b; });
    case BinaryOp::maximum: return with([] __device__(A a, A b) { return larger(a, b); });
    case BinaryOp::minimum: return with([] __device__(A a, A b) { return smaller(a, b); });
    case BinaryOp::power: return with([] __device__(A a, A b) { return pow(a, b); });
    case BinaryOp::hypot: return with([] __device__(A a, A b) { return hypot(a, b); });
    default: return;  // the others have files of their own
  }
}

}  // namespace

void run_float_arithmetic(const Context& context, const BinaryLoops& loops) {
  const BinaryOp op = loops.call.op;
  if (op == BinaryOp::fmod || op == BinaryOp::remainder) return run_float_remainder(context, loops);
  if (op == BinaryOp::atan2) return run_atan2(context, loops);
  dispatch_float(loops.call.a.dtype, loops.call.name,
                 [&](auto zero) { run_in<decltype(zero)>(context, loops); });
}

void run(Context& context, const kernels::Binary& call) {
  if (call.op == BinaryOp::greater || call.op == BinaryOp::greater_equal) {
    const auto op = call.op == BinaryOp::greater ? BinaryOp::less : BinaryOp::less_equal;
    return run(context, kernels::Binary{.a = call.b, .b = call.a, .y = call.y, .op = op});
  }
  BinaryLoops loops{.call = call, .nest = {}};
  if (call.a.shape == call.b.shape) {
    loops.nest.add(call.y.numel(), {1, 1});
  } else {
    loops.nest = broadcast_nest<2>(call.y.shape, {&call.a.shape, &call.b.shape});
  }
  if (is_comparison(call.op)) return run_comparison(context, loops);
  if (is_floating(call.a.dtype)) return run_float_arithmetic(context, loops);
  run_integer_arithmetic(context, loops);
}

void run(Context& context, const kernels::Broadcast& call) {
  copy_strided(context, broadcast_nest<1>(call.y.shape, {&call.x.shape}), call.x, call.y);
}

}  // namespace adret::cuda
