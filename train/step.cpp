// Recording, comparing and replaying.
#include <adret/autograd/grad_mode.h>
#include <adret/autograd/step_trace.h>
#include <adret/core/compute_mode.h>
#include <adret/core/error.h>
#include <adret/core/kernels/kernel.h>
#include <adret/core/random.h>
#include <adret/core/random_calls.h>
#include <adret/core/replay/replay.h>
#include <adret/train/step.h>
#include <fmt/core.h>

#include <algorithm>
#include <list>
#include <optional>
#include <thread>

namespace adret {
namespace {

// A step whose lists went on differing this many times is not recorded any more.
constexpr int64_t most_recordings = 16;
// Lists that are kept, those used last.
constexpr size_t most_kinds = 8;

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
  bool recorded = false;   // gradients are
  std::thread::id thread;  // whose step word and generator it uses
  bool operator==(const Key&) const = default;
};

Key key_of(const std::vector<Tensor>& inputs, int64_t variant) {
  Key key{.variant = variant,
          .mode = compute_mode(),
          .recorded = grad_enabled(),
          .thread = std::this_thread::get_id()};
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

// What a caller gets is its own: what was there before the call is copied.
std::vector<Tensor> owned(std::vector<Tensor> tensors, uint64_t first_id) {
  for (Tensor& tensor : tensors) {
    if (tensor.storage()->id() < first_id) tensor = copies({tensor})[0];
  }
  return tensors;
}

// Inputs stay as they are, as a replay works on copies of them.
class WriteCheck {
 public:
  explicit WriteCheck(const std::vector<Tensor>& inputs) : inputs_(inputs) {
    for (const Tensor& input : inputs) versions_.push_back(input.version());
  }
  void refuse_writes() const {
    for (size_t i = 0; i < inputs_.size(); ++i) {
      if (inputs_[i].version() == versions_[i]) continue;
      throw Error(fmt::format(
          "[step] the function wrote into input {} {}; let it write into a clone() of it", i,
          to_string(TensorView(inputs_[i]))));
    }
  }

 private:
  const std::vector<Tensor>& inputs_;
  std::vector<uint32_t> versions_;
};

// The function itself.
std::vector<Tensor> call(const Step::Function& function, const std::vector<Tensor>& inputs) {
  const uint64_t first_id = next_storage_id();
  const WriteCheck check(inputs);
  std::vector<Tensor> outputs = detached(function(inputs));
  check.refuse_writes();
  return owned(std::move(outputs), first_id);
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
  uint64_t structure = 0, seed = 0;
  random::StepCalls drawn_before = random::step_calls(), drawn;

  bool is_current() const {
    return structure == structure_version() && seed == random::seed() &&
           drawn_before == random::step_calls() && host->gradients_as_before();
  }
};

// The calls with inputs of one kind.
class Kind {
 public:
  Kind(Key key, const StepOptions& options) : key_(std::move(key)), options_(options) {}
  const Key& key() const { return key_; }
  const StepReport& report() const { return report_; }

  std::vector<Tensor> run(const Step::Function& function, const std::vector<Tensor>& inputs) {
    ++report_.calls;
    if (options_.mode == StepMode::eager) return call(function, inputs);
    if (replay_ && last_->is_current()) return replay(inputs);
    if (recordings_ >= most_recordings) return call(function, inputs);
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

  std::vector<Tensor> replay(const std::vector<Tensor>& inputs) {
    const NoGrad no_grad;
    last_->host->run_before();
    std::vector<Tensor> outputs = replay_->run(inputs);
    last_->host->run_after();
    random::set_step_calls(last_->drawn);
    ++report_.replays;
    report_.captured = replay_->captured();
    report_.scratch_bytes = replay_->scratch_bytes();
    report_.reason = replay_->why_not_captured();
    return outputs;
  }

  std::vector<Tensor> record(const Step::Function& function) {
    const uint64_t first_id = next_storage_id();
    Trace trace{.host = std::make_unique<StepTrace>(), .seed = random::seed()};
    std::vector<Tensor> outputs;
    {
      const WriteCheck check(inputs_);
      Recorder recorder;
      outputs = detached(function(inputs_));
      check.refuse_writes();
      trace.host->finish();
      if (!trace.host->obstacle().empty()) recorder.add_obstacle(trace.host->obstacle());
      trace.recording = recorder.finish(outputs);
    }
    trace.structure = structure_version();
    trace.drawn = random::step_calls();
    compare(std::move(trace));
    return owned(std::move(outputs), first_id);
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
      replay_.emplace(last_->recording, inputs_, options_.capture);
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
  std::list<Kind> kinds;  // the one used last first
};

Step::Step(Function function, StepOptions options, Adapted)
    : impl_(std::make_unique<Impl>(Impl{.function = std::move(function), .options = options})) {
  if (!impl_->function) throw Error("[Step] the function is empty");
}
Step::~Step() = default;
Step::Step(Step&&) noexcept = default;

std::vector<Tensor> Step::run(const std::vector<Tensor>& inputs, int64_t variant) {
  refuse_gradients(inputs);
  // A step within a step that is recorded is part of that one.
  if (StepTrace::current()) return call(impl_->function, inputs);
  Key key = key_of(inputs, variant);
  auto kind = std::ranges::find(impl_->kinds, key, &Kind::key);
  if (kind == impl_->kinds.end()) {
    kind = impl_->kinds.emplace(kind, std::move(key), impl_->options);
  }
  impl_->kinds.splice(impl_->kinds.begin(), impl_->kinds, kind);
  if (impl_->kinds.size() > most_kinds) impl_->kinds.pop_back();
  return kind->run(impl_->function, inputs);
}

const StepReport& Step::report() const {
  static const StepReport none;
  return impl_->kinds.empty() ? none : impl_->kinds.front().report();
}

void Step::forget() { impl_->kinds.clear(); }

void Step::check_count(const std::vector<Tensor>& inputs, size_t wanted) {
  if (inputs.size() == wanted) return;
  throw Error(fmt::format("[step] the function takes {} tensors, got {}", wanted, inputs.size()));
}

}  // namespace adret
