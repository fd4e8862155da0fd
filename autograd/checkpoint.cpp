// Checkpoints: what runs again, and when.
#include <adret/autograd/checkpoint.h>
#include <adret/autograd/grad_mode.h>
#include <adret/autograd/recompute.h>
#include <adret/autograd/step_trace.h>
#include <adret/core/error.h>
#include <fmt/core.h>

#include <utility>

namespace adret {
namespace {

thread_local Recomputation* current = nullptr;
thread_local bool recomputing = false;

template <class T>
class Restored {
 public:
  Restored(T& place, T value) : place_(place), before_(std::exchange(place, value)) {}
  ~Restored() { place_ = before_; }
  Restored(const Restored&) = delete;
  Restored& operator=(const Restored&) = delete;

 private:
  T& place_;
  T before_;
};

// This thread's random numbers as they were then, and back at the end.
class RewoundRandom {
 public:
  explicit RewoundRandom(const random::State& then) {
    StepTrace* trace = StepTrace::current();
    if (trace && then.step != before_.step) {
      trace->add_obstacle("a checkpoint of another random step is computed again in it");
    }
    random::set_state(then);
  }
  ~RewoundRandom() { random::set_state(before_); }
  RewoundRandom(const RewoundRandom&) = delete;
  RewoundRandom& operator=(const RewoundRandom&) = delete;

 private:
  const random::State before_ = random::state();
};

}  // namespace

Recomputation* Recomputation::current() { return adret::current; }

Recomputation::Recomputation(Function function, std::vector<Tensor> inputs)
    : function_(std::move(function)),
      inputs_(std::move(inputs)),
      random_(random::state()),
      mode_(compute_mode()) {
  for (const Tensor& input : inputs_) {
    if (input.defined()) versions_.emplace_back(input, input.version());
  }
}

Tensor Recomputation::run() {
  const Restored saving(adret::current, this);
  return function_(inputs_);
}

// What is kept from a later run holds no graph, or one that keeps its own tensors: it never leads
// back here.
std::optional<size_t> Recomputation::save(const Tensor& tensor) {
  if (run_ == Run::first) return count_++;
  again_.push_back(run_ == Run::again ? tensor.detach() : tensor);
  if (run_ == Run::again_in_graph) return {};
  return again_.size() - 1;
}

Tensor Recomputation::take(size_t number, const Node& node) {
  if (number >= again_.size() || !again_[number].defined()) run_again(node);
  return std::exchange(again_[number], Tensor());
}

void Recomputation::note_leaf(const Tensor& leaf) {
  if (run_ == Run::first) versions_.emplace_back(leaf, leaf.version());
}

void Recomputation::check_unchanged(const Node& node) const {
  for (const auto& [tensor, version] : versions_) {
    if (tensor.version() == version) continue;
    throw Error(fmt::format(
        "[{}] a tensor {} {} that a checkpoint computes with was written to "
        "after the forward (version {}, then {}); call backward before that",
        node.name(), to_string(tensor.shape()), name(tensor.dtype()), tensor.version(), version));
  }
}

void Recomputation::run_again(const Node& node) {
  check_unchanged(node);
  const Restored kind(run_, grad_enabled() ? Run::again_in_graph : Run::again);
  const Restored noted(recomputing, true);
  const RewoundRandom same_numbers(random_);
  const ComputeModeScope same_mode(mode_);
  const GradMode recording(true);
  again_.clear();
  run();
  if (again_.size() == count_) return;
  const size_t found = again_.size();
  again_.clear();
  throw Error(
      fmt::format("[{}] a checkpoint's function saved {} tensors in the forward pass and {} "
                  "in backward; it must do the same both times",
                  node.name(), count_, found));
}

bool is_recomputing() { return recomputing; }

Tensor checkpoint(const std::function<Tensor(const std::vector<Tensor>&)>& function,
                  const std::vector<Tensor>& inputs) {
  if (!function) throw Error("[checkpoint] the function is empty");
  if (!grad_enabled()) return function(inputs);
  return std::make_shared<Recomputation>(function, inputs)->run();
}

}  // namespace adret
