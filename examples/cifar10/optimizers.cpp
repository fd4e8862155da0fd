// Which parameter belongs to which optimizer, and the schedules by name.
#include "optimizers.h"

#include <algorithm>
#include <string>

namespace cifar10 {
namespace {

// As in the speed run. Weights of a fixed norm make the rate the relative size of a step. A
// momentum of 0.9 wanted smaller rates and gave no more accuracy.
constexpr double muon_momentum = 0.6;
constexpr bool muon_normalize = true;
constexpr int muon_iterations = 3;

using Parameters = std::vector<std::shared_ptr<Parameter>>;

LrSchedule schedule_of(const std::string& name, double lr, int64_t steps) {
  if (name == "cosine") {
    return cosine_lr({.lr = lr, .steps = steps, .warmup_steps = steps / 20});
  }
  if (name == "step") {
    return step_lr({.lr = lr, .every = std::max<int64_t>(1, steps / 3)});
  }
  if (name == "constant") return constant_lr(lr);
  return one_cycle_lr({.max_lr = lr, .steps = steps, .warmup = 0.25});
}

// The convolutions behind the first, which reads the three colours.
Parameters hidden_filters(const Module& model) {
  Parameters filters;
  for (const auto& parameter : model.parameters()) {
    if (parameter->value.rank() == 4) filters.push_back(parameter);
  }
  filters.erase(filters.begin());
  return filters;
}

// Weights decay, biases and norms do not.
std::unique_ptr<Sgd> make_sgd(const Parameters& parameters, const Arguments& args) {
  SgdOptions plain{.lr = args.lr, .momentum = 0.9, .nesterov = true}, decayed = plain;
  decayed.weight_decay = args.weight_decay;
  std::vector<ParameterGroup<SgdOptions>> groups = {{{}, decayed}, {{}, plain}};
  for (const auto& parameter : parameters) {
    groups[parameter->value.rank() > 1 ? 0 : 1].parameters.push_back(parameter);
  }
  return std::make_unique<Sgd>(groups);
}

std::unique_ptr<Muon> make_muon(const Parameters& filters, double lr) {
  const MuonOptions options{.lr = lr,
                            .momentum = muon_momentum,
                            .normalize = muon_normalize,
                            .iterations = muon_iterations};
  return std::make_unique<Muon>(std::vector<ParameterGroup<MuonOptions>>{{filters, options}});
}

}  // namespace

Optimizers make_optimizers(const Module& model, const Arguments& args, int64_t steps) {
  Optimizers optimizers;
  Parameters rest = model.parameters();
  if (args.muon_lr > 0) {
    const Parameters filters = hidden_filters(model);
    std::erase_if(rest, [&](const auto& one) { return std::ranges::count(filters, one) > 0; });
    optimizers.muon = make_muon(filters, args.muon_lr);
    optimizers.list.push_back({*optimizers.muon, schedule_of(args.schedule, args.muon_lr, steps)});
  }
  optimizers.sgd = make_sgd(rest, args);
  optimizers.list.push_back({*optimizers.sgd, schedule_of(args.schedule, args.lr, steps)});
  return optimizers;
}

}  // namespace cifar10
