// How batch normalisation in one launch is shared out over the device.
#pragma once

#include <adret/core/cuda/context.h>

#include <cstddef>
#include <cstdint>
#include <optional>

namespace adret::cuda {

inline constexpr int together_threads = 512;  // of a block; one block a multiprocessor
inline constexpr int together_width = 4;      // vectors of a slice, at most: 64 bytes
inline constexpr int barrier_slices = 256;    // whose blocks meet at counters, at most
// Bytes of shared memory beside the vectors that are kept.
inline constexpr size_t together_own = 9 * 1024;

// For the kernels; blockIdx.x counts the blocks of a slice, blockIdx.y the slices.
struct Share {
  int width;        // vectors of a slice, a power of two
  int64_t rows;     // of a block; the last ones may have fewer
  int kept;         // vectors kept in shared memory, of each tensor that is summed
  int more;         // vectors of the residual that are there early
  bool is_cluster;  // the blocks of a slice are one
};

struct TogetherPlan {
  unsigned blocks, slices;
  size_t shared_bytes;
  int64_t told;  // pairs in the workspace
  Share share;
};

// For x of `rows` and `channels`, vectors of n channels, and `summed` tensors like x. Nothing where
// a slice is too small for two blocks, or the device cannot.
std::optional<TogetherPlan> plan_together(const Context& context, int64_t rows, int64_t channels,
                                          int n, int summed, bool has_residual);

}  // namespace adret::cuda
