// Batches of any size, and whether their samples have to do with each other.
#include <adret/autograd/grad_mode.h>
#include <adret/certify/check.h>
#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <exception>

namespace adret::certify_checks {
namespace {

bool has_batch(const CertifyTask& task) {
  for (size_t i = 0; i < task.shapes.size(); ++i) {
    if (task.shapes[i].rank() > 0 && input_options(task, i).batch) return true;
  }
  return false;
}

Finding no_batch() { return skipped("no input has a batch dimension"); }

std::string find_nan(const NamedTensors& results) {
  const NoGrad no_grad;
  for (const auto& [name, tensor] : results) {
    if (!tensor.defined() || !is_floating(tensor.dtype())) continue;
    const std::vector<double> values = tensor.detach().to(DType::f64).to_vector<double>();
    if (std::ranges::any_of(values, [](double value) { return std::isnan(value); })) {
      return fmt::format("{} {} has NaN", name, to_string(tensor.shape()));
    }
  }
  return "";
}

// Of each output, whether its leading dimension is the batch: that of two sizes tells.
std::vector<bool> batched_outputs(const CertifyTask& task) {
  std::vector<bool> list;
  for (const int64_t batch : {2, 3}) {
    const NamedTensors outputs = SubjectCopy(task, {.training = false, .batch = batch}).outputs();
    list.resize(outputs.size(), true);
    for (size_t i = 0; i < outputs.size(); ++i) {
      const Shape& shape = outputs[i].tensor.shape();
      list[i] = list[i] && shape.rank() > 0 && shape[0] == batch;
    }
  }
  return list;
}

// Of the batch that the shapes say: else that is what "gradients" reports, or what it was told.
bool has_right_gradients(const CertifyTask& task, bool training) {
  return !task.options.skip.contains("gradients") && wrong_together(task, training, -1).empty();
}

std::string wrong_at(const CertifyTask& task, int64_t batch, bool training,
                     const std::vector<bool>& batched) {
  try {
    const NamedTensors results =
        SubjectCopy(task, {.training = training, .batch = batch}).outputs_and_gradients();
    for (size_t i = 0; i < batched.size(); ++i) {
      const Shape& shape = results[i].tensor.shape();
      if (batched[i] && (shape.rank() == 0 || shape[0] != batch)) {
        return fmt::format("{} is {}", results[i].name, to_string(shape));
      }
    }
    // A mean over no samples may be NaN; gradients then are not.
    const std::string nan =
        find_nan(batch == 0 ? NamedTensors(results.begin() + int64_t(batched.size()), results.end())
                            : results);
    const bool is_checked = nan.empty() && batch > 0 && has_right_gradients(task, training);
    return is_checked ? wrong_together(task, training, batch) : nan;
  } catch (const std::exception& error) {
    return error.what();
  }
}

}  // namespace

Finding runs(const CertifyTask& task) {
  for (const bool training : {true, false}) {
    SubjectCopy copy(task, {.training = training});
    const std::string text = find_nan(copy.outputs_and_gradients());
    if (text.empty()) continue;
    return failed_for(fmt::format("in {}: {}", mode_name(training), text),
                      "where it is defined for some numbers only, say which with .inputs");
  }
  return {};
}

Finding batch_sizes(const CertifyTask& task) {
  if (!has_batch(task)) return no_batch();
  const std::vector<bool> batched = batched_outputs(task);
  std::string sizes;
  for (const int64_t batch : task.options.batches) {
    sizes += fmt::format("{}{}", sizes.empty() ? "" : ", ", batch);
    for (const bool training : {true, false}) {
      const std::string text = wrong_at(task, batch, training, batched);
      if (text.empty()) continue;
      return failed_for(fmt::format("a batch of {} in {}: {}", batch, mode_name(training), text),
                        "let any number of samples pass, 0 too, or say which with .batches");
    }
  }
  return {.reason = sizes};
}

namespace {

// Row `row` alone of the tensors that have a batch.
template <class Batched>
std::vector<Tensor> rows(const std::vector<Tensor>& tensors, int64_t row, const Batched& batched) {
  std::vector<Tensor> list;
  for (size_t i = 0; i < tensors.size(); ++i) {
    const Tensor& all = tensors[i];
    if (!batched(i)) {
      list.push_back(all);
      continue;
    }
    const Shape shape = all.shape().with(0, 1);
    const size_t bytes = size_t(shape.numel()) * size_of(all.dtype());
    list.push_back(all.alias(shape, size_t(row) * bytes).clone());
  }
  return list;
}

std::vector<Tensor> tensors_of(const NamedTensors& named) {
  std::vector<Tensor> list;
  for (const NamedTensor& one : named) list.push_back(one.tensor);
  return list;
}

}  // namespace

Finding samples_apart(const CertifyTask& task) {
  if (!has_batch(task)) return no_batch();
  if (task.options.mixes_samples) return skipped("its samples are meant to depend on each other");
  if (task.options.random) return skipped("it draws random numbers");
  constexpr int64_t count = 3;
  const DType dtype = takes(task, DType::f64) ? DType::f64 : DType::f32;
  const std::vector<bool> batched = batched_outputs(task);
  if (std::ranges::find(batched, true) == batched.end()) {
    return skipped("no output has a batch dimension");
  }
  const NoGrad no_grad;
  SubjectCopy copy(task, {.dtype = dtype, .training = false, .batch = count});
  const std::vector<Tensor> whole = tensors_of(copy.outputs());
  for (int64_t row = 0; row < count; ++row) {
    const std::vector<Tensor> alone = rows(copy.inputs(), row, [&](size_t i) {
      return task.shapes[i].rank() > 0 && input_options(task, i).batch;
    });
    std::vector<Tensor> expected = tensors_of(copy.outputs(alone));
    std::vector<Tensor> actual = rows(whole, row, [&](size_t i) { return batched[i]; });
    for (size_t i = 0; i < batched.size(); ++i) {
      if (!batched[i]) actual[i] = expected[i];
    }
    const std::string text =
        difference(named_outputs(actual), named_outputs(expected),
                   {"in a batch of three", "alone", tolerance_of(task.options.tolerances, dtype)});
    if (text.empty()) continue;
    return failed_for(fmt::format("in evaluation, of sample {}: {}", row, text),
                      "where samples are meant to depend on each other, say .mixes_samples = true");
  }
  return {};
}

}  // namespace adret::certify_checks
