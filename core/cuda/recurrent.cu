// Recurrent layers step by step, for any size: a product with the state and a kernel for the cells,
// each launched for every step.
#include <adret/core/cuda/kernels.h>
#include <adret/core/cuda/matmul_plan.h>
#include <adret/core/cuda/recurrent_gradients.h>
#include <adret/core/cuda/workspace.h>

#include <type_traits>

namespace adret::cuda {
namespace {

// Note [Recurrent state in 16 bits]
// h is rounded to the tensors' dtype at each step, as its product reads it; c is carried in f32,
// and rounded only where it is stored. Here the product itself is rounded, too, before x is added.

template <class T>
__global__ void begin_forward(RecurrentForwardCall<T> call) {
  begin_kernel();
  const int64_t count = call.samples * call.hidden;
  for (int64_t i = first_item(); i < count; i += all_threads()) call.begin(i);
}

// h of the call is the state between steps. No products stand for a state of zeros.
template <class T, int G>
__global__ void step_forward(RecurrentForwardCall<T> call, const T* products, int64_t i) {
  begin_kernel();
  using A = Accumulator<T>;
  const int64_t count = call.samples * call.hidden;
  for (int64_t state = first_item(); state < count; state += all_threads()) {
    const int64_t sample = state / call.hidden, unit = state % call.hidden;
    const RecurrentUnit at{sample, unit, i, call.length(sample)};
    if (!at.exists()) {
      call.clear(at);
      continue;
    }
    A product[G];
#pragma unroll
    for (int g = 0; g < G; ++g) {
      product[g] = products ? widen<T>(products[(sample * G + g) * call.hidden + unit]) : A(0);
    }
    call.h[state] =
        narrow<T>(call.step(at, call.template load<G>(at), product, widen<T>(call.h[state])));
  }
}

// `gates` (N, G H) gets the gradients that the next product takes.
template <class T, int G>
__global__ void step_backward(RecurrentBackwardCall<T> call, const T* products, T* gates,
                              int64_t i) {
  begin_kernel();
  using A = Accumulator<T>;
  const int64_t count = call.samples * call.hidden;
  for (int64_t state = first_item(); state < count; state += all_threads()) {
    const int64_t sample = state / call.hidden, unit = state % call.hidden;
    const RecurrentUnit at{sample, unit, i, call.length(sample)};
    T own[G] = {};
    if (at.exists()) {
      call.step(at, call.template load<G>(at), products ? widen<T>(products[state]) : A(0), own);
    } else {
      call.template clear<G>(at);
    }
#pragma unroll
    for (int g = 0; g < G; ++g) gates[(sample * G + g) * call.hidden + unit] = own[g];
  }
}

template <class T>
__global__ void finish_backward(RecurrentBackwardCall<T> call, const T* products) {
  begin_kernel();
  const int64_t count = call.samples * call.hidden;
  for (int64_t state = first_item(); state < count; state += all_threads()) {
    const int64_t sample = state / call.hidden;
    call.finish({sample, state % call.hidden, 0, call.length(sample)}, widen<T>(products[state]));
  }
}

// A matrix in a workspace, as products take it.
TensorView matrix(const TensorView& like, void* data, int64_t rows, int64_t columns) {
  TensorView view = like;
  view.data = data;
  view.shape = {rows, columns};
  return view;
}

template <class T>
void run_steps(Context& context, const kernels::RecurrentForward& call) {
  using A = Accumulator<T>;
  RecurrentForwardCall<T> device(call);
  const int64_t rows = device.samples, hidden = device.hidden,
                columns = hidden * call.recurrent.gates();
  const Workspace cells(context, size_t(rows * hidden) * sizeof(A)),
      products(context, size_t(rows * columns) * sizeof(T));
  if (call.recurrent.cell == kernels::RecurrentCell::lstm) device.cell_state = cells.as<A>();
  const Grid grid = grid_for(context, rows * hidden);
  launch(context, begin_forward<T>, grid, device);
  const TensorView product = matrix(call.x, products.data(), rows, columns);
  with_gates(call.recurrent.gates(), [&](auto gates) {
    for (int64_t i = 0; i < device.steps; ++i) {
      const bool is_zero = i == 0 && !call.h0.defined();
      if (!is_zero) {
        multiply(context, {.rows = rows, .columns = columns, .depth = hidden, .transpose_b = true},
                 {call.h, call.weight, product, {}});
      }
      launch(context, step_forward<T, gates()>, grid, device, is_zero ? nullptr : product.as<T>(),
             i);
    }
  });
}

template <class T>
void run_steps(Context& context, const kernels::RecurrentBackward& call) {
  using A = Accumulator<T>;
  RecurrentBackwardCall<T> device(call);
  const int64_t rows = device.samples, hidden = device.hidden,
                columns = hidden * call.recurrent.gates();
  const Workspace direct(context, size_t(rows * hidden) * sizeof(A)),
      cells(context, size_t(rows * hidden) * sizeof(A)),
      products(context, size_t(rows * hidden) * sizeof(T)),
      gradients(context, size_t(rows * columns) * sizeof(T));
  device.direct = direct.as<A>();
  device.cell_state = cells.as<A>();
  const Grid grid = grid_for(context, rows * hidden);
  const TensorView product = matrix(call.y, products.data(), rows, hidden),
                   dgates = matrix(call.y, gradients.data(), rows, columns);
  with_gates(call.recurrent.gates(), [&](auto gates) {
    for (int64_t i = device.steps - 1; i >= 0; --i) {
      const bool is_first = i == device.steps - 1;
      launch(context, step_backward<T, gates()>, grid, device, is_first ? nullptr : product.as<T>(),
             dgates.as<T>(), i);
      if (i == 0 && !call.dh0.defined()) continue;
      multiply(context, {.rows = rows, .columns = hidden, .depth = columns},
               {dgates, call.weight, product, {}});
    }
  });
  if (call.dh0.defined() || call.dc0.defined()) {
    launch(context, finish_backward<T>, grid, device, product.as<T>());
  }
}

}  // namespace

void run(Context& context, const kernels::RecurrentForward& call) {
  if (call.y.numel() == 0 || run_in_one_launch(context, call)) return;
  dispatch_float(call.x.dtype, call.name,
                 [&](auto zero) { run_steps<decltype(zero)>(context, call); });
}

void run(Context& context, const kernels::RecurrentBackward& call) {
  if (call.y.numel() == 0 || run_in_one_launch(context, call)) return;
  dispatch_float(call.y.dtype, call.name,
                 [&](auto zero) { run_steps<decltype(zero)>(context, call); });
}

}  // namespace adret::cuda
