// Who reads and writes what in a list of calls.
#include <adret/core/kernels/fields.h>
#include <adret/core/replay/call_list.h>
#include <adret/core/replay/schedule.h>

#include <algorithm>
#include <cstdint>

namespace adret {
namespace {

// Addresses count from the start of a placeholder, so only within one storage.
bool meet(const TensorView& a, const TensorView& b) {
  const auto begin = [](const TensorView& view) { return reinterpret_cast<uintptr_t>(view.data); };
  return a.storage == b.storage && begin(a) < begin(b) + b.bytes() &&
         begin(b) < begin(a) + a.bytes();
}

bool touches(const std::vector<kernels::Operand>& operands, const TensorView& view) {
  return view.defined() && std::ranges::any_of(operands, [&](const kernels::Operand& operand) {
           return operand.view.defined() && meet(operand.view, view);
         });
}

}  // namespace

CallList::CallList(const Recording& recording)
    : device_(recording.device), placeholders_(recording.placeholders) {
  for (size_t i = 0; i < recording.calls.size(); ++i) {
    const Kernel& call = recording.calls[i].call();
    list_.push_back({call, recording.places[i], runs_beside(call)});
  }
  for (const auto& placeholder : placeholders_) temporary_.insert(placeholder.get());
  for (const TensorView& output : recording.outputs) temporary_.erase(output.storage);
}

void CallList::move(size_t from, size_t to) {
  const auto begin = list_.begin() + std::ptrdiff_t(std::min(from, to));
  const auto end = list_.begin() + std::ptrdiff_t(std::max(from, to)) + 1;
  std::rotate(begin, from < to ? begin + 1 : end - 1, end);
}

TensorView CallList::make_temporary(const Shape& shape, DType dtype) {
  TensorView view{.data = nullptr, .storage = nullptr, .shape = shape, .dtype = dtype};
  view.device = device_;
  placeholders_.push_back(Storage::placeholder(size_t(shape.numel()) * size_of(dtype), device_));
  view.storage = placeholders_.back().get();
  temporary_.insert(view.storage);
  return view;
}

bool CallList::is_fixed(size_t first, const TensorView& view) const {
  const auto is_there = [&](const TensorView& operand) { return operand.storage == view.storage; };
  return std::any_of(list_.begin() + std::ptrdiff_t(first), list_.end(), [&](const auto& one) {
    const auto* const custom = std::get_if<kernels::Custom>(&one.call.any());
    return custom && (std::ranges::any_of(custom->in, is_there) ||
                      std::ranges::any_of(custom->out, is_there));
  });
}

TensorView CallList::replace_memory(size_t first, const TensorView& view) {
  placeholders_.push_back(Storage::placeholder(view.storage->bytes(), device_));
  Storage* const storage = placeholders_.back().get();
  temporary_.insert(storage);
  for (size_t i = first; i < size(); ++i) {
    std::visit(
        [&](auto& kernel) {
          kernels::for_each_operand(kernel, [&](TensorView& operand) {
            if (operand.storage == view.storage) operand.storage = storage;
          });
        },
        static_cast<kernels::AnyKernel&>(list_[i].call));
  }
  TensorView moved = view;
  moved.storage = storage;
  return moved;
}

bool CallList::reads(size_t i, const TensorView& view) const {
  return touches(inputs(list_[i].call), view);
}
bool CallList::writes(size_t i, const TensorView& view) const {
  return touches(outputs(list_[i].call), view);
}

std::vector<size_t> CallList::touching_after(size_t i, const TensorView& view) const {
  std::vector<size_t> calls;
  for (size_t j = i + 1; j < size(); ++j) {
    if (reads(j, view) || writes(j, view)) calls.push_back(j);
  }
  return calls;
}

std::optional<size_t> CallList::only_reader(size_t i, const TensorView& view) const {
  if (!view.defined() || !is_temporary(view)) return {};
  const std::vector<size_t> touching = touching_after(i, view);
  if (touching.empty() || !reads(touching[0], view)) return {};
  if (touching.size() > 1 && !writes(touching[0], view)) return {};
  return touching[0];
}

bool CallList::unwritten_between(size_t i, size_t j, const TensorView& view) const {
  for (size_t k = i + 1; k < j; ++k) {
    if (writes(k, view)) return false;
  }
  return true;
}

bool CallList::untouched_between(size_t i, size_t j, const TensorView& view) const {
  for (size_t k = i + 1; k < j; ++k) {
    if (reads(k, view) || writes(k, view)) return false;
  }
  return true;
}

}  // namespace adret
