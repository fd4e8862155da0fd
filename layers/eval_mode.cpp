// Evaluation for the length of a scope.
#include <adret/layers/eval_mode.h>

namespace adret {

EvalMode::EvalMode(Module& model) : modules_(model.named_modules()) {
  for (const NamedModule& entry : modules_) modes_.push_back(entry.module->training());
  model.eval();
}

EvalMode::~EvalMode() {
  // A parent sets its children's modes too; their turn comes after.
  for (size_t i = 0; i < modules_.size(); ++i) modules_[i].module->train(modes_[i]);
}

}  // namespace adret
