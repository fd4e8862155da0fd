// What the kernels share that run all steps of a recurrent layer in one launch.
#pragma once

#include <adret/core/cuda/grid_barrier.h>
#include <adret/core/cuda/recurrent.h>
#include <adret/core/cuda/tensor_core.h>

#include <algorithm>
#include <optional>

namespace adret::cuda {

// Note [Recurrent layers in one launch]
// A block owns 8 units with all of their gates, and keeps their part of the weight in shared memory
// for all steps. It takes samples in tiles. At a step it multiplies its part with the state of a
// tile, which the step before left in memory (forward: h; backward: the gradients of the gates),
// applies the cell to its units and writes what the next step reads. Then it waits for the blocks
// with the same samples; others it never meets. Two states take turns, so that no block writes
// what another still reads.
// The warps of a block share the depth of a product in chunks, which each copies for itself, and
// their sums are added in one order. f32 is multiplied as such, 16 bits in tensor cores with sums
// in f32. The depth is filled up with zeros to whole chunks.
inline constexpr int recurrent_units = 8, recurrent_threads = 256, recurrent_warps = 8;
inline constexpr int recurrent_stages = 2;
inline constexpr int recurrent_barriers = 256;  // for blocks with the same samples, each

template <class T>
inline constexpr int chunk_depth = 128 / int(sizeof(T));
// From a row of shared memory to the next one, so that eight of them lie in different banks.
template <class T>
inline constexpr int row_padding = 16 / int(sizeof(T));
template <class T>
inline constexpr int stage_row = chunk_depth<T> + row_padding<T>;

struct RecurrentPlan {
  unsigned unit_blocks, sample_blocks;
  int tile;            // samples
  int64_t depth, row;  // of the product, in whole chunks; from a row of the weight to the next
  size_t shared_bytes;
};

// Of a block's products: R rows of the weight and `tile` samples.
template <class T, int R, int tile>
struct RecurrentTile {
  // Threads of a warp by row, sample and depth, each with rows_own x samples_own sums in f32.
  static constexpr bool is_f32 = sizeof(T) == 4;
  static constexpr int by_row = R > 8 ? 8 : 2, by_sample = 4, by_depth = 32 / by_row / by_sample;
  static constexpr int rows_own = R / by_row, samples_own = tile / by_sample;
  static constexpr int parts = is_f32 ? recurrent_warps * by_depth : recurrent_warps;
  static constexpr int sums_row = tile + 4;
  static constexpr int stages_bytes =
      recurrent_warps * recurrent_stages * tile * stage_row<T> * int(sizeof(T));
  static constexpr int sums_bytes = parts * R * sums_row * int(sizeof(float));
  static constexpr int bytes = stages_bytes > sums_bytes ? stages_bytes : sums_bytes;

  const T* weight;  // (R, row) in shared memory
  int64_t row, depth;
  char* memory;  // stages, then sums

  __device__ T* stage(int i) const {
    const int warp = int(threadIdx.x) / 32;
    return reinterpret_cast<T*>(memory) +
           (warp * recurrent_stages + i % recurrent_stages) * tile * stage_row<T>;
  }
  __device__ float& sum(int part, int row, int sample) const {
    return reinterpret_cast<float*>(memory)[(part * R + row) * sums_row + sample];
  }

  // Begins to copy the warp's chunk i of `count` samples; zeros stand for others.
  __device__ void copy(int i, const T* state, int count) const {
    const int chunk = int(threadIdx.x) / 32 + i * recurrent_warps, lane = int(threadIdx.x) % 32;
    if (chunk * chunk_depth<T> < depth) {
      T* const to = stage(i);
#pragma unroll
      for (int k = lane; k < tile * 8; k += 32) {
        const int sample = k / 8, at = k % 8 * row_padding<T>;
        const bool inside = sample < count;
        const T* const from = inside ? state + sample * depth + chunk * chunk_depth<T> + at : state;
        copy_async<16>(to + sample * stage_row<T> + at, from, inside);
      }
    }
    commit_copies();
  }

  // Products of the weight's rows with those of the state (count, depth), in `parts` to be added.
  // All threads call it; sums are there when it returns.
  __device__ void multiply(const T* state, int count) const {
    if constexpr (is_f32) {
      multiply_f32(state, count);
    } else {
      multiply_16(state, count);
    }
    __syncthreads();
  }

  // add(stage, chunk) for the chunks of the warp.
  template <class Add>
  __device__ void each_chunk(const T* state, int count, Add add) const {
    copy(0, state, count);
    int chunk = int(threadIdx.x) / 32;
    for (int i = 0; chunk * chunk_depth<T> < depth; ++i, chunk += recurrent_warps) {
      copy(i + 1, state, count);
      wait_for_copies<recurrent_stages - 1>();
      __syncwarp();
      add(stage(i), weight + chunk * chunk_depth<T>);
      __syncwarp();
    }
    wait_for_copies<0>();
    __syncthreads();  // sums lie where stages were
  }

  __device__ void multiply_f32(const T* state, int count) const {
    const int lane = int(threadIdx.x) % 32;
    const int of_row = lane / by_sample % by_row, of_sample = lane % by_sample,
              of_depth = lane / (by_sample * by_row);
    float sums[rows_own][samples_own] = {};
    each_chunk(state, count, [&](const T* stage, const T* rows) {
#pragma unroll
      for (int k = of_depth * 4; k < chunk_depth<T>; k += by_depth * 4) {
        float4 w[rows_own];
#pragma unroll
        for (int r = 0; r < rows_own; ++r) {
          w[r] = *reinterpret_cast<const float4*>(rows + (of_row + by_row * r) * row + k);
        }
#pragma unroll
        for (int s = 0; s < samples_own; ++s) {
          const float4 x = *reinterpret_cast<const float4*>(
              stage + (of_sample + by_sample * s) * stage_row<T> + k);
#pragma unroll
          for (int r = 0; r < rows_own; ++r) {
            sums[r][s] = fmaf(x.x, w[r].x, sums[r][s]);
            sums[r][s] = fmaf(x.y, w[r].y, sums[r][s]);
            sums[r][s] = fmaf(x.z, w[r].z, sums[r][s]);
            sums[r][s] = fmaf(x.w, w[r].w, sums[r][s]);
          }
        }
      }
    });
    const int part = int(threadIdx.x) / 32 * by_depth + of_depth;
#pragma unroll
    for (int r = 0; r < rows_own; ++r) {
#pragma unroll
      for (int s = 0; s < samples_own; ++s) {
        sum(part, of_row + by_row * r, of_sample + by_sample * s) = sums[r][s];
      }
    }
  }

  // Fragments of 16 samples and 8 rows of the weight.
  __device__ void multiply_16(const T* state, int count) const {
    constexpr int samples = tile / 16, groups = R / 8;
    const int lane = int(threadIdx.x) % 32;
    float sums[samples][groups][4] = {};
    each_chunk(state, count, [&](const T* stage, const T* rows) {
#pragma unroll
      for (int k = 0; k < chunk_depth<T>; k += 32) {
        uint32_t w[groups][4];  // of 32 elements: two products' operands
#pragma unroll
        for (int g = 0; g < groups; ++g) {
          load_matrices(w[g], rows + (g * 8 + lane % 8) * row + k + lane / 8 * 8);
        }
#pragma unroll
        for (int s = 0; s < samples; ++s) {
#pragma unroll
          for (int half = 0; half < 2; ++half) {
            uint32_t x[4];
            load_matrices(
                x, stage + (s * 16 + lane % 16) * stage_row<T> + k + half * 16 + lane / 16 * 8);
#pragma unroll
            for (int g = 0; g < groups; ++g) {
              multiply_add<T>(sums[s][g], x, w[g][2 * half], w[g][2 * half + 1]);
            }
          }
        }
      }
    });
    const int warp = int(threadIdx.x) / 32;
#pragma unroll
    for (int s = 0; s < samples; ++s) {
#pragma unroll
      for (int g = 0; g < groups; ++g) {
#pragma unroll
        for (int e = 0; e < 4; ++e) {
          sum(warp, g * 8 + 2 * (lane % 4) + e % 2, s * 16 + lane / 4 + e / 2 * 8) = sums[s][g][e];
        }
      }
    }
  }

  __device__ float total(int row, int sample) const {
    float total = 0;
#pragma unroll
    for (int part = 0; part < parts; ++part) total += sum(part, row, sample);
    return total;
  }
};

// Where the two states of (samples, depth) lie in a workspace.
template <class T>
struct RecurrentStates {
  T* data;
  int64_t samples, depth;
  __device__ T* at(int64_t i, int64_t sample) const {
    return data + (i % 2 * samples + sample) * depth;
  }
};

// None where the weight does not fit into the shared memory of blocks that run at once, or a step
// takes more than `most_passes` over tiles: every block reads all states, so that for many samples
// a product a step is faster. R is a block's rows of the weight, `depth` their length.
template <class T, int R>
std::optional<RecurrentPlan> plan_together(const Context& context, const RecurrentSteps& of,
                                           int64_t depth, int64_t most_passes) {
  const int64_t most = std::min(context.multiprocessors(), recurrent_barriers),
                units = divide_up(of.hidden, recurrent_units);
  if (context.properties.major < 8 || !context.properties.cooperativeLaunch || units > most) {
    return std::nullopt;
  }
  RecurrentPlan plan{};
  plan.depth = divide_up(depth, chunk_depth<T>) * chunk_depth<T>;
  plan.row = plan.depth + row_padding<T>;
  const auto bytes = [&](int tile) {
    const int others = tile == 16 ? RecurrentTile<T, R, 16>::bytes : RecurrentTile<T, R, 32>::bytes;
    return size_t(R * plan.row) * sizeof(T) + size_t(others);
  };
  const bool is_few = divide_up(of.samples, 16) * units <= most;
  const size_t shared = context.properties.sharedMemPerBlockOptin;
  plan.tile = is_few || bytes(32) > shared ? 16 : 32;
  plan.shared_bytes = bytes(plan.tile);
  if (plan.shared_bytes > shared) return std::nullopt;
  const int64_t tiles = divide_up(of.samples, plan.tile), passes = divide_up(tiles, most / units);
  if (passes > most_passes) return std::nullopt;
  plan.unit_blocks = unsigned(units);
  plan.sample_blocks = unsigned(divide_up(tiles, passes));
  return plan;
}

template <class... Parameters, class... Arguments>
void launch(const Context& context, void (*kernel)(Parameters...), const RecurrentPlan& plan,
            Arguments&&... arguments) {
  ADRET_CHECK(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize,
                                   int(plan.shared_bytes)));
  launch_together(context, kernel,
                  {.blocks = dim3(plan.unit_blocks, plan.sample_blocks),
                   .threads = recurrent_threads,
                   .shared_bytes = plan.shared_bytes},
                  std::forward<Arguments>(arguments)...);
}

}  // namespace adret::cuda
