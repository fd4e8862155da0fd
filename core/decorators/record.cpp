// Recording of calls, with placeholders for the memory that came meanwhile.
#include <adret/core/decorators/record.h>
#include <adret/core/error.h>
#include <fmt/core.h>

#include <algorithm>
#include <utility>

namespace adret {
namespace {

std::string text_of_place(const std::string& place) { return place.empty() ? "the step" : place; }

// The same elements in other memory of the same layout.
TensorView moved_to(const TensorView& view, Storage* storage) {
  TensorView copy = view;
  const auto offset =
      static_cast<std::byte*>(view.data) - static_cast<std::byte*>(view.storage->data());
  copy.storage = storage;
  copy.data = reinterpret_cast<void*>(offset);
  return copy;
}

}  // namespace

std::unordered_map<const Storage*, size_t> number_placeholders(const Recording& recording) {
  std::unordered_map<const Storage*, size_t> numbers;
  for (const auto& one : recording.placeholders) numbers.emplace(one.get(), numbers.size());
  return numbers;
}

Recorder::Recorder() : first_id_(next_storage_id()) {}

void Recorder::run(const Kernel& call) {
  check_device(call);
  check_operands(call);
  recording_.places.push_back(current_place());
  recording_.calls.emplace_back(call, [this](const TensorView& view) { return recorded(view); });
  forward(call);
}

void Recorder::check_device(const Kernel& call) {
  const Device device = device_of(call);
  if (recording_.calls.empty()) recording_.device = device;
  if (device == recording_.device) return;
  add_obstacle(fmt::format("it computes on {} and, in {}, on {}", to_string(recording_.device),
                           text_of_place(current_place()), to_string(device)));
}

bool Recorder::is_unwritten(const TensorView& view) const {
  if (!view.defined() || view.bytes() == 0 || view.storage->id() < first_id_) return false;
  const auto entry = index_.find(view.storage);
  return entry == index_.end() || made_[entry->second].life->over();
}

void Recorder::check_operands(const Kernel& call) {
  const auto* custom = std::get_if<kernels::Custom>(&call.any());
  if (custom && !custom->kernel->capturable()) {
    add_obstacle(
        fmt::format("it runs the custom kernel {} in {}, which says that it cannot be captured",
                    custom->kernel->name(), text_of_place(current_place())));
  }
  for (const kernels::Operand& input : inputs(call)) {
    if (!is_unwritten(input.view)) continue;
    add_obstacle(fmt::format(
        "it reads {} {} in {}, which no kernel of the step wrote; make it before the step, and "
        "pass it",
        input.name, to_string(input.view), text_of_place(current_place())));
  }
}

void Recorder::host_access(CopyKind kind, size_t bytes) {
  const bool reads = kind == CopyKind::device_to_host;
  add_obstacle(fmt::format("{} {} bytes {} the host in {}; {}", reads ? "it reads" : "it copies",
                           bytes, reads ? "on" : "from", text_of_place(current_place()),
                           reads ? "return the tensor and read it after the step"
                                 : "make constants before the step, and pass what changes to it"));
}

void Recorder::add_obstacle(const std::string& why) {
  if (recording_.obstacle.empty()) recording_.obstacle = why;
}

TensorView Recorder::recorded(const TensorView& view) {
  if (view.storage->id() >= first_id_) return moved_to(view, made(view).placeholder.get());
  const auto known = [&](const auto& one) { return one.get() == view.storage; };
  if (std::ranges::none_of(recording_.kept, known)) recording_.kept.emplace_back(view.storage);
  return view;
}

Recorder::Made& Recorder::made(const TensorView& view) {
  const auto [entry, is_new] = index_.try_emplace(view.storage, made_.size());
  if (!is_new && !made_[entry->second].life->over()) return made_[entry->second];
  entry->second = made_.size();
  const Storage& storage = *view.storage;
  auto placeholder = Storage::placeholder(storage.bytes(), storage.device());
  recording_.placeholders.push_back(placeholder);
  return made_.emplace_back(
      Made{view.storage->life(), std::move(placeholder),
           fmt::format("{}, made in {},", to_string(view), text_of_place(current_place()))});
}

Recording Recorder::finish(const std::vector<Tensor>& outputs) {
  for (const Tensor& output : outputs) {
    const TensorView view = output;
    if (is_unwritten(view)) {
      add_obstacle(fmt::format("it returns {}, which no kernel of the step wrote; make it before",
                               to_string(view)));
    }
    recording_.outputs.push_back(recorded(view));
    if (view.storage->id() >= first_id_) made(view).output = true;
  }
  for (const Made& one : made_) {
    if (one.output || one.life->over()) continue;
    add_obstacle(fmt::format(
        "the tensor {} is kept behind the step, where it would grow old; return it from the step",
        one.what));
    break;
  }
  return std::move(recording_);
}

}  // namespace adret
