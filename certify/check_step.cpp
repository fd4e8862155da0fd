// Training steps that are replayed, against the same ones made eagerly.
#include <adret/autograd/ops/arithmetic.h>
#include <adret/autograd/ops/reduce.h>
#include <adret/certify/check.h>
#include <adret/core/random.h>
#include <adret/optim/sgd.h>
#include <adret/train/step.h>
#include <fmt/core.h>

#include <algorithm>
#include <optional>

namespace adret::certify_checks {
namespace {

constexpr int64_t steps = 8;

// Losses, outputs and gradients of inputs of every step, and the state behind the last.
struct Trajectory {
  NamedTensors results;
  StepReport report;
};

// The mean square of all floating outputs.
Tensor loss_of(const std::vector<Tensor>& outputs) {
  Tensor loss;
  for (const Tensor& output : outputs) {
    if (!output.requires_grad()) continue;
    const Tensor wide = output.to(DType::f32);
    const Tensor one = mean(wide * wide);
    loss = loss.defined() ? loss + one : one;
  }
  return loss;
}

bool learns(const Module* module) {
  if (!module) return false;
  return std::ranges::any_of(module->parameters(), &Parameter::requires_grad);
}

std::vector<Tensor> learn(const CertifyTask& task, SubjectCopy& copy, std::optional<Sgd>& sgd,
                          const std::vector<Tensor>& inputs) {
  if (sgd) sgd->zero_grad();
  const std::vector<Tensor> leaves = as_leaves(task, inputs);
  std::vector<Tensor> results = copy.call_as_is(leaves);
  const Tensor loss = loss_of(results);
  if (!loss.defined()) return results;
  loss.backward();
  if (sgd) sgd->step();
  results.push_back(loss);
  for (const Tensor& leaf : leaves) {
    if (leaf.requires_grad() && leaf.grad().defined()) results.push_back(leaf.grad());
  }
  return results;
}

Trajectory train(const CertifyTask& task, Device device, StepMode mode) {
  SubjectCopy copy(task, {.device = device});
  copy.begin();
  std::optional<Sgd> sgd;
  if (learns(copy.module())) sgd.emplace(*copy.module(), SgdOptions{.lr = 0.01, .momentum = 0.9});
  Step step([&](const std::vector<Tensor>& inputs) { return learn(task, copy, sgd, inputs); },
            {.mode = mode});
  Trajectory run;
  for (int64_t i = 0; i < steps; ++i) {
    random::begin_step(i);
    const std::vector<Tensor> results = step.run(copy.other_inputs(i));
    for (size_t k = 0; k < results.size(); ++k) {
      run.results.push_back({fmt::format("result {} of step {}", k, i), results[k].clone()});
    }
  }
  for (NamedTensor& one : copy.state()) run.results.push_back(std::move(one));
  run.report = step.report();
  return run;
}

}  // namespace

Finding captured_step(const CertifyTask& task, Device device) {
  const Trajectory replayed = train(task, device, StepMode::automatic);
  const StepReport& report = replayed.report;
  const bool complete = report.replays > 0 && (report.captured || report.reason.empty());
  if (!complete && !task.options.eager_step) {
    return failed_for(fmt::format("a step is not {}: {}",
                                  report.replays > 0 ? "captured" : "replayed", report.reason),
                      "mend that, or say .eager_step = true");
  }
  const Trajectory eager = train(task, device, StepMode::eager);
  const Finding found = failed_for(
      difference(replayed.results, eager.results,
                 {"replayed", "in eager steps", task.options.tolerances.f32}),
      "a replay runs the kernels of an earlier step: what changes from step to step must "
      "lie in tensors that kernels write");
  if (found.verdict == Verdict::failed) return found;
  if (!complete) return {.reason = "it stays eager, as it may: " + report.reason};
  return {.reason = fmt::format("{} of {} steps replayed, {} kernels", report.replays, report.calls,
                                report.kernels)};
}

}  // namespace adret::certify_checks
