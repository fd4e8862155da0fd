// cuDNN's graph API: descriptors that own themselves, graphs of one convolution and what follows
// it or of other operations, the engines that can run a graph, and plans that do.
#pragma once

#include <adret/core/cuda/context.h>
#include <adret/core/dtype.h>
#include <adret/core/kernels/conv.h>
#include <cudnn.h>

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace adret::cuda {

// All functions here throw DeviceError with cuDNN's own reason.
class Descriptor {
 public:
  Descriptor() = default;
  explicit Descriptor(cudnnBackendDescriptorType_t type);
  Descriptor(Descriptor&& other) noexcept : value_(std::exchange(other.value_, nullptr)) {}
  Descriptor& operator=(Descriptor&& other) noexcept {
    std::swap(value_, other.value_);
    return *this;
  }
  ~Descriptor();

  cudnnBackendDescriptor_t get() const { return value_; }
  explicit operator bool() const { return value_ != nullptr; }

  Descriptor& set(cudnnBackendAttributeName_t name, cudnnBackendAttributeType_t type, int64_t count,
                  const void* values);
  Descriptor& set(cudnnBackendAttributeName_t name, cudnnBackendDescriptor_t value);
  Descriptor& set(cudnnBackendAttributeName_t name, int64_t value);
  Descriptor& set(cudnnBackendAttributeName_t name, std::span<const int64_t> values);
  Descriptor& set(cudnnBackendAttributeName_t name, bool value);
  Descriptor& set(cudnnBackendAttributeName_t name, cudnnDataType_t value);
  Descriptor& set(cudnnBackendAttributeName_t name, double value);
  Descriptor& set(cudnnBackendAttributeName_t name, float value);
  Descriptor& finalize();
  // How many values there were, at most `most` of which are written.
  int64_t get(cudnnBackendAttributeName_t name, cudnnBackendAttributeType_t type, int64_t most,
              void* values) const;
  int64_t get_int64(cudnnBackendAttributeName_t name) const;

 private:
  cudnnBackendDescriptor_t value_ = nullptr;
};

cudnnDataType_t cudnn_type(DType dtype);  // of floats

// A GPU that need not be there, from JSON (the keys are cuDNN's): for asking what would run on it.
Descriptor describe_device(const std::string& json);

// One way to run a graph: an engine with its knobs set.
struct EngineConfig {
  Descriptor config;
  int64_t engine = -1;                               // its global index
  std::vector<std::pair<int64_t, int64_t>> knobs;    // type, value
  int64_t workspace = 0;                             // bytes
  uint32_t numerical_notes = 0, behavior_notes = 0;  // a bit each

  bool has(cudnnBackendNumericalNote_t note) const { return numerical_notes >> note & 1; }
  bool has(cudnnBackendBehaviorNote_t note) const { return behavior_notes >> note & 1; }
  bool is_compiled_at_run_time() const { return has(CUDNN_BEHAVIOR_NOTE_RUNTIME_COMPILATION); }
};

// "engine 57 knobs 2:1 12:0": for Graph::config, in another process too.
std::string to_string(const EngineConfig& config);

// An operand of a graph. Dims are in cuDNN's order (N, C, H, W) or (O, C / groups, KH, KW), the
// channels nearest in memory, whatever order the dims are in.
struct GraphTensor {
  int64_t id;
  DType dtype;
  std::array<int64_t, 4> dims;
  int64_t alignment = 16;  // of its address, in bytes
};

enum class ConvDirection : uint8_t { forward, backward_input, backward_weight };

// Built by adding operations in the order in which they run, then finalized.
class Graph {
 public:
  // What the operands are called in ExecutionPlan::run.
  enum Id : int64_t { x_id = 1, weight_id, y_id, bias_id, product_id };

  // x, weight and y, or their gradients: which of them is the result depends on the direction. In a
  // forward graph a bias may follow. Computes in f32, or f64 for f64.
  struct Convolution {
    ConvDirection direction = ConvDirection::forward;
    GraphTensor x, weight, y;
    std::optional<GraphTensor> bias;  // dims (1, O, 1, 1)
    kernels::Conv2dParams params;
  };
  // For the handle's device, or with null for one that is only described.
  Graph(const Convolution& convolution, cudnnHandle_t handle, const Descriptor* device = nullptr);

  // Any operations, in the order in which they run, and what they are described by.
  struct Operations {
    std::vector<Descriptor> parts, operations;
  };
  Graph(Operations made, cudnnHandle_t handle, const Descriptor* device = nullptr);

  // What cuDNN suggests, best first. Empty when there is nothing.
  std::vector<EngineConfig> suggestions(cudnnBackendHeurMode_t mode) const;
  // The one that to_string wrote; throws DeviceError when this cuDNN does not have it.
  EngineConfig config(std::string_view text) const;

 private:
  cudnnBackendDescriptor_t tensor(const GraphTensor& tensor, bool is_virtual = false);
  void add_convolution(const Convolution& convolution, cudnnBackendDescriptor_t y);
  void add_sum(DType compute, cudnnBackendDescriptor_t x, cudnnBackendDescriptor_t b,
               cudnnBackendDescriptor_t y);
  void finalize(cudnnHandle_t handle);

  std::vector<Descriptor> parts_;  // tensors, and what operations are described by
  std::vector<Descriptor> operations_;
  Descriptor graph_;
  const Descriptor* device_;
};

class ExecutionPlan {
 public:
  // Throws DeviceError when the engine cannot run the graph after all. Without a handle it can only
  // tell its workspace.
  ExecutionPlan(EngineConfig config, cudnnHandle_t handle);

  static constexpr size_t most_operands = 13;
  int64_t workspace() const { return workspace_; }  // bytes
  // At most `most_operands`, by their ids; those that graphs have by value are read at once.
  void run(cudnnHandle_t handle, std::span<const int64_t> ids, std::span<void* const> data,
           void* workspace);

 private:
  Descriptor config_, plan_;
  int64_t workspace_;
  // The operands of the last run: cuDNN takes no new ones into a finished pack, and steps that
  // repeat tend to come with the same ones.
  Descriptor pack_;
  std::array<void*, most_operands + 1> packed_{};
};

}  // namespace adret::cuda
