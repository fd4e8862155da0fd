// Copies in a graph, whose addresses change from launch to launch.
#pragma once

#include <adret/core/backend.h>
#include <adret/core/cuda/context.h>

#include <vector>

namespace adret::cuda {

// What the next node of a stream that captures will wait for.
struct CaptureEnds {
  bool active = false;  // the stream captures, and nothing has broken that
  std::vector<cudaGraphNode_t> nodes;
  std::vector<cudaGraphEdgeData> edges;  // of each
};
CaptureEnds capture_ends(cudaStream_t stream);

class GraphCopy {
 public:
  // Adds it to what the compute stream captures.
  static GraphCopy capture(const Context& context, const MemoryCopy& copy);
  // Gives it other addresses, of as many bytes, from the next launch on. The graph that the
  // executable was made of must still be there.
  void update(cudaGraphExec_t executable, const MemoryCopy& copy);

 private:
  cudaGraphNode_t node_{};
  cudaKernelNodeParams launch_{};
  MemoryCopy copy_{};
};

}  // namespace adret::cuda
