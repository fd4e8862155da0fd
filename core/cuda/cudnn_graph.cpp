// Filling in of cuDNN's descriptors: its attributes, and the order in which it wants them.
#include <adret/core/cuda/check.h>
#include <adret/core/cuda/cudnn_graph.h>
#include <adret/core/cuda/libraries.h>
#include <adret/core/error.h>
#include <fmt/core.h>

#include <algorithm>
#include <charconv>

namespace adret::cuda {
namespace {

DType accumulator(DType dtype) { return dtype == DType::f64 ? DType::f64 : DType::f32; }

// (N, C, H, W) with the channels nearest.
std::array<int64_t, 4> channels_last(const std::array<int64_t, 4>& dims) {
  return {dims[1] * dims[2] * dims[3], 1, dims[1] * dims[3], dims[1]};
}

std::array<int64_t, 2> pair(Size2 size) { return {size.h, size.w}; }

// Reads numbers and fixed words off a text; ok() is false once something did not fit.
class TextReader {
 public:
  explicit TextReader(std::string_view text) : rest_(text) {}
  bool ok() const { return ok_; }
  bool at_end() const { return rest_.empty(); }
  void word(std::string_view expected) {
    ok_ = ok_ && rest_.starts_with(expected);
    if (ok_) rest_.remove_prefix(expected.size());
  }
  int64_t number() {
    int64_t value = 0;
    const auto [end, error] = std::from_chars(rest_.data(), rest_.data() + rest_.size(), value);
    ok_ = ok_ && error == std::errc();
    if (ok_) rest_.remove_prefix(size_t(end - rest_.data()));
    return value;
  }

 private:
  std::string_view rest_;
  bool ok_ = true;
};

uint32_t note_bits(const Descriptor& engine, cudnnBackendAttributeName_t name,
                   cudnnBackendAttributeType_t type) {
  std::array<int32_t, 32> notes{};  // enumerations: an int each
  const int64_t count = engine.get(name, type, int64_t(notes.size()), notes.data());
  uint32_t bits = 0;
  for (int64_t i = 0; i < std::min(count, int64_t(notes.size())); ++i) {
    if (notes[size_t(i)] >= 0 && notes[size_t(i)] < 32) bits |= 1u << notes[size_t(i)];
  }
  return bits;
}

// Asked how many there are, cuDNN says none: room for all that an engine can have is needed.
void read_knobs(EngineConfig& config) {
  constexpr int64_t most = CUDNN_KNOB_TYPE_COUNTS;
  std::vector<Descriptor> owned;
  std::vector<cudnnBackendDescriptor_t> choices;
  for (int64_t i = 0; i < most; ++i) {
    owned.emplace_back(CUDNN_BACKEND_KNOB_CHOICE_DESCRIPTOR);
    choices.push_back(owned.back().get());
  }
  const int64_t count = config.config.get(CUDNN_ATTR_ENGINECFG_KNOB_CHOICES,
                                          CUDNN_TYPE_BACKEND_DESCRIPTOR, most, choices.data());
  for (int64_t i = 0; i < std::min(count, most); ++i) {
    const Descriptor& choice = owned[size_t(i)];
    int32_t type = 0;  // an enumeration
    choice.get(CUDNN_ATTR_KNOB_CHOICE_KNOB_TYPE, CUDNN_TYPE_KNOB_TYPE, 1, &type);
    config.knobs.emplace_back(type, choice.get_int64(CUDNN_ATTR_KNOB_CHOICE_KNOB_VALUE));
  }
}

// Fills in everything but the knobs from the finished descriptor.
void read_notes(EngineConfig& config) {
  const Descriptor engine(CUDNN_BACKEND_ENGINE_DESCRIPTOR);
  cudnnBackendDescriptor_t raw = engine.get();
  config.config.get(CUDNN_ATTR_ENGINECFG_ENGINE, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &raw);
  config.engine = engine.get_int64(CUDNN_ATTR_ENGINE_GLOBAL_INDEX);
  config.numerical_notes =
      note_bits(engine, CUDNN_ATTR_ENGINE_NUMERICAL_NOTE, CUDNN_TYPE_NUMERICAL_NOTE);
  config.behavior_notes =
      note_bits(engine, CUDNN_ATTR_ENGINE_BEHAVIOR_NOTE, CUDNN_TYPE_BEHAVIOR_NOTE);
  config.workspace = config.config.get_int64(CUDNN_ATTR_ENGINECFG_WORKSPACE_SIZE);
}

}  // namespace

cudnnDataType_t cudnn_type(DType dtype) {
  switch (dtype) {
    case DType::f32: return CUDNN_DATA_FLOAT;
    case DType::f64: return CUDNN_DATA_DOUBLE;
    case DType::f16: return CUDNN_DATA_HALF;
    case DType::bf16: return CUDNN_DATA_BFLOAT16;
    default: throw DeviceError(fmt::format("[cuda] cuDNN computes in no {}", name(dtype)));
  }
}

Descriptor::Descriptor(cudnnBackendDescriptorType_t type) {
  ADRET_CHECK(cudnn().cudnnBackendCreateDescriptor(type, &value_));
}

Descriptor::~Descriptor() {
  if (value_) cudnn().cudnnBackendDestroyDescriptor(value_);
}

Descriptor& Descriptor::set(cudnnBackendAttributeName_t name, cudnnBackendAttributeType_t type,
                            int64_t count, const void* values) {
  ADRET_CHECK(cudnn().cudnnBackendSetAttribute(value_, name, type, count, values));
  return *this;
}

Descriptor& Descriptor::set(cudnnBackendAttributeName_t name, cudnnBackendDescriptor_t value) {
  return set(name, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &value);
}

Descriptor& Descriptor::set(cudnnBackendAttributeName_t name, int64_t value) {
  return set(name, CUDNN_TYPE_INT64, 1, &value);
}

Descriptor& Descriptor::set(cudnnBackendAttributeName_t name, std::span<const int64_t> values) {
  return set(name, CUDNN_TYPE_INT64, int64_t(values.size()), values.data());
}

Descriptor& Descriptor::set(cudnnBackendAttributeName_t name, bool value) {
  return set(name, CUDNN_TYPE_BOOLEAN, 1, &value);
}

Descriptor& Descriptor::set(cudnnBackendAttributeName_t name, cudnnDataType_t value) {
  return set(name, CUDNN_TYPE_DATA_TYPE, 1, &value);
}

Descriptor& Descriptor::set(cudnnBackendAttributeName_t name, double value) {
  return set(name, CUDNN_TYPE_DOUBLE, 1, &value);
}
Descriptor& Descriptor::set(cudnnBackendAttributeName_t name, float value) {
  return set(name, CUDNN_TYPE_FLOAT, 1, &value);
}

Descriptor& Descriptor::finalize() {
  ADRET_CHECK(cudnn().cudnnBackendFinalize(value_));
  return *this;
}

int64_t Descriptor::get(cudnnBackendAttributeName_t name, cudnnBackendAttributeType_t type,
                        int64_t most, void* values) const {
  int64_t count = 0;
  ADRET_CHECK(cudnn().cudnnBackendGetAttribute(value_, name, type, most, &count, values));
  return count;
}

int64_t Descriptor::get_int64(cudnnBackendAttributeName_t name) const {
  int64_t value = 0;
  get(name, CUDNN_TYPE_INT64, 1, &value);
  return value;
}

Descriptor describe_device(const std::string& json) {
  Descriptor device(CUDNN_BACKEND_DEVICEPROP_DESCRIPTOR);
  device.set(CUDNN_ATTR_DEVICEPROP_JSON_REPRESENTATION, CUDNN_TYPE_CHAR, int64_t(json.size()),
             json.data());
  device.finalize();
  return device;
}

std::string to_string(const EngineConfig& config) {
  std::string text = fmt::format("engine {} knobs", config.engine);
  for (const auto& [type, value] : config.knobs) text += fmt::format(" {}:{}", type, value);
  return text;
}

Graph::Graph(const Convolution& convolution, cudnnHandle_t handle, const Descriptor* device)
    : device_(device) {
  const DType compute = accumulator(convolution.x.dtype);
  const cudnnBackendDescriptor_t y = tensor(convolution.y);
  if (convolution.bias) {
    // What lies between operations is never stored; in the accumulator's type nothing is rounded.
    GraphTensor product = convolution.y;
    product.dtype = compute;
    product.id = product_id;
    const cudnnBackendDescriptor_t between = tensor(product, true);
    add_convolution(convolution, between);
    add_sum(compute, between, tensor(*convolution.bias), y);
  } else {
    add_convolution(convolution, y);
  }
  finalize(handle);
}

Graph::Graph(Operations made, cudnnHandle_t handle, const Descriptor* device)
    : parts_(std::move(made.parts)), operations_(std::move(made.operations)), device_(device) {
  finalize(handle);
}

void Graph::finalize(cudnnHandle_t handle) {
  std::vector<cudnnBackendDescriptor_t> operations;
  for (const Descriptor& operation : operations_) operations.push_back(operation.get());
  graph_ = Descriptor(CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR);
  graph_.set(CUDNN_ATTR_OPERATIONGRAPH_OPS, CUDNN_TYPE_BACKEND_DESCRIPTOR,
             int64_t(operations.size()), operations.data());
  if (handle) graph_.set(CUDNN_ATTR_OPERATIONGRAPH_HANDLE, CUDNN_TYPE_HANDLE, 1, &handle);
  graph_.finalize();
}

cudnnBackendDescriptor_t Graph::tensor(const GraphTensor& tensor, bool is_virtual) {
  Descriptor descriptor(CUDNN_BACKEND_TENSOR_DESCRIPTOR);
  descriptor.set(CUDNN_ATTR_TENSOR_UNIQUE_ID, tensor.id)
      .set(CUDNN_ATTR_TENSOR_DATA_TYPE, cudnn_type(tensor.dtype))
      .set(CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT, tensor.alignment)
      .set(CUDNN_ATTR_TENSOR_DIMENSIONS, std::span<const int64_t>(tensor.dims))
      .set(CUDNN_ATTR_TENSOR_STRIDES, std::span<const int64_t>(channels_last(tensor.dims)));
  if (is_virtual) descriptor.set(CUDNN_ATTR_TENSOR_IS_VIRTUAL, true);
  descriptor.finalize();
  parts_.push_back(std::move(descriptor));
  return parts_.back().get();
}

void Graph::add_convolution(const Convolution& convolution, cudnnBackendDescriptor_t y) {
  const kernels::Conv2dParams& params = convolution.params;
  Descriptor description(CUDNN_BACKEND_CONVOLUTION_DESCRIPTOR);
  const cudnnConvolutionMode_t mode = CUDNN_CROSS_CORRELATION;
  const std::array<int64_t, 2> padding = pair(params.padding), stride = pair(params.stride),
                               dilation = pair(params.dilation);
  description.set(CUDNN_ATTR_CONVOLUTION_COMP_TYPE, cudnn_type(accumulator(convolution.x.dtype)))
      .set(CUDNN_ATTR_CONVOLUTION_CONV_MODE, CUDNN_TYPE_CONVOLUTION_MODE, 1, &mode)
      .set(CUDNN_ATTR_CONVOLUTION_SPATIAL_DIMS, int64_t(2))
      .set(CUDNN_ATTR_CONVOLUTION_PRE_PADDINGS, std::span<const int64_t>(padding))
      .set(CUDNN_ATTR_CONVOLUTION_POST_PADDINGS, std::span<const int64_t>(padding))
      .set(CUDNN_ATTR_CONVOLUTION_FILTER_STRIDES, std::span<const int64_t>(stride))
      .set(CUDNN_ATTR_CONVOLUTION_DILATIONS, std::span<const int64_t>(dilation))
      .finalize();

  struct Names {
    cudnnBackendDescriptorType_t operation;
    cudnnBackendAttributeName_t alpha, beta, description, weight, x, y;
  };
  static constexpr Names names[] = {
      {CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR,
       CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_ALPHA,
       CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_BETA,
       CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_CONV_DESC,
       CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_W, CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_X,
       CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_Y},
      {CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_DATA_DESCRIPTOR,
       CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_ALPHA,
       CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_BETA,
       CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_CONV_DESC,
       CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_W, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DX,
       CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DY},
      {CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_FILTER_DESCRIPTOR,
       CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_ALPHA,
       CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_BETA,
       CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_CONV_DESC,
       CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DW,
       CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_X,
       CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DY},
  };
  const Names& name = names[size_t(convolution.direction)];
  const cudnnBackendDescriptor_t weight = tensor(convolution.weight), x = tensor(convolution.x);
  Descriptor operation(name.operation);
  // Factors of another type than the sums' are read as 0.
  if (accumulator(convolution.x.dtype) == DType::f64) {
    operation.set(name.alpha, 1.0).set(name.beta, 0.0);
  } else {
    operation.set(name.alpha, 1.0f).set(name.beta, 0.0f);
  }
  operation.set(name.description, description.get())
      .set(name.weight, weight)
      .set(name.x, x)
      .set(name.y, y)
      .finalize();
  parts_.push_back(std::move(description));
  operations_.push_back(std::move(operation));
}

void Graph::add_sum(DType compute, cudnnBackendDescriptor_t x, cudnnBackendDescriptor_t b,
                    cudnnBackendDescriptor_t y) {
  const cudnnPointwiseMode_t mode = CUDNN_POINTWISE_ADD;
  Descriptor description(CUDNN_BACKEND_POINTWISE_DESCRIPTOR);
  description.set(CUDNN_ATTR_POINTWISE_MODE, CUDNN_TYPE_POINTWISE_MODE, 1, &mode)
      .set(CUDNN_ATTR_POINTWISE_MATH_PREC, cudnn_type(compute))
      .finalize();
  Descriptor operation(CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR);
  operation.set(CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR, description.get())
      .set(CUDNN_ATTR_OPERATION_POINTWISE_XDESC, x)
      .set(CUDNN_ATTR_OPERATION_POINTWISE_BDESC, b)
      .set(CUDNN_ATTR_OPERATION_POINTWISE_YDESC, y)
      .finalize();
  parts_.push_back(std::move(description));
  operations_.push_back(std::move(operation));
}

std::vector<EngineConfig> Graph::suggestions(cudnnBackendHeurMode_t mode) const {
  Descriptor heuristics(CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR);
  heuristics.set(CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH, graph_.get())
      .set(CUDNN_ATTR_ENGINEHEUR_MODE, CUDNN_TYPE_HEUR_MODE, 1, &mode);
  if (device_) heuristics.set(CUDNN_ATTR_ENGINEHEUR_DEVICEPROP, device_->get());
  // Where no engine is, some versions fail here and others give an empty list.
  if (cudnn().cudnnBackendFinalize(heuristics.get()) != CUDNN_STATUS_SUCCESS) return {};

  const int64_t count =
      heuristics.get(CUDNN_ATTR_ENGINEHEUR_RESULTS, CUDNN_TYPE_BACKEND_DESCRIPTOR, 0, nullptr);
  std::vector<EngineConfig> configs(static_cast<size_t>(count));
  std::vector<cudnnBackendDescriptor_t> raw;
  for (EngineConfig& config : configs) {
    config.config = Descriptor(CUDNN_BACKEND_ENGINECFG_DESCRIPTOR);
    raw.push_back(config.config.get());
  }
  const int64_t got = heuristics.get(CUDNN_ATTR_ENGINEHEUR_RESULTS, CUDNN_TYPE_BACKEND_DESCRIPTOR,
                                     count, raw.data());
  configs.resize(size_t(std::min(count, got)));
  for (EngineConfig& config : configs) {
    read_notes(config);
    read_knobs(config);
  }
  return configs;
}

EngineConfig Graph::config(std::string_view text) const {
  EngineConfig config;
  TextReader reader(text);
  reader.word("engine ");
  config.engine = reader.number();
  reader.word(" knobs");
  while (reader.ok() && !reader.at_end()) {
    reader.word(" ");
    const int64_t type = reader.number();
    reader.word(":");
    config.knobs.emplace_back(type, reader.number());
  }
  if (!reader.ok()) throw DeviceError(fmt::format("[cuda] \"{}\" names no engine", text));

  Descriptor engine(CUDNN_BACKEND_ENGINE_DESCRIPTOR);
  engine.set(CUDNN_ATTR_ENGINE_OPERATION_GRAPH, graph_.get())
      .set(CUDNN_ATTR_ENGINE_GLOBAL_INDEX, config.engine);
  if (device_) engine.set(CUDNN_ATTR_ENGINE_DEVICEPROP, device_->get());
  engine.finalize();
  std::vector<Descriptor> owned;
  std::vector<cudnnBackendDescriptor_t> choices;
  for (const auto& [type, value] : config.knobs) {
    const int32_t knob = int32_t(type);
    owned.emplace_back(CUDNN_BACKEND_KNOB_CHOICE_DESCRIPTOR)
        .set(CUDNN_ATTR_KNOB_CHOICE_KNOB_TYPE, CUDNN_TYPE_KNOB_TYPE, 1, &knob)
        .set(CUDNN_ATTR_KNOB_CHOICE_KNOB_VALUE, value)
        .finalize();
    choices.push_back(owned.back().get());
  }
  config.config = Descriptor(CUDNN_BACKEND_ENGINECFG_DESCRIPTOR);
  config.config.set(CUDNN_ATTR_ENGINECFG_ENGINE, engine.get());
  if (!choices.empty()) {
    config.config.set(CUDNN_ATTR_ENGINECFG_KNOB_CHOICES, CUDNN_TYPE_BACKEND_DESCRIPTOR,
                      int64_t(choices.size()), choices.data());
  }
  config.config.finalize();
  read_notes(config);
  return config;
}

ExecutionPlan::ExecutionPlan(EngineConfig config, cudnnHandle_t handle)
    : config_(std::move(config.config)), plan_(CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR) {
  if (handle) plan_.set(CUDNN_ATTR_EXECUTION_PLAN_HANDLE, CUDNN_TYPE_HANDLE, 1, &handle);
  plan_.set(CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG, config_.get()).finalize();
  workspace_ = plan_.get_int64(CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE);
}

void ExecutionPlan::run(cudnnHandle_t handle, std::span<const int64_t> ids,
                        std::span<void* const> data, void* workspace) {
  std::array<void*, most_operands + 1> operands{};
  std::copy(data.begin(), data.end(), operands.begin());
  operands.back() = workspace;
  if (!pack_ || operands != packed_) {
    Descriptor pack(CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR);
    pack.set(CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS, ids)
        .set(CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS, CUDNN_TYPE_VOID_PTR, int64_t(data.size()),
             data.data())
        .set(CUDNN_ATTR_VARIANT_PACK_WORKSPACE, CUDNN_TYPE_VOID_PTR, 1, &workspace)
        .finalize();
    pack_ = std::move(pack);
    packed_ = operands;
  }
  ADRET_CHECK(cudnn().cudnnBackendExecute(handle, plan_.get(), pack_.get()));
}

}  // namespace adret::cuda
