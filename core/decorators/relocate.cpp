// A kernel call's operands on another device: copied there, and back; and one by one.
#include <adret/core/backend.h>
#include <adret/core/decorators/relocate.h>
#include <fmt/core.h>

#include <algorithm>
#include <string_view>

namespace adret {
namespace {

constexpr size_t alignment = 512;

std::byte* bytes_of(const Storage& storage) { return static_cast<std::byte*>(storage.data()); }

size_t offset_of(const TensorView& view) {
  return size_t(static_cast<std::byte*>(view.data) - bytes_of(*view.storage));
}

struct Place {
  void* data;
  Device device;
};

void copy(Place to, Place from, size_t bytes) {
  if (from.device.is_cpu()) {
    backend_for(to.device).services().copy(to.data, from.data, bytes, CopyKind::host_to_device);
  } else if (to.device.is_cpu()) {
    backend_for(from.device).services().copy(to.data, from.data, bytes, CopyKind::device_to_host);
  } else {
    std::vector<std::byte> host(bytes);
    copy({host.data(), Device::cpu()}, from, bytes);
    copy(to, {host.data(), Device::cpu()}, bytes);
  }
}

}  // namespace

RelocatedCall::RelocatedCall(const Kernel& call, Device device, size_t margin)
    : device_(device),
      windows_([&] {
        std::map<Storage*, Window> windows;
        for (const auto& operands : {inputs(call), outputs(call)}) {
          for (const auto& [name, view] : operands) {
            if (!view.defined()) continue;
            const size_t offset = offset_of(view), bytes = view.storage->bytes();
            const size_t begin = (offset - std::min(offset, margin)) / alignment * alignment;
            const size_t end = std::min(bytes, offset + view.bytes() + margin);
            const auto [place, is_new] = windows.try_emplace(view.storage, Window{begin, end, {}});
            Window& window = place->second;
            window.begin = std::min(window.begin, begin);
            window.end = std::max(window.end, end);
          }
        }
        for (auto& [storage, window] : windows) {
          const size_t bytes = window.end - window.begin;
          window.there = Storage::allocate(bytes, device);
          copy({window.there->data(), device},
               {bytes_of(*storage) + window.begin, storage->device()}, bytes);
        }
        return windows;
      }()),
      moved_(call, [this](const TensorView& view) { return moved(view); }) {}

TensorView RelocatedCall::moved(const TensorView& view) const {
  const Window& window = windows_.at(view.storage);
  TensorView there = view;
  there.storage = window.there.get();
  there.data = bytes_of(*window.there) + (offset_of(view) - window.begin);
  there.device = device_;
  return there;
}

void RelocatedCall::copy_back() const {
  const auto written = outputs(call());
  for (const auto& [storage, window] : windows_) {
    const bool has_outputs = std::ranges::any_of(written, [&](const kernels::Operand& output) {
      return output.view.storage == window.there.get();
    });
    if (!has_outputs) continue;
    copy({bytes_of(*storage) + window.begin, storage->device()}, {window.there->data(), device_},
         window.end - window.begin);
  }
}

Tensor copy_on_cpu(const TensorView& view) {
  const Tensor tensor = Tensor::empty(view.shape, {.dtype = view.dtype});
  copy({tensor.data(), Device::cpu()}, {view.data, view.device}, view.bytes());
  return tensor;
}

std::vector<OperandPart> operand_parts(const Kernel& call,
                                       const std::vector<kernels::Operand>& operands) {
  Tensor segments;
  for (const auto& [name, view] : inputs(call)) {
    if (std::string_view(name) == "segments") segments = copy_on_cpu(view);
  }
  std::vector<OperandPart> parts;
  for (const auto& [name, view] : operands) {
    if (!view.defined()) continue;
    if (!segments.defined() || view.dtype != DType::u8) {
      parts.push_back({name, view});
      continue;
    }
    const bool is_value = std::string_view(name) == "values" || std::string_view(name) == "grads";
    const auto* rows = static_cast<const kernels::Segment*>(segments.data());
    for (int64_t i = 0; i < segments.size(0); ++i) {
      const DType dtype = DType(rows[i].dtype);
      TensorView part = view;
      part.data = view.as<std::byte>() + (is_value ? rows[i].value_offset : rows[i].state_offset);
      part.shape = {rows[i].length};
      part.dtype = is_value ? dtype : dtype == DType::f64 ? DType::f64 : DType::f32;
      parts.push_back({fmt::format("{} of parameter {}", name, i), part, rows[i].active != 0});
    }
  }
  return parts;
}

std::vector<OutputPart> output_parts(const Kernel& call) {
  std::vector<OutputPart> parts;
  for (const OperandPart& part : operand_parts(call, outputs(call))) {
    parts.push_back({part.name, copy_on_cpu(part.view)});
  }
  return parts;
}

}  // namespace adret
