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

Numbers number(const Recording& recording) {
  Numbers numbers;
  for (const auto& one : recording.placeholders) numbers.emplace(one.get(), numbers.size());
  return numbers;
}

// From the first to the last call that touches it; an output lives on behind the last one.
std::vector<Lifetime> lifetimes(const Recording& recording, const Numbers& numbers) {
  std::vector<Lifetime> lives(recording.placeholders.size());
  std::vector<bool> seen(lives.size());
  const auto touch = [&](const TensorView& view, size_t call) {
    const auto number = numbers.find(view.storage);
    if (number == numbers.end()) return;
    Lifetime& life = lives[number->second];
    if (!seen[number->second]) life = {view.storage->bytes(), call, call};
    life.last = call;
    seen[number->second] = true;
  };
  for (size_t i = 0; i < recording.calls.size(); ++i) {
    for (const auto& operand : inputs(recording.calls[i].call())) touch(operand.view, i);
    for (const auto& operand : outputs(recording.calls[i].call())) touch(operand.view, i);
  }
  for (const TensorView& output : recording.outputs) touch(output, recording.calls.size());
  return lives;
}

}  // namespace

Replay::Replay(const Recording& recording, bool capture)
    : device_(recording.device),
      places_(recording.places),
      kept_(recording.kept),
      capture_(capture) {
  const FunctionScope scope("replayed step");
  const Numbers numbers = number(recording);
  const std::vector<Lifetime> lives = lifetimes(recording, numbers);
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
  for (const RewrittenCall& call : recording.calls) {
    calls_.emplace_back(call.call(), placed);
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
  if (capture_ && runs_ > 0 && !graph_ && why_not_captured_.empty() && !is_decorated()) capture();
  ++runs_;
  if (graph_ && !is_decorated()) {
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
  } catch (const OutOfMemory&) {
    throw;
  } catch (const DeviceError& error) {
    why_not_captured_ = error.what();
  }
}

// So that tensors saved elsewhere notice that parameters and buffers were written to.
void Replay::raise_versions() {
  for (Storage* const storage : written_) storage->bump();
}

}  // namespace adret
