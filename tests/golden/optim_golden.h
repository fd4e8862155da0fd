// What the golden tests of optimizers and of averages share.
#pragma once

#include <adret/layers/module.h>

#include <map>
#include <string>
#include <vector>

#include "tests/support/golden.h"

namespace adret::test {

// optim.safetensors.
inline const std::map<std::string, Tensor>& golden_steps() {
  static const auto all = read_golden("optim.safetensors");
  return all;
}

inline std::vector<double> exact(const Tensor& x) { return x.to(DType::f64).to_vector<double>(); }

struct Model : Layer<Model> {
  explicit Model(DType dtype) : dtype(dtype) {}
  const DType dtype;
  Parameter& a = parameter("a", golden_steps().at("start.a").to(dtype));
  Parameter& b = parameter("b", golden_steps().at("start.b").to(dtype));
  Parameter& c = parameter("c", golden_steps().at("start.c").to(dtype));
};

}  // namespace adret::test
