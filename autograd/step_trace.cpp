// The host's side of a step.
#include <adret/autograd/node.h>
#include <adret/autograd/step_trace.h>

#include <algorithm>
#include <atomic>
#include <utility>

namespace adret {
namespace {

constinit thread_local StepTrace* innermost = nullptr;
constinit std::atomic<uint64_t> version = 0;

const void* data_of(const Tensor& tensor) { return tensor.defined() ? tensor.data() : nullptr; }

}  // namespace

StepTrace::StepTrace()
    : outer_(std::exchange(innermost, this)), first_storage_(next_storage_id()) {}
StepTrace::~StepTrace() { finish(); }
StepTrace* StepTrace::current() { return innermost; }

void StepTrace::before_replay(std::function<void()> effect) {
  before_.push_back(std::move(effect));
}
void StepTrace::after_replay(std::function<void()> effect) { after_.push_back(std::move(effect)); }

void StepTrace::add_obstacle(const std::string& why) {
  if (obstacle_.empty()) obstacle_ = why;
}

StepTrace::Gradient* StepTrace::find(const Leaf& leaf) {
  const auto it = std::ranges::find_if(
      gradients_, [&](const Gradient& one) { return one.leaf.get() == &leaf; });
  return it == gradients_.end() ? nullptr : &*it;
}

void StepTrace::use_gradient(Leaf& leaf) {
  if (!find(leaf)) gradients_.push_back({IntrusivePtr<Leaf>(&leaf), true, data_of(leaf.grad), {}});
}

void StepTrace::replace_gradient(Leaf& leaf) {
  if (!find(leaf)) gradients_.push_back({IntrusivePtr<Leaf>(&leaf), false, nullptr, {}});
}

void StepTrace::finish() {
  if (std::exchange(finished_, true)) return;
  innermost = outer_;
  // Leaves that the step made and let go of have nobody to read their gradient.
  std::erase_if(gradients_, [](const Gradient& one) { return one.leaf->reference_count() == 1; });
  for (Gradient& one : gradients_) one.after = one.leaf->grad;
}

bool StepTrace::gradients_as_before() const {
  return std::ranges::all_of(gradients_, [](const Gradient& one) {
    return !one.used || data_of(one.leaf->grad) == one.before;
  });
}

void StepTrace::run_before() const {
  for (const auto& effect : before_) effect();
}

void StepTrace::run_after() const {
  for (const Gradient& one : gradients_) one.leaf->grad = one.after;
  for (const auto& effect : after_) effect();
}

// Not of what the step made itself, which would be kept alive.
void StepTrace::wrote(const Tensor& tensor) {
  if (tensor.storage()->id() >= first_storage_) return;
  after_replay([same = tensor.alias(tensor.shape())] { same.bump_version(); });
}

void raise_version(const Tensor& tensor) {
  tensor.bump_version();
  if (StepTrace* trace = StepTrace::current()) trace->wrote(tensor);
}

uint64_t structure_version() { return version.load(std::memory_order_relaxed); }
void structure_changed() { version.fetch_add(1, std::memory_order_relaxed); }

}  // namespace adret
