// Matrix products and the linear layer: each kernel as products of matmul_plan.h.
#include <adret/core/cuda/kernels.h>
#include <adret/core/cuda/matmul_plan.h>
#include <adret/core/cuda/memory.h>

#include <algorithm>
#include <cstddef>

namespace adret::cuda {
namespace {

// The part of a batched operand that begins at `item`; its shape stays that of the whole.
TensorView from(const TensorView& whole, int64_t item) {
  TensorView part = whole;
  const size_t item_bytes = whole.bytes() / size_t(whole.shape[0]);
  part.data = whole.as<std::byte>() + size_t(item) * item_bytes;
  return part;
}

Epilogue slope_of(kernels::Activation activation) {
  switch (activation) {
    case kernels::Activation::none: return Epilogue::none;
    case kernels::Activation::relu: return Epilogue::relu_slope;
    case kernels::Activation::gelu: return Epilogue::gelu_slope;
    case kernels::Activation::gelu_tanh: return Epilogue::gelu_tanh_slope;
  }
  return Epilogue::none;
}

}  // namespace

void run(Context& context, const kernels::Matmul& call) {
  if (call.y.numel() == 0) return;
  Product product{.rows = call.y.shape[-2],
                  .columns = call.y.shape[-1],
                  .depth = call.a.shape[call.transpose_a ? -2 : -1],
                  .transpose_a = call.transpose_a,
                  .transpose_b = call.transpose_b,
                  .accumulate = call.accumulate,
                  .math = call.math};
  if (product.depth == 0) {
    if (!call.accumulate) clear(context, call.y);
    return;
  }
  if (call.y.shape.rank() == 2) return multiply(context, product, {call.a, call.b, call.y, {}});
  constexpr int64_t most = 65535;  // of a grid's last dimension, in which kernels lay the batch
  const int64_t batch = call.y.shape[0];
  for (int64_t item = 0; item < batch; item += most) {
    product.batch = std::min(most, batch - item);
    multiply(context, product, {from(call.a, item), from(call.b, item), from(call.y, item), {}});
  }
}

void run(Context& context, const kernels::LinearForward& call) {
  if (call.y.numel() == 0) return;
  if (call.activation == kernels::Activation::gelu_tanh && call.bias.defined() &&
      call.before.defined() && call.x.shape[1] > 0) {
    return multiply(context,
                    {.rows = call.y.shape[0],
                     .columns = call.y.shape[1],
                     .depth = call.x.shape[1],
                     .transpose_b = true,
                     .epilogue = Epilogue::bias_gelu_tanh,
                     .math = call.math},
                    {call.x, call.weight, call.y, call.bias, call.before});
  }
  if (call.before.defined() || is_gelu(call.activation)) {
    kernels::LinearForward linear = call;
    linear.y = call.before.defined() ? call.before : call.y;
    linear.before = {};
    linear.activation = kernels::Activation::none;
    run(context, linear);
    return run(context,
               kernels::Unary{.x = linear.y, .y = call.y, .op = unary_of(call.activation)});
  }
  const bool relu = call.activation == kernels::Activation::relu;
  const bool bias = call.bias.defined();
  const int64_t depth = call.x.shape[1];
  if (depth == 0) {
    clear(context, call.y);
    if (bias) add_bias(context, call.y, call.bias, relu);
    return;
  }
  multiply(context,
           {.rows = call.y.shape[0],
            .columns = call.y.shape[1],
            .depth = depth,
            .transpose_b = true,
            .epilogue = bias ? (relu ? Epilogue::bias_relu : Epilogue::bias)
                             : (relu ? Epilogue::relu : Epilogue::none),
            .math = call.math},
           {call.x, call.weight, call.y, call.bias});
}

void run(Context& context, const kernels::LinearBackwardInput& call) {
  if (call.dx.numel() == 0) return;
  const int64_t depth = call.dy.shape[1];
  if (depth == 0) return clear(context, call.dx);
  multiply(context,
           {.rows = call.dx.shape[0],
            .columns = call.dx.shape[1],
            .depth = depth,
            .epilogue = slope_of(call.activation),
            .math = call.math},
           {call.dy, call.weight, call.dx, call.saved});
}

void run(Context& context, const kernels::LinearBackwardWeight& call) {
  const bool weight = call.dweight.defined() && call.dweight.numel() > 0;
  const bool bias = call.dbias.defined() && call.dbias.numel() > 0;
  const int64_t depth = call.x.shape[0];
  if (depth == 0) {
    if (weight) clear(context, call.dweight);
    if (bias) clear(context, call.dbias);
  } else if (weight) {
    multiply(context,
             {.rows = call.dweight.shape[0],
              .columns = call.dweight.shape[1],
              .depth = depth,
              .transpose_a = true,
              .epilogue = bias ? Epilogue::bias_gradient : Epilogue::none,
              .math = call.math},
             {call.dy, call.x, call.dweight, call.dbias});
  } else if (bias) {
    run(context, kernels::Reduce{.x = call.dy, .y = call.dbias, .dims = 1});
  }
}

}  // namespace adret::cuda
