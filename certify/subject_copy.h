// A copy of what is certified, with inputs of its own, and what its calls give.
#pragma once

#include <adret/certify/options.h>
#include <adret/certify/subject.h>
#include <adret/core/shape.h>
#include <adret/train/snapshot.h>

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace adret {

struct CertifyTask {
  const Subject& subject;
  const std::vector<Shape>& shapes;
  const CertifyOptions& options;
};

using NamedTensors = std::vector<NamedTensor>;  // undefined: there is none

// The input `index` as reasons name it.
std::string input_name(const CertifyTask& task, size_t index);
const CertifyInput& input_options(const CertifyTask& task, size_t index);

struct Setting {
  DType dtype = DType::f32;
  Device device = Device::cpu();
  bool training = true;
  int64_t batch = -1;  // as the shapes say
  int64_t salt = 0;    // other numbers
  // Built under this seed, so that what is drawn then and not copied shows.
  uint64_t build_seed = 1;
  bool initial = false;  // with the state that it was built with, not that of the layer given
};

class SubjectCopy {
 public:
  SubjectCopy(const CertifyTask& task, const Setting& setting);

  Module* module() { return module_.get(); }  // null for a function
  const std::vector<Tensor>& inputs() const { return inputs_; }
  std::vector<Tensor> other_inputs(int64_t salt) const;

  // Puts back the state of the last keep_state(), at first the initial one, and the seed.
  void begin();
  void keep_state();
  // In the setting's mode; call() begins before.
  std::vector<Tensor> call(const std::vector<Tensor>& inputs);
  std::vector<Tensor> call_as_is(const std::vector<Tensor>& inputs);
  void set_training(bool training) { setting_.training = training; }
  void set_inputs(std::vector<Tensor> inputs) { inputs_ = std::move(inputs); }
  // Under NoGrad: "output" or "output 0", "output 1", ...
  NamedTensors outputs();
  NamedTensors outputs(const std::vector<Tensor>& inputs);
  // And "gradient of x" of each input and parameter, of the outputs weighted with fixed numbers.
  NamedTensors outputs_and_gradients();
  // Parameters and buffers, copied.
  NamedTensors state() const;

 private:
  const CertifyTask& task_;
  Setting setting_;
  std::unique_ptr<Module> module_;
  std::optional<Snapshot> kept_;
  std::vector<Tensor> inputs_;
};

// Copies that require a gradient where they can have one.
std::vector<Tensor> as_leaves(const CertifyTask& task, const std::vector<Tensor>& inputs);
NamedTensors named_outputs(const std::vector<Tensor>& outputs);
// Adds to gradients from floating outputs, weighted with fixed numbers; false if none has a graph.
bool weighted_backward(const std::vector<Tensor>& outputs, bool retain_graph = false);

// What two results are called, and how far apart they may be; see CertifyTolerances.
struct Comparison {
  const char *actual, *expected;
  double tolerance = 0;  // 0: bit for bit
};
// Empty if they agree, else what differs, with element and values.
std::string difference(const NamedTensors& actual, const NamedTensors& expected,
                       const Comparison& comparison);
double tolerance_of(const CertifyTolerances& tolerances, DType dtype);

}  // namespace adret
