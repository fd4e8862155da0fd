// Recurrent layers forward: Note [Recurrent layers in one launch].
#include <adret/core/cuda/recurrent_together.h>
#include <adret/core/cuda/workspace.h>

namespace adret::cuda {
namespace {

// One launch at a time uses them, as all are on one stream.
__device__ GridBarrier barriers[recurrent_barriers];

// Zeros beyond the units too, where the depth is filled up.
template <class T>
__global__ void begin_forward(RecurrentForwardCall<T> call, RecurrentStates<T> states) {
  begin_kernel();
  const int64_t count = call.samples * states.depth;
  for (int64_t i = first_item(); i < count; i += all_threads()) {
    const int64_t sample = i / states.depth, unit = i % states.depth;
    const bool exists = unit < call.hidden;
    const T first = narrow<T>(exists ? call.begin(sample * call.hidden + unit) : 0.f);
    states.at(0, sample)[unit] = first;
    states.at(1, sample)[unit] = first;
  }
}

template <class T, int G, int tile>
__global__ void __launch_bounds__(recurrent_threads, 1)
    forward_together(RecurrentForwardCall<T> call, const T* weight, RecurrentStates<T> states,
                     int64_t row) {
  begin_kernel();
#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 800
  constexpr int R = recurrent_units * G;
  extern __shared__ __align__(16) char recurrent_memory[];
  T* const rows = reinterpret_cast<T*>(recurrent_memory);
  const int64_t first_unit = int64_t(blockIdx.x) * recurrent_units, hidden = call.hidden;
  for (int64_t i = threadIdx.x; i < R * row; i += recurrent_threads) {
    const int64_t k = i % row, gate = i / row / recurrent_units,
                  unit = first_unit + i / row % recurrent_units;
    rows[i] =
        k < hidden && unit < hidden ? weight[(gate * hidden + unit) * hidden + k] : narrow<T>(0.f);
  }
  __syncthreads();
  const RecurrentTile<T, R, tile> product{rows, row, states.depth,
                                          recurrent_memory + R * row * sizeof(T)};
  const int own_unit = int(threadIdx.x) % recurrent_units,
            own_sample = int(threadIdx.x) / recurrent_units;
  const int64_t unit = first_unit + own_unit;
  for (int64_t i = 0; i < call.steps; ++i) {
    const bool is_zero = i == 0 && !call.h0;
    for (int64_t first = int64_t(blockIdx.y) * tile; first < call.samples;
         first += int64_t(gridDim.y) * tile) {
      const int64_t sample = first + own_sample;
      const bool is_own = own_sample < tile && sample < call.samples && unit < hidden;
      const RecurrentUnit at{sample, unit, i, is_own ? call.length(sample) : 0};
      const auto input = call.template load<G>(at);
      if (!is_zero) {
        product.multiply(states.at(i, first), int(min(int64_t(tile), call.samples - first)));
      }
      if (at.exists()) {
        float sums[G];
#pragma unroll
        for (int g = 0; g < G; ++g) {
          sums[g] = is_zero ? 0.f : product.total(g * recurrent_units + own_unit, own_sample);
        }
        const float before = G == 3 ? widen<T>(states.at(i, sample)[unit]) : 0.f;
        states.at(i + 1, sample)[unit] = narrow<T>(call.step(at, input, sums, before));
      } else if (is_own) {
        call.clear(at);
      }
      __syncthreads();  // sums have been read
    }
    if (i + 1 < call.steps) barriers[blockIdx.y].wait(gridDim.x, blockIdx.x == 0);
  }
#endif
}

template <class T, int G>
bool run_gates(Context& context, const kernels::RecurrentForward& call) {
  RecurrentForwardCall<T> device(call);
  const auto plan = plan_together<T, recurrent_units * G>(context, device, device.hidden, 2);
  if (!plan) return false;
  const int64_t samples = device.samples;
  const Workspace cells(context, size_t(samples * device.hidden) * sizeof(float)),
      memory(context, size_t(2 * samples * plan->depth) * sizeof(T));
  if (G == 4) device.cell_state = cells.as<float>();
  const RecurrentStates<T> states{memory.as<T>(), samples, plan->depth};
  launch(context, begin_forward<T>, grid_for(context, samples * plan->depth), device, states);
  launch(context, plan->tile == 16 ? forward_together<T, G, 16> : forward_together<T, G, 32>, *plan,
         device, call.weight.as<T>(), states, plan->row);
  return true;
}

}  // namespace

bool run_in_one_launch(Context& context, const kernels::RecurrentForward& call) {
  bool done = false;
  dispatch_float(call.x.dtype, call.name, [&](auto zero) {
    using T = decltype(zero);
    if constexpr (sizeof(T) <= sizeof(float)) {
      with_gates(call.recurrent.gates(),
                 [&](auto gates) { done = run_gates<T, gates()>(context, call); });
    }
  });
  return done;
}

}  // namespace adret::cuda
