// The tensors of a model in PyTorch's form, and back.
#include <adret/autograd/grad_mode.h>
#include <adret/autograd/ops/inplace.h>
#include <adret/autograd/ops/shape.h>
#include <adret/core/error.h>
#include <adret/core/tensor_view.h>
#include <adret/train/weights.h>
#include <fmt/core.h>

#include <cstring>
#include <map>
#include <set>

namespace adret {
namespace {

// A tensor of the model that a file holds, under each of its names.
struct Slot {
  std::vector<std::string> names;
  Tensor tensor;
  FileLayout layout = FileLayout::same;
  std::shared_ptr<Parameter> parameter;  // null for a buffer
};

std::vector<Slot> slots_of(const Module& model) {
  std::vector<Slot> slots;
  std::map<const Parameter*, size_t> place;
  for (const auto& [name, parameter] : model.all_named_parameters()) {
    const auto [found, is_new] = place.try_emplace(parameter.get(), slots.size());
    if (is_new) slots.push_back({{}, parameter->value.detach(), parameter->layout, parameter});
    slots[found->second].names.push_back(name);
  }
  for (const auto& [name, tensor] : model.named_buffers())
    slots.push_back({{name}, tensor, FileLayout::same, nullptr});
  return slots;
}

// Of a weight with kernel dimensions between its first and its last.
std::vector<int> channels_first(int rank) {
  std::vector<int> order{0, rank - 1};
  for (int dim = 1; dim < rank - 1; ++dim) order.push_back(dim);
  return order;
}
std::vector<int> channels_last(int rank) {
  std::vector<int> order{0};
  for (int dim = 2; dim < rank; ++dim) order.push_back(dim);
  order.push_back(1);
  return order;
}

Tensor to_file_layout(const Tensor& tensor, FileLayout layout) {
  switch (layout) {
    case FileLayout::conv_weight: return permute(tensor, channels_first(tensor.rank()));
    case FileLayout::transposed: return transpose(tensor, 0, 1);
    default: return tensor;
  }
}

Tensor from_file_layout(const Tensor& tensor, FileLayout layout) {
  switch (layout) {
    case FileLayout::conv_weight: return permute(tensor, channels_last(tensor.rank()));
    case FileLayout::transposed: return transpose(tensor, 0, 1);
    default: return tensor;
  }
}

Shape file_shape(const Slot& slot) {
  const Shape& shape = slot.tensor.shape();
  switch (slot.layout) {
    case FileLayout::conv_weight: return shape.without(shape.rank() - 1).inserted(1, shape[-1]);
    case FileLayout::transposed: return {shape[1], shape[0]};
    default: return shape;
  }
}

std::string describe(const Shape& shape, DType dtype) {
  return to_string(shape) + " " + name(dtype);
}

bool same_bytes(const Tensor& a, const Tensor& b) {
  return a.shape() == b.shape() && a.dtype() == b.dtype() &&
         (a.bytes() == 0 || std::memcmp(a.data(), b.data(), a.bytes()) == 0);
}

// What the file has for the slot; an undefined tensor, and a note in `mismatch`, when that does not
// fit.
Tensor fitting(const Slot& slot, const std::map<std::string, Tensor>& file,
               WeightsMismatch& mismatch) {
  std::string name;
  Tensor found;
  for (const std::string& candidate : slot.names) {
    const auto entry = file.find(candidate);
    if (entry == file.end()) continue;
    if (found.defined() && !same_bytes(found, entry->second)) {
      mismatch.different.push_back(fmt::format(
          "{} and {} are one tensor in the model, but differ in the file", name, candidate));
      return {};
    }
    if (!found.defined()) {
      name = candidate;
      found = entry->second;
    }
  }
  if (!found.defined()) {
    mismatch.missing.push_back(slot.names.front());
    return {};
  }
  if (found.shape() != file_shape(slot) ||
      is_floating(found.dtype()) != is_floating(slot.tensor.dtype())) {
    mismatch.different.push_back(fmt::format("{} is {} in the file, {} in the model", name,
                                             describe(found.shape(), found.dtype()),
                                             describe(file_shape(slot), slot.tensor.dtype())));
    return {};
  }
  return from_file_layout(found, slot.layout);
}

void fill(const Slot& slot, const Tensor& from) {
  const DType dtype = slot.tensor.dtype();
  copy_(slot.tensor, from.to(dtype).to(slot.tensor.device()));
  if (slot.parameter && size_of(dtype) == 2) {
    slot.parameter->set_master(from.to(DType::f32).to(slot.tensor.device()));
  }
}

std::string join(const std::vector<std::string>& names) {
  std::string text;
  for (const std::string& name : names) text += (text.empty() ? "" : ", ") + name;
  return text;
}

}  // namespace

void save_weights(const Module& model, const std::filesystem::path& path,
                  const Metadata& metadata) {
  const NoGrad no_grad;
  std::vector<NamedTensor> tensors;
  for (const Slot& slot : slots_of(model)) {
    const DType dtype = slot.tensor.dtype();
    const bool narrow = is_floating(dtype) && size_of(dtype) == 2;
    const Tensor exact = slot.parameter ? slot.parameter->exact() : slot.tensor;
    const Tensor host = exact.to(Device::cpu()).to(narrow ? DType::f32 : dtype);
    tensors.push_back({slot.names.front(), to_file_layout(host, slot.layout)});
  }
  Metadata all = metadata;
  all.emplace("format", "pt");  // readers want to know whose layouts these are
  write_tensors(path, tensors, all);
}

std::string to_string(const WeightsMismatch& mismatch) {
  std::string text;
  const auto add = [&](const char* title, const std::vector<std::string>& names) {
    if (!names.empty()) text += fmt::format("\n  {}: {}", title, join(names));
  };
  add("missing in the file", mismatch.missing);
  add("unknown to the model", mismatch.unexpected);
  add("different", mismatch.different);
  return text.empty() ? "no difference" : text.substr(1);
}

WeightsMismatch load_weights(Module& model, const std::filesystem::path& path,
                             const LoadOptions& options) {
  const NoGrad no_grad;
  std::map<std::string, Tensor> file;
  for (auto& [name, tensor] : read_tensors(path).tensors) file.emplace(name, std::move(tensor));
  WeightsMismatch mismatch;
  std::set<std::string> known;
  std::vector<std::pair<Slot, Tensor>> fitted;
  for (const Slot& slot : slots_of(model)) {
    known.insert(slot.names.begin(), slot.names.end());
    const Tensor tensor = fitting(slot, file, mismatch);
    if (tensor.defined()) fitted.emplace_back(slot, tensor);
  }
  for (const auto& entry : file) {
    if (!known.contains(entry.first)) mismatch.unexpected.push_back(entry.first);
  }
  if (options.strict && !mismatch.empty()) {
    throw CheckpointError(
        fmt::format("[load_weights] {} does not fit the model {}:\n{}\nLoad with "
                    "strict = false to take what fits",
                    path.string(), model.type_name(), to_string(mismatch)));
  }
  for (const auto& [slot, from] : fitted) fill(slot, from);
  return mismatch;
}

}  // namespace adret
