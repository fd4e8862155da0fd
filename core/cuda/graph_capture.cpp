// A graph with the memory of its kernels, and the capture that makes it.
#include <adret/core/cuda/check.h>
#include <adret/core/cuda/graph_capture.h>
#include <adret/core/error.h>
#include <adret/core/storage.h>
#include <fmt/core.h>

#include <utility>

namespace adret::cuda {
namespace {

using Graph = Handle<cudaGraph_t, cudaGraphDestroy>;
using Executable = Handle<cudaGraphExec_t, cudaGraphExecDestroy>;

class CapturedGraph final : public DeviceGraph {
 public:
  // The first launch would upload it, and take longer.
  CapturedGraph(Context& context, std::unique_ptr<MemoryPool> scratch, const Graph& graph)
      : context_(context), scratch_(std::move(scratch)) {
    ADRET_CHECK(cudaGraphGetNodes(graph, nullptr, &nodes_));
    ADRET_CHECK(cudaGraphInstantiate(executable_.out(), graph));
    ADRET_CHECK(cudaGraphUpload(executable_, context_.compute));
  }

  void launch() override {
    const auto passed =
        context_.capture_gate.pass("a captured step is launched", "launch one behind the other");
    const DeviceGuard guard(context_.index);
    ADRET_CHECK(cudaGraphLaunch(executable_, context_.compute));
  }
  int64_t nodes() const override { return int64_t(nodes_); }
  size_t bytes() const override { return scratch_->stats().reserved; }

 private:
  Context& context_;
  // Behind the graph in destruction. A graph that still runs is destroyed by CUDA when it is done,
  // and no one else gets its memory before: the private pool's goes to cudaFree, which waits, and
  // not to kernels that are run next.
  std::unique_ptr<MemoryPool> scratch_;
  Executable executable_;
  size_t nodes_ = 0;
};

// The capture of what is launched while it lives; discards it unless it was ended.
class Capture {
 public:
  // Thread-local: what other threads allocate and copy meanwhile, as loaders do, is no error.
  explicit Capture(Context& context) : context_(context), turn_(context.capture_gate) {
    ADRET_CHECK(cudaStreamBeginCapture(context_.compute, cudaStreamCaptureModeThreadLocal));
  }
  ~Capture() {
    if (is_over_) return;
    Graph discarded;
    cudaStreamEndCapture(context_.compute, discarded.out());
    cudaGetLastError();  // of a broken one
  }
  Capture(const Capture&) = delete;
  Capture& operator=(const Capture&) = delete;

  Graph end() {
    is_over_ = true;
    Graph graph;
    const cudaError_t status = cudaStreamEndCapture(context_.compute, graph.out());
    if (status == cudaSuccess) return graph;
    cudaGetLastError();
    throw DeviceError(fmt::format(
        "[capture] the step asked CUDA for what cannot be captured behind its kernel {}: {}; only "
        "run kernels in it",
        turn_.kernels(), cudaGetErrorName(status)));
  }

 private:
  Context& context_;
  const CaptureGate::Turn turn_;
  bool is_over_ = false;
};

}  // namespace

std::unique_ptr<DeviceGraph> capture(Context& context, const MemoryPool& pool,
                                     const std::function<void()>& work) {
  std::unique_ptr<MemoryPool> scratch =
      pool.make_private("a captured step of " + to_string(context.device()));
  Graph graph;
  {
    Capture capture(context);
    const PoolScope scope(context.device(), *scratch);
    work();
    graph = capture.end();
  }
  return std::make_unique<CapturedGraph>(context, std::move(scratch), graph);
}

void check_capture(Context& context) {
  const int64_t number = context.capture_gate.count_kernel();
  cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;
  ADRET_CHECK(cudaStreamIsCapturing(context.compute, &status));
  if (status == cudaStreamCaptureStatusActive) return;
  throw DeviceError(fmt::format(
      "[capture] kernel {} of a captured step asked CUDA for what cannot be captured, as "
      "to wait, read or allocate; only launch kernels in it",
      number));
}

}  // namespace adret::cuda
