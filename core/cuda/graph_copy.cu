// Copies as kernels, which start earlier than CUDA's own copy nodes.
#include <adret/core/cuda/graph_copy.h>
#include <adret/core/cuda/launch.h>

namespace adret::cuda {
namespace {

constexpr int threads = 256;

// In vectors where both addresses allow it, the rest byte by byte.
__global__ void __launch_bounds__(threads)
    copy_bytes(std::byte* to, const std::byte* from, int64_t bytes) {
  begin_kernel();
  using Unit = Vector<uint32_t, 4>;
  const bool aligned = ((reinterpret_cast<uintptr_t>(to) | reinterpret_cast<uintptr_t>(from)) &
                        (sizeof(Unit) - 1)) == 0;
  const int64_t units = aligned ? bytes / int64_t(sizeof(Unit)) : 0;
  for (int64_t i = first_item(); i < units; i += all_threads()) {
    reinterpret_cast<Unit*>(to)[i] = reinterpret_cast<const Unit*>(from)[i];
  }
  for (int64_t i = units * int64_t(sizeof(Unit)) + first_item(); i < bytes; i += all_threads()) {
    to[i] = from[i];
  }
}

}  // namespace

CaptureEnds capture_ends(cudaStream_t stream) {
  cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;
  const cudaGraphNode_t* nodes = nullptr;
  const cudaGraphEdgeData* edges = nullptr;
  size_t count = 0;
  const cudaError_t error =
      cudaStreamGetCaptureInfo(stream, &status, nullptr, nullptr, &nodes, &edges, &count);
  if (error != cudaSuccess) cudaGetLastError();  // of a broken capture
  CaptureEnds ends{.active = error == cudaSuccess && status == cudaStreamCaptureStatusActive};
  if (!ends.active) return ends;
  ends.nodes.assign(nodes, nodes + count);
  ends.edges.resize(count);
  if (edges) ends.edges.assign(edges, edges + count);
  return ends;
}

GraphCopy GraphCopy::capture(const Context& context, const MemoryCopy& copy) {
  const int64_t vectors = divide_up(int64_t(copy.bytes), int64_t(16));
  launch(context, copy_bytes, grid_for(context, std::max(vectors, int64_t(1)), threads),
         static_cast<std::byte*>(copy.to), static_cast<const std::byte*>(copy.from),
         int64_t(copy.bytes));
  GraphCopy result;
  result.node_ = capture_ends(context.compute).nodes.at(0);
  ADRET_CHECK(cudaGraphKernelNodeGetParams(result.node_, &result.launch_));
  result.copy_ = copy;
  return result;
}

void GraphCopy::update(cudaGraphExec_t executable, const MemoryCopy& copy) {
  if (copy.to == copy_.to && copy.from == copy_.from) return;
  copy_.to = copy.to;
  copy_.from = copy.from;
  auto bytes = int64_t(copy_.bytes);
  void* arguments[] = {&copy_.to, &copy_.from, &bytes};
  launch_.kernelParams = arguments;
  ADRET_CHECK(cudaGraphExecKernelNodeSetParams(executable, node_, &launch_));
}

}  // namespace adret::cuda
