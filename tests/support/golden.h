// Files of golden values.
#pragma once

#include <adret/train/safetensors.h>

#include <map>
#include <string>

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

}  // namespace adret::test
