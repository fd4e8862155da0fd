// Placing a recording's memory, and running its calls.
#include <adret/core/error.h>
#include <adret/core/replay/memory_plan.h>
#include <adret/core/replay/replay.h>

#include <algorithm>
#include <unordered_map>

namespace adret {
namespace {

constexpr size_t alignment = 512;  // of every device's pool, or a multiple of it

using Numbers = std::unordered_map<const Storage*, size_t>;

// Larger ones are filled each time, so that their memory serves others in between.
constexpr size_t largest_constant = 4096;

// Which calls fill memory that no other call writes to: what they leave is the same in every run.
std::vector<bool> find_constants(const Recording& recording, const Numbers& numbers) {
  std::vector<int> writers(recording.placeholders.size());
  for (const RewrittenCall& call : recording.calls) {
    for (const auto& output : outputs(call.call())) {
      if (const auto it = numbers.find(output.view.storage); it != numbers.end()) {
        ++writers[it->second];
      }
    }
  }
  std::vector<bool> constant;
  for (const RewrittenCall& call : recording.calls) {
    const auto* const fill = std::get_if<kernels::Fill>(&call.call().any());
    const auto it = fill ? numbers.find(fill->y.storage) : numbers.end();
    constant.push_back(it != numbers.end() && writers[it->second] == 1 &&
                       fill->y.storage->bytes() <= largest_constant);
  }
  return constant;
}

// From the first to the last call that touches it; an output lives on behind the last one, a
// constant always.
std::vector<Lifetime> lifetimes(const Recording& recording, const Numbers& numbers,
                                const std::vector<bool>& constant) {
  std::vector<Lifetime> lives(recording.placeholders.size());
  std::vector<bool> seen(lives.size());
  const auto touch = [&](const TensorView& view, size_t call) {
    const auto number = numbers.find(view.storage);
    if (number == numbers.end()) return;
    Lifetime& life = lives[number->second];
    if (!seen[number->second]) life = {view.storage->bytes(), call, call};
    life.last = std::max(life.last, call);
    seen[number->second] = true;
  };
  for (size_t i = 0; i < recording.calls.size(); ++i) {
    for (const auto& operand : inputs(recording.calls[i].call())) touch(operand.view, i);
    for (const auto& operand : outputs(recording.calls[i].call())) {
      if (constant[i]) touch(operand.view, 0);
      touch(operand.view, constant[i] ? recording.calls.size() : i);
    }
  }
  for (const TensorView& output : recording.outputs) touch(output, recording.calls.size());
  return lives;
}

}  // namespace

Replay::Replay(const Recording& recording, bool capture)
    : device_(recording.device), kept_(recording.kept), capture_(capture) {
  const FunctionScope scope("replayed step");
  const Numbers numbers = number_placeholders(recording);
  const std::vector<bool> constant = find_constants(recording, numbers);
  const std::vector<Lifetime> lives = lifetimes(recording, numbers, constant);
  const MemoryPlan plan = plan_memory(lives, alignment);
  planned_bytes_ = plan.bytes;
  peak_bytes_ = adret::peak_bytes(lives, alignment);
  block_ = Tensor::empty({int64_t(plan.bytes)}, {.dtype = DType::u8, .device = device_});
  const auto placed = [&](const TensorView& view) {
    const auto number = numbers.find(view.storage);
    if (number == numbers.end()) return view;
    TensorView copy = view;
    copy.storage = block_.storage().get();
    copy.data = static_cast<std::byte*>(block_.data()) + plan.offsets[number->second] +
                reinterpret_cast<size_t>(view.data);
    return copy;
  };
  for (size_t i = 0; i < recording.calls.size(); ++i) {
    const RewrittenCall& call = recording.calls[i];
    if (constant[i]) {
      dispatch(RewrittenCall(call.call(), placed).call());
      continue;
    }
    calls_.emplace_back(call.call(), placed);
    places_.push_back(recording.places[i]);
    for (const auto& output : adret::outputs(call.call())) {
      Storage* const storage = output.view.storage;
      if (!storage || numbers.contains(storage)) continue;
      if (std::ranges::find(written_, storage) == written_.end()) written_.push_back(storage);
    }
  }
  for (const TensorView& output : recording.outputs) {
    const TensorView view = placed(output);
    outputs_.push_back(Tensor::over(IntrusivePtr<Storage>(view.storage), view));
  }
}

void Replay::run() {
  if (capture_ && runs_ > 0 && !graph_ && why_not_captured_.empty() && !is_watched()) capture();
  ++runs_;
  if (graph_ && !is_watched()) {
    graph_->launch();
  } else {
    make_calls();
  }
  raise_versions();
}

void Replay::make_calls() {
  for (size_t i = 0; i < calls_.size(); ++i) {
    const NameScope place(places_[i].c_str());
    dispatch(calls_[i].call());
  }
}

void Replay::capture() {
  try {
    graph_ = backend_for(device_).services().capture([this] { make_calls(); });
  } catch (const Error& error) {
    why_not_captured_ = error.what();
  }
}

// So that tensors saved elsewhere notice that parameters and buffers were written to.
void Replay::raise_versions() {
  for (Storage* const storage : written_) storage->bump();
}

}  // namespace adret
