// Recurrent layers backward: Note [Recurrent layers in one launch].
#include <adret/core/cuda/recurrent_gradients.h>
#include <adret/core/cuda/recurrent_together.h>
#include <adret/core/cuda/workspace.h>

namespace adret::cuda {
namespace {

// One launch at a time uses them, as all are on one stream.
__device__ GridBarrier barriers[recurrent_barriers];

template <class T>
__global__ void clear_states(RecurrentStates<T> states) {
  begin_kernel();
  const int64_t count = 2 * states.samples * states.depth;
  for (int64_t i = first_item(); i < count; i += all_threads()) states.data[i] = narrow<T>(0.f);
}

template <class T, int G, int tile>
__global__ void __launch_bounds__(recurrent_threads, 1)
    backward_together(RecurrentBackwardCall<T> call, const T* weight, RecurrentStates<T> states,
                      int64_t row) {
  begin_kernel();
#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 800
  constexpr int R = recurrent_units;
  extern __shared__ __align__(16) char recurrent_memory[];
  T* const rows = reinterpret_cast<T*>(recurrent_memory);  // columns of the weight
  const int64_t first_unit = int64_t(blockIdx.x) * R, hidden = call.hidden;
  for (int64_t i = threadIdx.x; i < R * row; i += recurrent_threads) {
    const int64_t k = i / R, unit = first_unit + i % R;
    rows[i % R * row + k] =
        k < G * hidden && unit < hidden ? weight[k * hidden + unit] : narrow<T>(0.f);
  }
  __syncthreads();
  const RecurrentTile<T, R, tile> product{rows, row, states.depth,
                                          recurrent_memory + R * row * sizeof(T)};
  const int own_unit = int(threadIdx.x) % R, own_sample = int(threadIdx.x) / R;
  const int64_t unit = first_unit + own_unit;
  // Step -1 gives the gradients of the first state.
  for (int64_t i = call.steps - 1; i >= (call.dh0 || call.dc0 ? -1 : 0); --i) {
    const bool is_zero = i == call.steps - 1;
    for (int64_t first = int64_t(blockIdx.y) * tile; first < call.samples;
         first += int64_t(gridDim.y) * tile) {
      const int64_t sample = first + own_sample;
      const bool is_own = own_sample < tile && sample < call.samples && unit < hidden;
      const RecurrentUnit at{sample, unit, i, is_own ? call.length(sample) : 0};
      const bool has_step = i >= 0 && at.exists();
      const auto input =
          has_step ? call.template load<G>(at) : typename RecurrentBackwardCall<T>::Input();
      if (!is_zero) {
        product.multiply(states.at(i + 1, first), int(min(int64_t(tile), call.samples - first)));
      }
      const float sum = is_own && !is_zero ? product.total(own_unit, own_sample) : 0.f;
      if (has_step) {
        T gates[G];
        call.step(at, input, sum, gates);
        T* const to = states.at(i, sample) + unit;
#pragma unroll
        for (int g = 0; g < G; ++g) to[g * hidden] = gates[g];
      } else if (is_own && i >= 0) {
        call.template clear<G>(at);
      } else if (is_own) {
        call.finish(at, sum);
      }
      __syncthreads();  // sums have been read
    }
    if (i >= 0) barriers[blockIdx.y].wait(gridDim.x, blockIdx.x == 0);
  }
#endif
}

template <class T, int G>
bool run_gates(Context& context, const kernels::RecurrentBackward& call) {
  RecurrentBackwardCall<T> device(call);
  const auto plan = plan_together<T, recurrent_units>(context, device, G * device.hidden, 1);
  if (!plan) return false;
  const int64_t samples = device.samples;
  const size_t state_bytes = size_t(samples * device.hidden) * sizeof(float);
  const Workspace direct(context, state_bytes), cells(context, state_bytes),
      memory(context, size_t(2 * samples * plan->depth) * sizeof(T));
  device.direct = direct.as<float>();
  device.cell_state = cells.as<float>();
  const RecurrentStates<T> states{memory.as<T>(), samples, plan->depth};
  launch(context, clear_states<T>, grid_for(context, 2 * samples * plan->depth), states);
  launch(context, plan->tile == 16 ? backward_together<T, G, 16> : backward_together<T, G, 32>,
         *plan, device, call.weight.as<T>(), states, plan->row);
  return true;
}

}  // namespace

bool run_in_one_launch(Context& context, const kernels::RecurrentBackward& call) {
  bool done = false;
  dispatch_float(call.y.dtype, call.name, [&](auto zero) {
    using T = decltype(zero);
    if constexpr (sizeof(T) <= sizeof(float)) {
      with_gates(call.recurrent.gates(),
                 [&](auto gates) { done = run_gates<T, gates()>(context, call); });
    }
  });
  return done;
}

}  // namespace adret::cuda
