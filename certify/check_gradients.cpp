// Gradients against central differences.
#include <adret/autograd/engine.h>
#include <adret/autograd/gradcheck.h>
#include <adret/autograd/ops/shape.h>
#include <adret/certify/check.h>
#include <adret/core/error.h>
#include <fmt/core.h>

#include <algorithm>
#include <typeinfo>

namespace adret::certify_checks {
namespace {

// The subject as a function of its inputs and parameters, in f64.
class GradientCase {
 public:
  GradientCase(const CertifyTask& task, bool training, int64_t batch = -1)
      : task_(task),
        coarse_(!takes(task, DType::f64)),
        copy_(task,
              {.dtype = coarse_ ? DType::f32 : DType::f64, .training = training, .batch = batch}) {
    for (size_t i = 0; i < copy_.inputs().size(); ++i) {
      const Tensor& input = copy_.inputs()[i];
      const bool varies = is_floating(input.dtype()) && input_options(task, i).differentiable;
      add(input_name(task, i), input, varies);
    }
    if (!copy_.module()) return;
    for (const auto& [name, parameter] : copy_.module()->named_parameters()) {
      parameters_.push_back(parameter);
      add(name, parameter->value, parameter->requires_grad());
    }
  }

  bool coarse() const { return coarse_; }
  size_t size() const { return values_.size(); }
  bool varies(size_t i) const { return varies_[i]; }
  const std::string& name(size_t i) const { return names_[i]; }

  // Those of which `chosen` says so require a gradient.
  template <class Chosen>
  std::string check(const Chosen& chosen, GradcheckOptions options) {
    if (coarse_) options.epsilon = 1e-2, options.absolute = 1e-2, options.relative = 2e-2;
    std::vector<Tensor> values;
    for (size_t i = 0; i < size(); ++i) {
      values.push_back(values_[i].clone());
      if (varies(i) && chosen(i)) values.back().set_requires_grad(true);
    }
    return named(gradcheck([this](const auto& list) { return run(list); }, values, options));
  }

 private:
  void add(const std::string& name, const Tensor& value, bool varies) {
    const Tensor plain = value.detach();
    values_.push_back(varies ? plain.to(DType::f64) : plain);
    varies_.push_back(varies);
    names_.push_back(name);
  }

  Tensor own_dtype(const Tensor& value) const {
    return coarse_ && value.dtype() == DType::f64 ? value.to(DType::f32) : value;
  }

  // All floating outputs, one behind the other.
  Tensor run(const std::vector<Tensor>& values) {
    copy_.begin();
    const size_t count = copy_.inputs().size();
    std::vector<Tensor> inputs;
    for (size_t i = 0; i < count; ++i) inputs.push_back(own_dtype(values[i]));
    const Places places(parameters_);
    for (size_t i = 0; i < parameters_.size(); ++i) {
      parameters_[i]->value = own_dtype(values[count + i]);
    }
    std::vector<Tensor> outputs;
    for (const Tensor& output : copy_.call_as_is(inputs)) {
      if (is_floating(output.dtype())) outputs.push_back(output.to(DType::f64).reshape({-1}));
    }
    return outputs.empty() ? Tensor::zeros({}, {.dtype = DType::f64}) : concatenate(outputs, 0);
  }

  // Puts the parameters' own values back.
  class Places {
   public:
    explicit Places(const std::vector<std::shared_ptr<Parameter>>& parameters)
        : parameters_(parameters) {
      for (const auto& parameter : parameters) values_.push_back(parameter->value);
    }
    ~Places() {
      for (size_t i = 0; i < values_.size(); ++i) parameters_[i]->value = values_[i];
    }
    Places(const Places&) = delete;
    Places& operator=(const Places&) = delete;

   private:
    const std::vector<std::shared_ptr<Parameter>>& parameters_;
    std::vector<Tensor> values_;
  };

  // Behind those of the subject comes the output's gradient.
  std::string named(std::string text) const {
    const std::string prefix = "[gradcheck] ";
    if (text.starts_with(prefix)) text = text.substr(prefix.size());
    for (size_t i = 0; i <= size(); ++i) {
      const std::string number = fmt::format("input {} (", i);
      const size_t at = text.find(number);
      if (at == std::string::npos) continue;
      const std::string name = i < size() ? names_[i] : "the output's gradient";
      return text.replace(at, number.size(), name + " (");
    }
    return text;
  }

  const CertifyTask& task_;
  bool coarse_;
  SubjectCopy copy_;
  std::vector<std::shared_ptr<Parameter>> parameters_;
  std::vector<Tensor> values_;
  std::vector<bool> varies_;
  std::vector<std::string> names_;
};

std::string join(const std::vector<std::string>& list) {
  std::string text;
  for (const std::string& one : list) text += (text.empty() ? "" : "; ") + one;
  return text;
}

std::vector<bool> modes(const CertifyTask& task) {
  return task.subject.given ? std::vector<bool>{true, false} : std::vector<bool>{true};
}

}  // namespace

std::string wrong_together(const CertifyTask& task, bool training, int64_t batch) {
  const GradcheckOptions options{.elements =
                                     std::max<int64_t>(1, task.options.gradient_elements / 4)};
  return GradientCase(task, training, batch).check([](size_t) { return true; }, options);
}

Finding gradients(const CertifyTask& task) {
  const GradcheckOptions options{.elements = task.options.gradient_elements};
  std::string checked;
  bool coarse = false;
  for (const bool training : modes(task)) {
    GradientCase of(task, training);
    coarse = of.coarse();
    checked.clear();
    std::vector<std::string> wrong;
    for (size_t i = 0; i < of.size(); ++i) {
      if (!of.varies(i)) continue;
      const std::string text = of.check([i](size_t k) { return k == i; }, options);
      if (!text.empty()) wrong.push_back(text);
      checked += (checked.empty() ? "" : ", ") + of.name(i);
    }
    if (wrong.empty()) {
      const std::string text = wrong_together(task, training, -1);
      if (!text.empty()) wrong.push_back("with all gradients wanted, " + text);
    }
    if (wrong.empty()) continue;
    return failed_for(
        fmt::format("in {}: {}", mode_name(training), join(wrong)),
        "mend backward(); where a gradient is meant to differ, skip this check and say why");
  }
  if (checked.empty()) return {Verdict::refused, "nothing here has a gradient"};
  return {.reason = checked + (coarse ? ", coarsely in f32" : "")};
}

Finding second_derivative(const CertifyTask& task) {
  GradientCase of(task, true);
  if (of.coarse()) return skipped("it is checked in f64, which is not among the dtypes");
  try {
    const std::string text = of.check(
        [](size_t) { return true; },
        {.second = true, .elements = std::max<int64_t>(1, task.options.gradient_elements / 2)});
    if (!text.empty() && !text.starts_with("gradient of the gradient")) {
      return skipped("the first one is wrong already");
    }
    return failed_for(text,
                      "a node's backward() is written with differentiable functions, or throws an "
                      "Error where grad_enabled(); a formula is wrong where max, min or abs has a "
                      "tie, as a parameter that starts at 0: start beside it, or select()");
  } catch (const Error& error) {
    // A layer that has none says so; other errors are of other kinds.
    if (typeid(error) != typeid(Error)) throw;
    return {Verdict::refused, error.what()};
  }
}

}  // namespace adret::certify_checks
