// Runs the checks of a certificate one by one, and writes its rows.
#include <adret/autograd/grad_mode.h>
#include <adret/certify/certify.h>
#include <adret/certify/check.h>
#include <adret/core/backend.h>
#include <adret/core/error.h>
#include <adret/core/random_calls.h>
#include <fmt/core.h>

#include <algorithm>
#include <functional>

namespace adret {

namespace certify_checks {

Finding failed_for(const std::string& reason, const std::string& advice) {
  if (reason.empty()) return {};
  return {Verdict::failed, reason + "; " + advice};
}

bool takes(const CertifyTask& task, DType dtype) {
  return std::ranges::find(task.options.dtypes, dtype) != task.options.dtypes.end();
}

}  // namespace certify_checks

namespace certify_detail {

void throw_input_count(const std::string& name, size_t count) {
  throw ShapeError(fmt::format(
      "[certify] {} cannot be called with {} tensor(s), as many as there are shapes, and return "
      "tensors; give the shape of each input, or wrap it in a function of tensors",
      name, count));
}

}  // namespace certify_detail

namespace {

using namespace certify_checks;

constexpr const char* check_names[] = {
    "runs",          "copies",     "gradients",        "second derivative",
    "parameters",    "state",      "conversion",       "batch sizes",
    "samples apart", "repeatable", "inputs untouched", "evaluation",
    "dtypes",        "devices",    "captured step",    "memory"};

// The thread's random numbers go on afterwards where they were.
class RandomScope {
 public:
  RandomScope() : before_(random::state()) {}
  ~RandomScope() { random::set_state(before_); }
  RandomScope(const RandomScope&) = delete;
  RandomScope& operator=(const RandomScope&) = delete;

 private:
  random::State before_;
};

void check_options(const CertifyTask& task) {
  const CertifyOptions& options = task.options;
  const std::string& name = task.subject.name;
  if (task.shapes.empty()) {
    throw Error(fmt::format("[certify] {}: give the shape of each input", name));
  }
  if (options.inputs.size() > task.shapes.size()) {
    throw Error(fmt::format("[certify] {}: .inputs describes {} inputs, there are {} shapes", name,
                            options.inputs.size(), task.shapes.size()));
  }
  for (const CertifyInput& input : options.inputs) {
    if (input.low < input.high && input.below >= 0 && !is_floating(input.whole)) continue;
    throw Error(
        fmt::format("[certify] {}: input \"{}\" wants low < high, below >= 0 and a whole "
                    "dtype, got {}, {}, {} and {}",
                    name, input.name, input.low, input.high, input.below, to_string(input.whole)));
  }
  if (!takes(task, DType::f32) || !std::ranges::all_of(options.dtypes, is_floating)) {
    throw Error(fmt::format("[certify] {}: .dtypes wants floating ones, f32 among them", name));
  }
  for (const auto& [check, why] : options.skip) {
    if (std::ranges::find(check_names, check) == std::end(check_names)) {
      std::string known;
      for (const char* one : check_names) known += std::string(known.empty() ? "" : ", ") + one;
      throw Error(fmt::format("[certify] {}: there is no check \"{}\" to skip; there are: {}", name,
                              check, known));
    }
    if (why.empty()) {
      throw Error(fmt::format("[certify] {}: say why \"{}\" is skipped", name, check));
    }
  }
}

// Writes the rows of one certificate.
class Rows {
 public:
  Rows(const CertifyTask& task, Certificate& certificate)
      : task_(task), certificate_(certificate) {}

  // False if it failed.
  bool add(const std::string& check, const std::string& where,
           const std::function<Finding()>& run) {
    Finding found;
    const auto skip = task_.options.skip.find(check);
    if (skip != task_.options.skip.end()) {
      found = skipped(skip->second);
    } else if (!stopped_.empty()) {
      found = skipped(stopped_);
    } else {
      try {
        found = run();
      } catch (const std::exception& error) {
        found = {Verdict::failed, error.what()};
      }
    }
    certificate_.rows.push_back(
        {where.empty() ? check : check + ": " + where, found.verdict, found.reason});
    return found.verdict != Verdict::failed;
  }
  // The rest is skipped.
  void stop(const std::string& why) { stopped_ = why; }

 private:
  const CertifyTask& task_;
  Certificate& certificate_;
  std::string stopped_;
};

// The device beside the CPU, or the CPU and the reason.
Device other_device(const CertifyOptions& options, std::string& why) {
  if (options.device == "cpu") why = "the CPU alone was asked for";
  if (options.device == "auto") return Device::best(&why);
  const Device device = Device::parse(options.device);
  backend_for(device);
  return device;
}

void check_on_cpu(const CertifyTask& task, Rows& rows) {
  rows.add("gradients", "", [&] { return gradients(task); });
  rows.add("second derivative", "", [&] { return second_derivative(task); });
  rows.add("parameters", "", [&] { return parameters(task); });
  rows.add("state", "", [&] { return state(task); });
  rows.add("batch sizes", "", [&] { return batch_sizes(task); });
  rows.add("samples apart", "", [&] { return samples_apart(task); });
  rows.add("inputs untouched", "", [&] { return inputs_untouched(task); });
  rows.add("evaluation", "", [&] { return evaluation(task); });
  for (const DType dtype : task.options.dtypes) {
    if (dtype == DType::f32) continue;
    rows.add("dtypes", to_string(dtype), [&] { return in_dtype(task, dtype); });
  }
}

void check_on(const CertifyTask& task, Rows& rows, Device device) {
  const std::string where = device.is_cpu() ? "" : to_string(device);
  rows.add("repeatable", where, [&] { return repeatable(task, device); });
  rows.add("captured step", where, [&] { return captured_step(task, device); });
  rows.add("memory", where, [&] { return flat_memory(task, device); });
}

void check_other_device(const CertifyTask& task, Rows& rows) {
  std::string why;
  Device other;
  try {
    other = other_device(task.options, why);
  } catch (const Error& error) {
    rows.add("devices", task.options.device, [&]() -> Finding {
      return {Verdict::failed, error.what()};
    });
    return;
  }
  rows.add("conversion", "", [&] { return conversion(task, other); });
  if (other.is_cpu()) {
    rows.add("devices", "", [&] { return skipped("no GPU here: " + why); });
    return;
  }
  for (const DType dtype : task.options.dtypes) {
    rows.add("devices", to_string(other) + " " + to_string(dtype),
             [&] { return on_device(task, other, dtype); });
  }
  check_on(task, rows, other);
}

}  // namespace

Certificate certify(const Subject& subject, const std::vector<Shape>& shapes,
                    const CertifyOptions& options) {
  const CertifyTask task{subject, shapes, options};
  check_options(task);
  const RandomScope random;
  const GradMode recorded(true);
  Certificate certificate{.subject = subject.name};
  for (const Shape& shape : shapes) certificate.subject += " " + to_string(shape);
  Rows rows(task, certificate);
  if (!rows.add("runs", "", [&] { return runs(task); })) rows.stop("it does not run");
  rows.add("copies", "", [&] { return copies(task); });
  check_on_cpu(task, rows);
  check_on(task, rows, Device::cpu());
  check_other_device(task, rows);
  return certificate;
}

}  // namespace adret
