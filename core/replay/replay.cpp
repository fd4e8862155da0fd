// Placing a recording's memory, and running its calls.
#include <adret/core/error.h>
#include <adret/core/replay/fuse.h>
#include <adret/core/replay/memory_plan.h>
#include <adret/core/replay/replay.h>
#include <adret/core/replay/schedule.h>

#include <algorithm>
#include <bit>
#include <unordered_map>

namespace adret {
namespace {

constexpr size_t alignment = 512;  // of every device's pool, or a multiple of it

using Numbers = std::unordered_map<const Storage*, size_t>;

// Larger ones are filled each time, so that their memory serves others in between.
constexpr size_t largest_constant = 4096;

// Which calls fill memory that no other call writes to: what they leave is the same in every run.
std::vector<bool> find_constants(const std::vector<ListedCall>& list, const Numbers& numbers) {
  std::vector<int> writers(numbers.size());
  for (const ListedCall& one : list) {
    for (const auto& output : outputs(one.call)) {
      if (const auto it = numbers.find(output.view.storage); it != numbers.end()) {
        ++writers[it->second];
      }
    }
  }
  std::vector<bool> constant;
  for (const ListedCall& one : list) {
    const auto* const fill = std::get_if<kernels::Fill>(&one.call.any());
    const auto it = fill ? numbers.find(fill->y.storage) : numbers.end();
    constant.push_back(it != numbers.end() && writers[it->second] == 1 &&
                       fill->y.storage->bytes() <= largest_constant);
  }
  return constant;
}

// Note [Memory beside a lane]
// What a call of lane 1 touches stays in its place for a while, or the next call of lane 0 that
// would take the place had to wait for it: as long as the block grows little by it.
constexpr size_t small_block = size_t(32) << 20;

}  // namespace

// The list with its copies, while its memory has no place yet.
class Replay::Draft {
 public:
  Draft(const Recording& recording, std::span<const Tensor> inputs) : recording_(recording) {
    CallList calls(recording);
    fuse(calls);
    list_ = calls.take_calls();
    placeholders_ = calls.take_placeholders();
    for (const auto& one : placeholders_) numbers_.emplace(one.get(), numbers_.size());
    constant_ = find_constants(list_, numbers_);
    add_inputs(inputs);
    for (size_t i = 0; i < list_.size(); ++i) {
      if (constant_[i]) {
        constants_.push_back(&list_[i].call);
        continue;
      }
      add({.call = list_[i].call, .place = list_[i].place}, list_[i].beside);
      add_outputs(i);
    }
    add_outputs(nobody);
    keep_last_beside();
    plan();
  }

  struct Entry {
    Kernel call;
    std::string place;
    size_t input = none, output = none;
  };
  const std::vector<Entry>& entries() const { return entries_; }
  const std::vector<int>& lanes() const { return lanes_; }
  const std::vector<const Kernel*>& constants() const { return constants_; }
  const MemoryPlan& memory() const { return plan_; }
  size_t peak_bytes() const { return peak_bytes_; }
  bool is_placeholder(const TensorView& view) const { return numbers_.contains(view.storage); }

  TensorView placed(const TensorView& view, const Tensor& block) const {
    const auto number = numbers_.find(view.storage);
    if (number == numbers_.end()) return view;
    TensorView copy = view;
    copy.storage = block.storage().get();
    copy.data = static_cast<std::byte*>(block.data()) + plan_.offsets[number->second] +
                reinterpret_cast<size_t>(view.data);
    return copy;
  }

 private:
  void add(Entry entry, bool beside) {
    entries_.push_back(std::move(entry));
    lanes_.push_back(beside ? 1 : 0);
  }

  // Nothing is left to do beside the last of them.
  void keep_last_beside() {
    for (size_t i = entries_.size(); i-- > 0;) {
      if (!runs_beside(entries_[i].call)) continue;
      lanes_[i] = 0;
      return;
    }
  }

  // The largest input is what the first calls wait for.
  void add_inputs(std::span<const Tensor> inputs) {
    const auto largest = std::ranges::max_element(
        inputs, {}, [](const Tensor& input) { return TensorView(input).bytes(); });
    for (size_t i = 0; i < inputs.size(); ++i) {
      const TensorView to = inputs[i];
      if (to.device != recording_.device || to.bytes() == 0) continue;
      add({.call = kernels::Copy{.x = {}, .y = to}, .place = "inputs", .input = i},
          i != size_t(largest - inputs.begin()));
    }
  }

  static constexpr size_t nobody = size_t(-1);
  // Those that are complete behind the call `i`.
  void add_outputs(size_t i) {
    for (size_t output = 0; output < recording_.outputs.size(); ++output) {
      const TensorView& from = recording_.outputs[output];
      if (from.bytes() == 0 || last_writer(from) != i) continue;
      add({.call = kernels::Copy{.x = from, .y = {}}, .place = "outputs", .output = output}, true);
    }
  }

  // `nobody` for constants, too.
  size_t last_writer(const TensorView& view) const {
    size_t last = nobody;
    for (size_t i = 0; i < list_.size(); ++i) {
      if (constant_[i]) continue;
      for (const auto& written : outputs(list_[i].call)) {
        if (written.view.storage == view.storage) last = i;
      }
    }
    return last;
  }

  void plan() {
    const size_t plain = plan_memory(lifetimes(0), alignment).bytes;
    for (size_t hold = std::bit_ceil(entries_.size());; hold /= 2) {
      const std::vector<Lifetime> lives = lifetimes(hold);
      plan_ = plan_memory(lives, alignment);
      peak_bytes_ = adret::peak_bytes(lives, alignment);
      if (hold == 0 || plan_.bytes <= std::max(plain + plain / 200, small_block)) return;
    }
  }

  // From the first to the last call that touches it, and `hold` calls longer if that is one of
  // lane 1; a constant lives always.
  std::vector<Lifetime> lifetimes(size_t hold) const {
    std::vector<Lifetime> lives(placeholders_.size());
    std::vector<bool> seen(lives.size());
    const auto touch = [&](const TensorView& view, size_t first, size_t last) {
      const auto number = numbers_.find(view.storage);
      if (number == numbers_.end()) return;
      Lifetime& life = lives[number->second];
      if (!seen[number->second]) life = {view.storage->bytes(), first, last};
      life.last = std::max(life.last, last);
      seen[number->second] = true;
    };
    for (const Kernel* const call : constants_) {
      for (const auto& operand : outputs(*call)) touch(operand.view, 0, entries_.size());
    }
    for (size_t i = 0; i < entries_.size(); ++i) {
      const size_t last = lanes_[i] == 0 ? i : std::min(i + hold, entries_.size());
      for (const auto& operand : inputs(entries_[i].call)) touch(operand.view, i, last);
      for (const auto& operand : outputs(entries_[i].call)) touch(operand.view, i, last);
    }
    return lives;
  }

  const Recording& recording_;
  std::vector<ListedCall> list_;
  std::vector<IntrusivePtr<Storage>> placeholders_;
  Numbers numbers_;
  std::vector<bool> constant_;
  std::vector<const Kernel*> constants_;
  std::vector<Entry> entries_;
  std::vector<int> lanes_;
  MemoryPlan plan_;
  size_t peak_bytes_ = 0;
};

Replay::Replay(const Recording& recording, std::vector<Tensor> inputs, bool capture)
    : device_(recording.device),
      kept_(recording.kept),
      inputs_(std::move(inputs)),
      capture_(capture) {
  const FunctionScope scope("replayed step");
  const Draft draft(recording, inputs_);
  planned_bytes_ = draft.memory().bytes;
  peak_bytes_ = draft.peak_bytes();
  block_ = Tensor::empty({int64_t(planned_bytes_)}, {.dtype = DType::u8, .device = device_});
  const auto placed = [&](const TensorView& view) { return draft.placed(view, block_); };
  for (const Kernel* const call : draft.constants()) dispatch(RewrittenCall(*call, placed).call());
  std::vector<const Kernel*> calls;
  for (const Draft::Entry& entry : draft.entries()) {
    calls_.emplace_back(entry, placed);
    calls.push_back(&calls_.back().kernel.call());
    for (const auto& output : adret::outputs(entry.call)) {
      Storage* const storage = output.view.storage;
      if (!storage || draft.is_placeholder(output.view)) continue;
      if (std::ranges::find(written_, storage) == written_.end()) written_.push_back(storage);
    }
  }
  const std::vector<Scheduled> order = schedule(calls, draft.lanes());
  for (size_t i = 0; i < calls.size(); ++i) calls_[i].order = order[i];
  for (const TensorView& output : recording.outputs) outputs_.push_back(placed(output));
}

std::vector<Tensor> Replay::run(std::span<const Tensor> inputs) {
  if (capture_ && runs_ > 0 && !graph_ && why_not_captured_.empty() && !is_watched()) capture();
  ++runs_;
  std::vector<Tensor> outputs = empty_outputs();
  if (graph_ && !is_watched()) {
    graph_->launch(copies(inputs, outputs));
  } else {
    for (const Call& call : calls_) run_call(call, inputs, outputs);
  }
  raise_versions();
  return outputs;
}

size_t Replay::calls() const {
  return size_t(std::ranges::count_if(
      calls_, [](const Call& call) { return call.input == none && call.output == none; }));
}

std::vector<Tensor> Replay::empty_outputs() const {
  std::vector<Tensor> outputs;
  for (const TensorView& view : outputs_) {
    outputs.push_back(Tensor::empty(view.shape, {.dtype = view.dtype, .device = view.device}));
  }
  return outputs;
}

void Replay::run_call(const Call& call, std::span<const Tensor> inputs,
                      std::span<const Tensor> outputs) const {
  const NameScope place(call.place.c_str());
  if (call.input == none && call.output == none) return dispatch(call.kernel.call());
  kernels::Copy copy = std::get<kernels::Copy>(call.kernel.call().any());
  if (call.input != none) copy.x = inputs[call.input];
  if (call.output != none) copy.y = outputs[call.output];
  adret::run(copy);
}

std::vector<MemoryCopy> Replay::copies(std::span<const Tensor> inputs,
                                       std::span<const Tensor> outputs) const {
  std::vector<MemoryCopy> copies;
  for (const Call& call : calls_) {
    if (call.input != none) {
      const TensorView to = inputs_[call.input];
      copies.push_back({to.data, inputs[call.input].data(), to.bytes()});
    } else if (call.output != none) {
      const TensorView& from = outputs_[call.output];
      copies.push_back({outputs[call.output].data(), from.data, from.bytes()});
    }
  }
  return copies;
}

void Replay::capture() {
  try {
    graph_ = backend_for(device_).services().capture(
        [this](GraphOrder& order) { capture_calls(order); });
  } catch (const Error& error) {
    why_not_captured_ = error.what();
  }
}

void Replay::capture_calls(GraphOrder& order) const {
  int lane = 0;
  for (const Call& call : calls_) {
    const NameScope place(call.place.c_str());
    if (call.order.lane != lane || !call.order.after.empty()) {
      order.lane(lane = call.order.lane, call.order.after);
    }
    if (call.input == none && call.output == none) {
      dispatch(call.kernel.call());
      continue;
    }
    // Any address will do until the first launch.
    const TensorView own =
        call.input != none ? TensorView(inputs_[call.input]) : outputs_[call.output];
    order.copy({own.data, own.data, own.bytes()});
  }
}

// So that tensors saved elsewhere notice that parameters and buffers were written to.
void Replay::raise_versions() {
  for (Storage* const storage : written_) storage->bump();
}

}  // namespace adret
