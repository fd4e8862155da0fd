// Recording, comparing and replaying.
#include <adret/autograd/grad_mode.h>
#include <adret/autograd/step_trace.h>
#include <adret/core/compute_mode.h>
#include <adret/core/error.h>
#include <adret/core/kernels/kernel.h>
#include <adret/core/random.h>
#include <adret/core/replay/replay.h>
#include <adret/train/step.h>
#include <fmt/core.h>

#include <algorithm>
#include <list>
#include <optional>

namespace adret {
namespace {

// A step whose lists went on differing this many times is not recorded any more.
constexpr int64_t most_recordings = 16;

struct Input {
  Shape shape;
  DType dtype;
  Device device;
  bool operator==(const Input&) const = default;
};

// What keeps lists apart.
struct Key {
  std::vector<Input> inputs;
  int64_t variant = 0;
  ComputeMode mode;
  bool recorded = false;  // gradients are
  uint64_t seed = 0;
  bool operator==(const Key&) const = default;
};

Key key_of(const std::vector<Tensor>& inputs, int64_t variant) {
  Key key{.variant = variant,
          .mode = compute_mode(),
          .recorded = grad_enabled(),
          .seed = random::seed()};
  for (const Tensor& input : inputs) {
    key.inputs.push_back({input.shape(), input.dtype(), input.device()});
  }
  return key;
}

void copy(const Tensor& from, const Tensor& to) {
  run(kernels::Copy{.x = from, .y = to});
  to.bump_version();
}

std::vector<Tensor> copies(const std::vector<Tensor>& tensors) {
  std::vector<Tensor> list;
  for (const Tensor& tensor : tensors) {
    list.push_back(
        Tensor::empty(tensor.shape(), {.dtype = tensor.dtype(), .device = tensor.device()}));
    copy(tensor, list.back());
  }
  return list;
}

// Outside the graph, which may hold what the step made.
std::vector<Tensor> detached(std::vector<Tensor> tensors) {
  for (Tensor& tensor : tensors) tensor = tensor.detach();
  return tensors;
}

void refuse_gradients(const std::vector<Tensor>& inputs) {
  for (size_t i = 0; i < inputs.size(); ++i) {
    if (!inputs[i].requires_grad()) continue;
    throw Error(fmt::format(
        "[step] input {} {} requires a gradient; pass detach() of it, and ask for its gradient "
        "within the function",
        i, to_string(TensorView(inputs[i]))));
  }
}

// A call that was recorded, with what it did on the host.
struct Trace {
  Recording recording;
  std::unique_ptr<StepTrace> host;
  uint64_t structure = 0;
};

// The calls with inputs of one kind.
class Kind {
 public:
  Kind(Key key, const StepOptions& options) : key_(std::move(key)), options_(options) {}
  const Key& key() const { return key_; }
  const StepReport& report() const { return report_; }

  std::vector<Tensor> run(const Step::Function& function, const std::vector<Tensor>& inputs) {
    ++report_.calls;
    if (options_.mode == StepMode::eager) return detached(function(inputs));
    if (replay_ && last_->structure == structure_version() && last_->host->gradients_as_before()) {
      take(inputs);
      return replay();
    }
    if (recordings_ >= most_recordings) return detached(function(inputs));
    take(inputs);
    std::vector<Tensor> outputs = record(function);
    refuse();
    return outputs;
  }

 private:
  // The function and the list always work on the same memory.
  void take(const std::vector<Tensor>& inputs) {
    if (inputs_.size() != inputs.size()) {
      inputs_ = copies(inputs);
    } else {
      for (size_t i = 0; i < inputs.size(); ++i) copy(inputs[i], inputs_[i]);
    }
  }

  std::vector<Tensor> replay() {
    const NoGrad no_grad;
    last_->host->run_before();
    replay_->run();
    last_->host->run_after();
    ++report_.replays;
    report_.captured = replay_->captured();
    report_.scratch_bytes = replay_->scratch_bytes();
    report_.reason = replay_->why_not_captured();
    return copies(replay_->outputs());
  }

  std::vector<Tensor> record(const Step::Function& function) {
    Trace trace{.host = std::make_unique<StepTrace>()};
    std::vector<Tensor> outputs;
    {
      Recorder recorder;
      outputs = detached(function(inputs_));
      trace.host->finish();
      if (!trace.host->obstacle().empty()) recorder.add_obstacle(trace.host->obstacle());
      trace.recording = recorder.finish(outputs);
    }
    trace.structure = structure_version();
    compare(std::move(trace));
    return outputs;
  }

  void compare(Trace trace) {
    std::string reason = trace.recording.obstacle;
    if (reason.empty() && !last_) reason = "it ran for the first time";
    if (reason.empty()) reason = first_difference(last_->recording, trace.recording);
    if (reason.empty() && !last_->recording.obstacle.empty()) reason = last_->recording.obstacle;
    const bool equal = reason.empty();
    report_.reason = equal ? "it was compared with the one before" : std::move(reason);
    recordings_ = equal ? 0 : recordings_ + 1;
    last_ = std::move(trace);
    if (!equal) {
      replay_.reset();
    } else if (!replay_) {
      make_replay();
    }
  }

  // A replay holds its memory from now on, which an eager step would give back.
  void make_replay() {
    try {
      replay_.emplace(last_->recording, options_.capture);
    } catch (const OutOfMemory& error) {
      if (options_.mode == StepMode::graph) throw;
      report_.reason = fmt::format("there is no room for a replay: {}", error.what());
      recordings_ = most_recordings;
      return;
    }
    report_.kernels = replay_->calls();
    report_.planned_bytes = replay_->planned_bytes();
    report_.peak_bytes = replay_->peak_bytes();
  }

  void refuse() const {
    if (options_.mode != StepMode::graph || replay_ || recordings_ < 3) return;
    throw Error(fmt::format(
        "[step] the step cannot be replayed: {}; mend that, or use StepMode::automatic or eager",
        report_.reason));
  }

  Key key_;
  StepOptions options_;
  StepReport report_;
  std::vector<Tensor> inputs_;
  std::optional<Trace> last_;
  std::optional<Replay> replay_;
  int64_t recordings_ = 0;  // in a row without two that are equal
};

}  // namespace

struct Step::Impl {
  Function function;
  StepOptions options;
  std::list<Kind> kinds;
  Kind* latest = nullptr;
};

Step::Step(Function function, StepOptions options, Adapted)
    : impl_(std::make_unique<Impl>(Impl{.function = std::move(function), .options = options})) {}
Step::~Step() = default;
Step::Step(Step&&) noexcept = default;

std::vector<Tensor> Step::run(const std::vector<Tensor>& inputs, int64_t variant) {
  refuse_gradients(inputs);
  // A step within a step that is recorded is part of that one.
  if (StepTrace::current()) return detached(impl_->function(inputs));
  Key key = key_of(inputs, variant);
  auto kind = std::ranges::find(impl_->kinds, key, &Kind::key);
  if (kind == impl_->kinds.end()) {
    kind = impl_->kinds.emplace(kind, std::move(key), impl_->options);
  }
  impl_->latest = &*kind;
  return kind->run(impl_->function, inputs);
}

const StepReport& Step::report() const {
  static const StepReport none;
  return impl_->latest ? impl_->latest->report() : none;
}

void Step::forget() {
  impl_->latest = nullptr;
  impl_->kinds.clear();
}

void Step::check_count(const std::vector<Tensor>& inputs, size_t wanted) {
  if (inputs.size() == wanted) return;
  throw Error(fmt::format("[step] the function takes {} tensors, got {}", wanted, inputs.size()));
}

}  // namespace adret
