// A graph with the memory of its kernels, and the capture that makes it.
#include <adret/core/cuda/check.h>
#include <adret/core/cuda/graph_capture.h>
#include <adret/core/cuda/graph_copy.h>
#include <adret/core/error.h>
#include <adret/core/storage.h>
#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <optional>
#include <utility>
#include <vector>

namespace adret::cuda {
namespace {

using Graph = Handle<cudaGraph_t, cudaGraphDestroy>;
using Executable = Handle<cudaGraphExec_t, cudaGraphExecDestroy>;
// Scratch memory, apart for each lane: what one gives back another could still be using.
using ScratchPools = std::array<std::unique_ptr<MemoryPool>, GraphOrder::lanes>;

class CapturedGraph final : public DeviceGraph {
 public:
  // The first launch would upload it, and take longer.
  CapturedGraph(Context& context, ScratchPools scratch, Graph graph, std::vector<GraphCopy> copies)
      : context_(context),
        scratch_(std::move(scratch)),
        graph_(std::move(graph)),
        copies_(std::move(copies)) {
    ADRET_CHECK(cudaGraphGetNodes(graph_, nullptr, &nodes_));
    ADRET_CHECK(cudaGraphInstantiate(executable_.out(), graph_));
    ADRET_CHECK(cudaGraphUpload(executable_, context_.compute));
  }

  void launch(std::span<const MemoryCopy> copies) override {
    const auto passed =
        context_.capture_gate.pass("a captured step is launched", "launch one behind the other");
    const DeviceGuard guard(context_.index);
    if (copies.size() != copies_.size()) {
      throw DeviceError(fmt::format("[capture] the graph has {} copies, got addresses for {}",
                                    copies_.size(), copies.size()));
    }
    for (size_t i = 0; i < copies.size(); ++i) copies_[i].update(executable_, copies[i]);
    ADRET_CHECK(cudaGraphLaunch(executable_, context_.compute));
  }
  int64_t nodes() const override { return int64_t(nodes_); }
  size_t bytes() const override {
    size_t bytes = 0;
    for (const auto& pool : scratch_) bytes += pool->stats().reserved;
    return bytes;
  }

 private:
  Context& context_;
  // Behind the graph in destruction. A graph that still runs is destroyed by CUDA when it is done,
  // and no one else gets its memory before: the private pools' goes to cudaFree, which waits, and
  // not to kernels that are run next.
  ScratchPools scratch_;
  Graph graph_;  // whose nodes the copies name
  std::vector<GraphCopy> copies_;
  Executable executable_;
  size_t nodes_ = 0;
};

void add(CaptureEnds& ends, const CaptureEnds& others) {
  for (size_t i = 0; i < others.nodes.size(); ++i) {
    if (std::ranges::find(ends.nodes, others.nodes[i]) != ends.nodes.end()) continue;
    ends.nodes.push_back(others.nodes[i]);
    ends.edges.push_back(others.edges[i]);
  }
}

// The capture of what is launched while it lives; discards it unless it was ended. One stream takes
// everything down: for a change of lane it is told anew what the next node waits for.
class Capture final : public GraphOrder {
 public:
  // Thread-local: what other threads allocate and copy meanwhile, as loaders do, is no error.
  Capture(Context& context, const ScratchPools& scratch)
      : context_(context),
        scratch_(scratch),
        turn_(context.capture_gate, [this] { end_call(); }),
        scope_(std::in_place, context.device(), *scratch[0]) {
    ADRET_CHECK(cudaStreamBeginCapture(context_.compute, cudaStreamCaptureModeThreadLocal));
  }
  ~Capture() override {
    context_.lane = 0;
    if (is_over_) return;
    Graph discarded;
    cudaStreamEndCapture(context_.compute, discarded.out());
    cudaGetLastError();  // of a broken one
  }
  Capture(const Capture&) = delete;
  Capture& operator=(const Capture&) = delete;

  void lane(int lane, std::span<const size_t> after) override {
    lanes_[size_t(lane_)] = ends();
    if (lane != std::exchange(lane_, lane)) {
      scope_.reset();
      scope_.emplace(context_.device(), *scratch_[size_t(lane)]);
      context_.lane = lane;
    }
    CaptureEnds all = lanes_[size_t(lane)];
    for (const size_t call : after) add(all, calls_.at(call));
    wait_for(all);
  }

  void copy(const MemoryCopy& copy) override {
    copies_.push_back(GraphCopy::capture(context_, copy));
    end_call();
  }

  Graph end() {
    lanes_[size_t(lane_)] = ends();
    CaptureEnds all;
    for (const CaptureEnds& lane : lanes_) add(all, lane);
    wait_for(all);
    is_over_ = true;
    Graph graph;
    const cudaError_t status = cudaStreamEndCapture(context_.compute, graph.out());
    if (status == cudaSuccess) return graph;
    cudaGetLastError();
    throw DeviceError(fmt::format(
        "[capture] the step asked CUDA for what cannot be captured behind its kernel {}: {}; only "
        "run kernels in it",
        calls_.size(), cudaGetErrorName(status)));
  }
  std::vector<GraphCopy> take_copies() { return std::move(copies_); }

 private:
  CaptureEnds ends() const {
    CaptureEnds found = capture_ends(context_.compute);
    if (found.active) return found;
    throw DeviceError(fmt::format(
        "[capture] kernel {} of a captured step asked CUDA for what cannot be captured, as to "
        "wait, read or allocate; only launch kernels in it",
        calls_.size() + 1));
  }
  void end_call() { calls_.push_back(ends()); }
  void wait_for(CaptureEnds& ends) const {
    ADRET_CHECK(cudaStreamUpdateCaptureDependencies(context_.compute, ends.nodes.data(),
                                                    ends.edges.data(), ends.nodes.size(),
                                                    cudaStreamSetCaptureDependencies));
  }

  Context& context_;
  const ScratchPools& scratch_;
  const CaptureGate::Turn turn_;
  std::optional<PoolScope> scope_;
  bool is_over_ = false;
  int lane_ = 0;
  std::array<CaptureEnds, lanes> lanes_;
  std::vector<CaptureEnds> calls_;
  std::vector<GraphCopy> copies_;
};

}  // namespace

std::unique_ptr<DeviceGraph> capture(Context& context, const MemoryPool& pool,
                                     const std::function<void(GraphOrder&)>& work) {
  ScratchPools scratch;
  for (auto& lane : scratch) {
    lane = pool.make_private("a captured step of " + to_string(context.device()));
  }
  Graph graph;
  std::vector<GraphCopy> copies;
  {
    Capture capture(context, scratch);
    work(capture);
    graph = capture.end();
    copies = capture.take_copies();
  }
  return std::make_unique<CapturedGraph>(context, std::move(scratch), std::move(graph),
                                         std::move(copies));
}

}  // namespace adret::cuda
