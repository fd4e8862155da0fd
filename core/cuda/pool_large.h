// Pooling of few large windows, a block of threads for each: whole images, mostly.
#pragma once

#include <adret/core/cuda/pool.h>

namespace adret::cuda {

// A block works on one window and some channels of it: threadIdx.x a channel, threadIdx.y every
// blockDim.y-th tap.
constexpr int large_window_threads = 256;

// Whether the windows are so large and few that a thread for each would leave the device idle.
inline bool few_large_windows(const Context& context, const PoolSizes& sizes) {
  return sizes.pool.kernel.area() >= 32 && sizes.images_at_once() >= sizes.images &&
         sizes.images * sizes.y_image() <= int64_t(context.multiprocessors()) * 512;
}

inline Grid large_window_grid(const PoolSizes& sizes) {
  unsigned width = 1;
  while (width < 32 && width < sizes.channels) width *= 2;
  return {.blocks = dim3(unsigned(sizes.images * sizes.out_h * sizes.out_w),
                         unsigned(divide_up(sizes.channels, width))),
          .threads = dim3(width, large_window_threads / width)};
}

// What the block makes of its window, valid in the threads with threadIdx.y == 0. State has none(),
// take(value, tap), called in ascending order of taps, and merge(other).
template <class State, class T, class G>
__device__ State reduce_window(const T* x, const G& g, int32_t image, int32_t out_row,
                               int32_t out_column, int32_t channel) {
  __shared__ State states[large_window_threads];
  const int32_t top = g.top(out_row), left = g.left(out_column);
  const Span<int32_t> rows = g.rows(top), columns = g.columns(left);
  const int32_t width = columns.end - columns.begin, taps = (rows.end - rows.begin) * width;
  State state = State::none();
  for (int32_t i = channel < g.channels ? int32_t(threadIdx.y) : taps; i < taps;
       i += int32_t(blockDim.y)) {
    const int32_t row = rows.begin + i / width, column = columns.begin + i % width;
    state.take(widen(x[g.input(image, row, column, channel)]),
               (row - top) * g.kernel_w() + column - left);
  }
  const unsigned at = threadIdx.y * blockDim.x + threadIdx.x;
  for (unsigned step = blockDim.y / 2; step > 0; step /= 2) {
    states[at] = state;
    __syncthreads();
    if (threadIdx.y < step) state.merge(states[at + step * blockDim.x]);
    __syncthreads();
  }
  return state;
}

}  // namespace adret::cuda
