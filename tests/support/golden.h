// Files of golden values.
#pragma once

#include <adret/train/safetensors.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <string>
#include <vector>

#include "tests/support/close.h"
#include "tests/support/mirror.h"

namespace adret::test {

// The tensors of tests/golden/`file` by their names; read once by whoever keeps them.
inline std::map<std::string, Tensor> read_golden(const std::string& file) {
  std::map<std::string, Tensor> named;
  for (const auto& [name, tensor] : read_tensors(source_dir() / "tests/golden" / file).tensors) {
    named[name] = tensor;
  }
  return named;
}

// A few roundings of each step, of which there are up to ten, beside the largest value: where
// values cancel, they are as large as what came before. Inputs are exact in f32.
inline Tolerance rounding_tolerance(DType dtype, const std::vector<double>& expected) {
  double largest = 1;
  for (double v : expected) {
    if (std::isfinite(v)) largest = std::max(largest, std::abs(v));
  }
  const double unit = dtype == DType::f64 ? 1e-13 : 1e-6;
  return {.relative = 10 * unit, .absolute = 3 * unit * largest};
}

}  // namespace adret::test
