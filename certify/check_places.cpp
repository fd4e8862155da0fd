// The same in other dtypes, and on another device.
#include <adret/autograd/grad_mode.h>
#include <adret/autograd/ops/inplace.h>
#include <adret/certify/check.h>
#include <adret/core/error.h>
#include <fmt/core.h>

namespace adret::certify_checks {
namespace {

bool has_floats(const SubjectCopy& copy, const NamedTensors& state) {
  for (const Tensor& input : copy.inputs()) {
    if (is_floating(input.dtype())) return true;
  }
  for (const NamedTensor& one : state) {
    if (is_floating(one.tensor.dtype())) return true;
  }
  return false;
}

// Of results that are to be in `dtype`.
std::string other_dtype(const CertifyTask& task, const NamedTensors& results, DType dtype) {
  for (const auto& [name, tensor] : results) {
    if (!tensor.defined() || !is_floating(tensor.dtype()) || tensor.dtype() == dtype) continue;
    if (!name.starts_with("output")) continue;
    if (task.options.f32_outputs && tensor.dtype() == DType::f32) continue;
    return fmt::format("{} is {} for {} of {}", name, to_string(tensor.dtype()),
                       task.subject.given ? "a layer and inputs" : "inputs", to_string(dtype));
  }
  return "";
}

// In f32 what `low` holds, so that both compute with the same numbers.
void take_rounded(SubjectCopy& reference, SubjectCopy& low) {
  const NoGrad no_grad;
  std::vector<Tensor> inputs = low.inputs();
  for (Tensor& input : inputs) {
    if (is_floating(input.dtype())) input = input.to(DType::f32);
  }
  reference.set_inputs(std::move(inputs));
  if (!low.module()) return;
  const auto from = low.module()->parameters(), to = reference.module()->parameters();
  for (size_t i = 0; i < to.size(); ++i) copy_(to[i]->value, from[i]->value.to(DType::f32));
  const auto low_buffers = low.module()->named_buffers();
  const auto buffers = reference.module()->named_buffers();
  for (size_t i = 0; i < buffers.size(); ++i) {
    copy_(buffers[i].tensor, low_buffers[i].tensor.to(buffers[i].tensor.dtype()));
  }
  reference.keep_state();
}

}  // namespace

namespace {

Finding in_dtype_and_mode(const CertifyTask& task, DType dtype, bool training) {
  const std::string in = "in " + to_string(dtype);
  NamedTensors results;
  SubjectCopy low(task, {.dtype = dtype, .training = training});
  try {
    results = low.outputs_and_gradients();
  } catch (const Error& error) {
    return {Verdict::refused, error.what()};
  }
  if (has_floats(low, low.state())) {
    const std::string text = other_dtype(task, results, dtype);
    if (!text.empty()) {
      return failed_for(text,
                        "make outputs in the dtype of the inputs, or say .f32_outputs = true");
    }
  }
  SubjectCopy reference(task, {.training = training});
  take_rounded(reference, low);
  const double tolerance =
      tolerance_of(task.options.tolerances, dtype == DType::f64 ? DType::f32 : dtype);
  return failed_for(difference(results, reference.outputs_and_gradients(),
                               {in.c_str(), "in f32, with the same numbers", tolerance}),
                    "compute in f32 within, and round what is returned; see .tolerances");
}

Finding on_device_in_mode(const CertifyTask& task, Device device, DType dtype, bool training) {
  NamedTensors expected;
  try {
    expected = SubjectCopy(task, {.dtype = dtype, .training = training}).outputs_and_gradients();
  } catch (const Error& error) {
    if (dtype == DType::f32) throw;
    return {Verdict::refused, error.what()};
  }
  const NamedTensors results =
      SubjectCopy(task, {.dtype = dtype, .device = device, .training = training})
          .outputs_and_gradients();
  for (const auto& [name, tensor] : results) {
    if (tensor.defined() && tensor.device() != device) {
      return failed_for(fmt::format("{} is on {}, the inputs on {}", name,
                                    to_string(tensor.device()), to_string(device)),
                        "make outputs on the device of the inputs");
    }
  }
  const std::string on = "on " + to_string(device);
  return failed_for(
      difference(results, expected,
                 {on.c_str(), "on the CPU", tolerance_of(task.options.tolerances, dtype)}),
      "compare the kernels of both devices; see .tolerances");
}

// In training, and if nothing is wrong there, in evaluation.
template <class Check>
Finding in_both_modes(const Check& check) {
  Finding found = check(true);
  if (found.verdict != Verdict::passed) return found;
  found = check(false);
  if (found.verdict != Verdict::passed) found.reason = "in evaluation: " + found.reason;
  return found;
}

}  // namespace

Finding in_dtype(const CertifyTask& task, DType dtype) {
  return in_both_modes([&](bool training) { return in_dtype_and_mode(task, dtype, training); });
}

Finding on_device(const CertifyTask& task, Device device, DType dtype) {
  return in_both_modes(
      [&](bool training) { return on_device_in_mode(task, device, dtype, training); });
}

}  // namespace adret::certify_checks
