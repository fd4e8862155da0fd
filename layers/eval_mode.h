// Evaluation for the length of a scope.
#pragma once

#include <adret/layers/module.h>

#include <vector>

namespace adret {

// Puts a model into evaluation while it lives; then every layer has its own mode again.
class EvalMode {
 public:
  explicit EvalMode(Module& model);
  ~EvalMode();
  EvalMode(const EvalMode&) = delete;
  EvalMode& operator=(const EvalMode&) = delete;

 private:
  std::vector<NamedModule> modules_;
  std::vector<bool> modes_;
};

}  // namespace adret
