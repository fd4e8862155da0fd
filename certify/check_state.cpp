// Copies, files and conversions: whether a layer is what it registers.
#include <adret/autograd/grad_mode.h>
#include <adret/certify/check.h>
#include <adret/core/error.h>
#include <adret/core/random.h>
#include <adret/layers/eval_mode.h>
#include <adret/train/weights.h>
#include <fmt/core.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>

namespace adret::certify_checks {
namespace {

constexpr const char* forgotten =
    "what a layer keeps between calls or draws when it is made must be registered, with buffer() "
    "or "
    "parameter(), and rebuild() must pass on what the constructor was given";

Finding no_state() { return skipped("a function has no state"); }

// A path for a file, which goes with it.
class TemporaryFile {
 public:
  TemporaryFile() : path_((std::filesystem::temp_directory_path() / "adret_XXXXXX").string()) {
    const int file = mkstemp(path_.data());
    if (file < 0) throw Error(fmt::format("[certify] cannot write to {}; set TMPDIR", path_));
    close(file);
  }
  ~TemporaryFile() {
    std::error_code ignored;
    std::filesystem::remove(path_, ignored);
  }
  TemporaryFile(const TemporaryFile&) = delete;
  TemporaryFile& operator=(const TemporaryFile&) = delete;
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

std::vector<NamedTensor> tensors_of(const Module& module) {
  std::vector<NamedTensor> list = module.named_buffers();
  for (const auto& [name, parameter] : module.named_parameters()) {
    list.push_back({name, parameter->value.detach()});
  }
  return list;
}

NamedTensors copied(NamedTensors list) {
  for (NamedTensor& one : list) one.tensor = one.tensor.clone();
  return list;
}

// What the module gives in evaluation, on numbers in its own dtype and place.
NamedTensors evaluated(const CertifyTask& task, Module& module, std::vector<Tensor> inputs) {
  const NoGrad no_grad;
  const EvalMode eval(module);
  const auto parameters = module.parameters();
  for (Tensor& input : inputs) {
    if (is_floating(input.dtype()) && !parameters.empty()) {
      input = input.to(parameters[0]->value.dtype());
    }
    input = input.to(module.device());
  }
  random::manual_seed(1);
  return copied(named_outputs(task.subject.call(&module, inputs)));
}

}  // namespace

Finding copies(const CertifyTask& task) {
  if (!task.subject.given) return no_state();
  Module& given = *task.subject.given;
  random::manual_seed(2);
  const std::unique_ptr<Module> copy = task.subject.build();
  copy->copy_state(given);
  const std::vector<Tensor> inputs = SubjectCopy(task, {}).inputs();
  const NoGrad no_grad;
  const Snapshot before(given);
  const NamedTensors state = copied(tensors_of(given));
  const NamedTensors results = evaluated(task, given, inputs);
  const std::string changed = difference(tensors_of(given), state, {"after a call", "before"});
  if (!changed.empty()) before.restore();
  return failed_for(
      difference(evaluated(task, *copy, inputs), results, {"in a copy", "in the layer itself"}),
      forgotten);
}

Finding state(const CertifyTask& task) {
  if (!task.subject.given) return no_state();
  SubjectCopy saved(task, {}), loaded(task, {.build_seed = 2, .initial = true});
  saved.begin();
  for (int64_t salt = 1; salt <= 3; ++salt) saved.call_as_is(saved.other_inputs(salt));
  const TemporaryFile file;
  save_weights(*saved.module(), file.path());
  load_weights(*loaded.module(), file.path());
  saved.keep_state();
  loaded.keep_state();
  for (const bool training : {false, true}) {
    saved.set_training(training);
    loaded.set_training(training);
    const NamedTensors expected = saved.outputs_and_gradients();
    const std::string text = difference(loaded.outputs_and_gradients(), expected,
                                        {"with loaded weights", "where they were saved"});
    if (text.empty()) continue;
    return failed_for(fmt::format("in {}, {}", mode_name(training), text), forgotten);
  }
  const size_t count = tensors_of(*saved.module()).size();
  return {.reason = fmt::format("{} tensors in the file", count)};
}

Finding conversion(const CertifyTask& task, Device other) {
  if (!task.subject.given) return no_state();
  const char* const advice =
      "hold tensors as Parameter& and Tensor& of parameter() and buffer(), which to() converts";
  SubjectCopy copy(task, {.training = false});
  const NamedTensors expected = copied(copy.outputs());
  const auto compare = [&](const std::string& how) {
    copy.keep_state();
    const std::string text = difference(copy.outputs(), expected, {"after it", "before"});
    return failed_for(text.empty() ? "" : how + " and back: " + text, advice);
  };
  std::string done;
  if (takes(task, DType::f64)) {
    copy.module()->to(DType::f64);
    copy.module()->to(DType::f32);
    const Finding found = compare("to f64");
    if (found.verdict == Verdict::failed) return found;
    done = "to f64 and back";
  }
  if (!other.is_cpu()) {
    copy.module()->to(other);
    copy.module()->to(Device::cpu());
    const Finding found = compare("to " + to_string(other));
    if (found.verdict == Verdict::failed) return found;
    done += fmt::format("{}to {} and back", done.empty() ? "" : ", ", to_string(other));
  }
  return done.empty() ? skipped("there is no other dtype or device") : Finding{.reason = done};
}

}  // namespace adret::certify_checks
