// What a training step may write, to be compared: all bytes, or the weights as numbers.
#pragma once

#include <adret/layers/module.h>
#include <adret/optim/optimizer.h>
#include <adret/train/weight_average.h>

#include <string>
#include <vector>

namespace adret::test {

inline std::string bytes_of(const Tensor& tensor) {
  const Tensor here = tensor.detach().to(Device::cpu());
  return {static_cast<const char*>(here.data()), here.bytes()};
}

inline std::vector<std::string> buffer_bytes(const Module& model) {
  std::vector<std::string> all;
  for (const NamedTensor& buffer : model.named_buffers()) all.push_back(bytes_of(buffer.tensor));
  return all;
}

// Of weights, masters and buffers.
inline std::vector<std::string> model_bytes(const Module& model) {
  std::vector<std::string> all;
  for (const auto& parameter : model.parameters()) {
    all.push_back(bytes_of(parameter->value));
    if (const Tensor master = parameter->master(); master.defined()) {
      all.push_back(bytes_of(master));
    }
  }
  for (std::string& bytes : buffer_bytes(model)) all.push_back(std::move(bytes));
  return all;
}

// Of the model, the optimizer's state but for the rates, and the average, which may be null.
inline std::vector<std::string> state_bytes(const Module& model, const Optimizer& optimizer,
                                            WeightAverage* average = nullptr) {
  std::vector<std::string> all = model_bytes(model);
  for (const NamedTensor& one : optimizer.state().tensors) {
    if (!one.name.starts_with("groups.")) all.push_back(bytes_of(one.tensor));
  }
  if (!average) return all;
  all.push_back(std::to_string(average->updates()));
  const AveragedWeights averaged(*average);
  for (std::string& bytes : model_bytes(model)) all.push_back(std::move(bytes));
  return all;
}

inline std::vector<float> all_weights(const Module& model) {
  std::vector<float> all;
  for (const auto& parameter : model.parameters()) {
    const auto values = parameter->value.to_vector<float>();
    all.insert(all.end(), values.begin(), values.end());
  }
  return all;
}

}  // namespace adret::test
