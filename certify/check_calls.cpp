// What calls leave behind, and whether they are the same again.
#include <adret/autograd/grad_mode.h>
#include <adret/certify/check.h>
#include <adret/core/backend.h>
#include <adret/core/compute_mode.h>
#include <adret/core/random.h>
#include <fmt/core.h>

#include <algorithm>

namespace adret::certify_checks {
namespace {

NamedTensors named(const CertifyTask& task, const std::vector<Tensor>& inputs) {
  NamedTensors list;
  for (size_t i = 0; i < inputs.size(); ++i) {
    list.push_back({input_name(task, i), inputs[i].detach()});
  }
  return list;
}

NamedTensors parameters_of(const Module* module) {
  NamedTensors list;
  if (!module) return list;
  for (const auto& [name, parameter] : module->named_parameters()) {
    list.push_back({name, parameter->value.detach()});
  }
  return list;
}

NamedTensors copied(NamedTensors list) {
  for (NamedTensor& one : list) one.tensor = one.tensor.clone();
  return list;
}

}  // namespace

Finding repeatable(const CertifyTask& task, Device device) {
  ComputeMode mode = compute_mode();
  mode.deterministic = true;
  const ComputeModeScope deterministic(mode);
  for (const bool training : {true, false}) {
    SubjectCopy copy(task, {.device = device, .training = training});
    const NamedTensors first = copy.outputs_and_gradients();
    const std::string text = difference(copy.outputs_and_gradients(), first,
                                        {"the second time", "the first, from the same seed"});
    if (text.empty()) {
      NamedTensors plain = copy.outputs();
      const NamedTensors recorded(first.begin(), first.begin() + int64_t(plain.size()));
      const std::string other =
          difference(plain, recorded,
                     {"under NoGrad", "where gradients are wanted", task.options.tolerances.f32});
      if (other.empty()) continue;
      return failed_for(fmt::format("in {}, {}", mode_name(training), other),
                        "compute the same whether gradients are recorded or not");
    }
    return failed_for(fmt::format("in {}, {}", mode_name(training), text),
                      "register what is kept between calls with buffer(), draw random numbers "
                      "through core/random.h, and add up in an order that is fixed");
  }
  return {};
}

Finding inputs_untouched(const CertifyTask& task) {
  for (const bool training : {true, false}) {
    SubjectCopy copy(task, {.training = training});
    const std::vector<Tensor> inputs = as_leaves(task, copy.inputs());
    copy.begin();
    std::vector<uint32_t> versions;
    for (const Tensor& input : inputs) versions.push_back(input.version());
    const NamedTensors before = copied(named(task, inputs));
    const NamedTensors parameters = copied(parameters_of(copy.module()));
    weighted_backward(copy.call_as_is(inputs));
    const Comparison how{"after forward and backward", "before"};
    std::string text = difference(named(task, inputs), before, how);
    if (text.empty()) text = difference(parameters_of(copy.module()), parameters, how);
    for (size_t i = 0; i < inputs.size() && text.empty(); ++i) {
      if (inputs[i].version() == versions[i]) continue;
      text = fmt::format("{} {} was written to, with what it held", input_name(task, i),
                         to_string(inputs[i].shape()));
    }
    if (text.empty()) continue;
    return failed_for(fmt::format("in {}, {}", mode_name(training), text),
                      "write into a clone(), or into a tensor that forward makes");
  }
  return {};
}

Finding evaluation(const CertifyTask& task) {
  SubjectCopy copy(task, {.training = false});
  const NoGrad no_grad;
  copy.begin();
  const NamedTensors before = copy.state();
  const auto call = [&] {
    return copied(named_outputs(copy.call_as_is(as_leaves(task, copy.inputs()))));
  };
  const NamedTensors first = call();
  const NamedTensors after = copy.state();
  const std::string changed = difference(after, before, {"after a call in evaluation", "before"});
  if (!changed.empty()) {
    return failed_for(changed, "ask training() before state is updated");
  }
  if (task.options.random) return {.reason = "its random numbers are meant to be drawn"};
  random::manual_seed(random::seed() + 1);
  const std::string drawn = difference(
      call(), first, {"from another seed", "from the one before", task.options.tolerances.f32});
  return failed_for(drawn,
                    "ask training() before drawing, declare layers that draw with add(), so that "
                    "eval() reaches them, or say .random = true");
}

Finding flat_memory(const CertifyTask& task, Device device) {
  SubjectCopy copy(task, {.device = device});
  MemoryPool& pool = backend_for(device).services().pool();
  copy.begin();
  const auto call = [&] {
    if (copy.module()) copy.module()->zero_grad();
    weighted_backward(copy.call_as_is(as_leaves(task, copy.inputs())));
  };
  const int64_t calls = std::max<int64_t>(2, task.options.calls), first = (calls + 9) / 10;
  for (int64_t i = 0; i < first; ++i) call();
  const size_t before = pool.stats().current;
  for (int64_t i = first; i < calls; ++i) call();
  const size_t after = pool.stats().current;
  if (after <= before) {
    return {.reason =
                fmt::format("{} bytes are held after {} calls as after {}", after, calls, first)};
  }
  std::string holders;
  for (const MemoryHolder& holder : pool.holders(3)) {
    holders += fmt::format("{}{} {}", holders.empty() ? "" : ", ",
                           holder.name.empty() ? "(no function)" : holder.name, holder.bytes);
  }
  return failed_for(
      fmt::format("{} bytes are held after {} calls, {} after {}: {} more each call; most is held "
                  "by {}",
                  after, calls, before, first, (after - before) / size_t(calls - first), holders),
      "keep no tensors from call to call, nor results whose graph holds them");
}

}  // namespace adret::certify_checks
