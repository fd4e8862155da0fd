// Making, reading and aliasing of tensors; nothing here computes except through the waist.
#include <adret/core/backend.h>
#include <adret/core/error.h>
#include <adret/core/failing_function.h>
#include <adret/core/holds.h>
#include <adret/core/kernels/kernel.h>
#include <adret/core/tensor.h>
#include <fmt/core.h>

namespace adret {

Tensor Tensor::empty(const Shape& shape, TensorOptions options) {
  auto body = make_intrusive<Body>();
  body->shape = Shape(shape.span());  // made anew, it is checked: sizes may have been computed
  body->storage = Storage::allocate(size_t(shape.numel()) * size_of(options.dtype), options.device);
  body->version = body->storage;
  body->dtype = options.dtype;
  return Tensor(std::move(body));
}

Tensor Tensor::zeros(const Shape& shape, TensorOptions options) { return full(shape, 0, options); }
Tensor Tensor::ones(const Shape& shape, TensorOptions options) { return full(shape, 1, options); }

Tensor Tensor::full(const Shape& shape, double value, TensorOptions options) {
  check_holds("full", value, options.dtype);
  Tensor tensor = empty(shape, options);
  run(kernels::Fill{.y = tensor, .value = value});
  return tensor;
}

template <class T>
Tensor Tensor::from(std::span<const T> values, const Shape& shape, Device device) {
  if (int64_t(values.size()) != shape.numel()) {
    throw ShapeError(fmt::format("[from] {} values for shape {}, which has {} elements",
                                 values.size(), to_string(shape), shape.numel()));
  }
  Tensor tensor = empty(shape, {.dtype = dtype_of<T>, .device = device});
  copy_memory(device, tensor.data(), values.data(), values.size_bytes(), CopyKind::host_to_device);
  return tensor;
}

namespace {

void check_dtype(const char* function, const Tensor& tensor, DType wanted) {
  if (tensor.dtype() != wanted) {
    throw ShapeError(
        fmt::format("[{}] the tensor {} holds {}, not {}; convert it with to(DType::{})", function,
                    to_string(tensor.shape()), name(tensor.dtype()), name(wanted), name(wanted)));
  }
}

}  // namespace

template <class T>
T Tensor::item() const {
  check_dtype("item", *this, dtype_of<T>);
  if (numel() != 1) {
    throw ShapeError(
        fmt::format("[item] wants a tensor of one element, got {}", to_string(shape())));
  }
  T value;
  copy_memory(device(), &value, data(), sizeof(T), CopyKind::device_to_host);
  return value;
}

template <class T>
std::vector<T> Tensor::to_vector() const {
  check_dtype("to_vector", *this, dtype_of<T>);
  if constexpr (std::same_as<T, bool>) {  // vector<bool> has no contiguous bytes
    std::vector<uint8_t> bytes(static_cast<size_t>(numel()));
    copy_memory(device(), bytes.data(), data(), bytes.size(), CopyKind::device_to_host);
    return {bytes.begin(), bytes.end()};
  } else {
    std::vector<T> values(static_cast<size_t>(numel()));
    copy_memory(device(), values.data(), data(), bytes(), CopyKind::device_to_host);
    return values;
  }
}

template <class T>
std::span<T> Tensor::span() const {
  check_dtype("span", *this, dtype_of<T>);
  if (!device().is_cpu()) {
    throw DeviceError(fmt::format("[span] the tensor {} is on {}; copy it with to(Device::cpu())",
                                  to_string(shape()), to_string(device())));
  }
  tell_host_access(CopyKind::device_to_host, bytes());
  return {static_cast<T*>(data()), size_t(numel())};
}

#define ADRET_INSTANTIATE(T)                                                 \
  template Tensor Tensor::from<T>(std::span<const T>, const Shape&, Device); \
  template T Tensor::item<T>() const;                                        \
  template std::vector<T> Tensor::to_vector<T>() const;                      \
  template std::span<T> Tensor::span<T>() const;
ADRET_INSTANTIATE(float)
ADRET_INSTANTIATE(double)
ADRET_INSTANTIATE(bfloat16)
ADRET_INSTANTIATE(float16)
ADRET_INSTANTIATE(int32_t)
ADRET_INSTANTIATE(int64_t)
ADRET_INSTANTIATE(uint8_t)
ADRET_INSTANTIATE(bool)
#undef ADRET_INSTANTIATE

Tensor::operator TensorView() const {
  if (!body_) return {};
  return {.data = data(),
          .storage = body_->storage.get(),
          .shape = body_->shape,
          .dtype = body_->dtype,
          .device = body_->storage->device()};
}

Tensor Tensor::alias(const Shape& shape, size_t offset) const {
  auto copy = make_intrusive<Body>();
  copy->storage = body().storage;
  copy->version = body().version;
  copy->offset = body().offset + offset;
  copy->shape = shape;
  copy->dtype = body().dtype;
  return Tensor(std::move(copy));
}

Tensor Tensor::over(IntrusivePtr<Storage> storage, const TensorView& view) {
  auto body = make_intrusive<Body>();
  body->offset =
      size_t(static_cast<std::byte*>(view.data) - static_cast<std::byte*>(storage->data()));
  body->storage = std::move(storage);
  body->version = body->storage;
  body->shape = view.shape;
  body->dtype = view.dtype;
  return Tensor(std::move(body));
}

Tensor Tensor::segment(const Shape& shape, size_t offset, DType dtype) const {
  Tensor part = alias(shape, offset);
  part.body().dtype = dtype;
  part.body().version = make_intrusive<VersionCounter>();
  return part;
}

void Tensor::set_node(IntrusivePtr<GraphNode> node, int output_index) const {
  body().node = std::move(node);
  body().output_index = output_index;
}

void Tensor::rebind(const Tensor& place) const {
  Body& mine = body();
  const Body& other = place.body();
  mine.storage = other.storage;
  mine.version = other.version;
  mine.offset = other.offset;
}

// All views share the version. Of a whole storage that is its own, and its memory counts too, as
// arenas may lie there; parts of an arena have one each.
bool Tensor::has_views() const {
  if (body().version == body().storage) return body().storage->reference_count() > 2;
  return body().version->reference_count() > 1;
}

bool Tensor::is_unique() const {
  return body().reference_count() == 1 &&
         body().storage->reference_count() == (body().version == body().storage ? 2 : 1);
}

void Tensor::throw_undefined() {
  throw Error(
      fmt::format("[{}] an undefined tensor was used; assign a value first (optional arguments may "
                  "stay undefined, defined() tells)",
                  failing_function("tensor")));
}

}  // namespace adret
