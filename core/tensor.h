// The tensor: a handle on dense, row-major elements, with or without a gradient.
#pragma once

#include <adret/core/device.h>
#include <adret/core/dtype.h>
#include <adret/core/intrusive_ptr.h>
#include <adret/core/shape.h>
#include <adret/core/storage.h>

#include <cstdint>
#include <initializer_list>
#include <iosfwd>
#include <span>
#include <string>
#include <vector>

namespace adret {

struct TensorView;

// What core knows of autograd: the node that made a tensor, as an opaque object.
class GraphNode : public RefCounted {};

struct TensorOptions {
  DType dtype = DType::f32;
  Device device = Device::cpu();
};

// A handle: copies share the elements and the place in the graph. Elements are dense and
// row-major, always; images are (N, H, W, C). A default-constructed tensor is undefined and may
// only be assigned to or asked `defined()`. One thread at a time may use a tensor.
class Tensor {
 public:
  Tensor() = default;

  // -- making ------------------------------------------------------------------------------------
  // `empty` initialises nothing; `full` throws ShapeError for a value that the dtype cannot hold.
  static Tensor empty(const Shape& shape, TensorOptions options = {});
  static Tensor zeros(const Shape& shape, TensorOptions options = {});
  static Tensor ones(const Shape& shape, TensorOptions options = {});
  static Tensor full(const Shape& shape, double value, TensorOptions options = {});
  // A copy of `values` in row-major order, with the dtype of T. Throws ShapeError when their number
  // is not the shape's.
  template <class T>
  static Tensor from(std::span<const T> values, const Shape& shape, Device device = Device::cpu());
  template <class T>
  static Tensor from(const std::vector<T>& values, const Shape& shape,
                     Device device = Device::cpu()) {
    return from(std::span<const T>(values), shape, device);
  }
  template <class T>
  static Tensor from(std::initializer_list<T> values, const Shape& shape,
                     Device device = Device::cpu()) {
    return from(std::span<const T>(values.begin(), values.size()), shape, device);
  }

  // -- asking ------------------------------------------------------------------------------------
  bool defined() const { return bool(body_); }
  const Shape& shape() const { return body().shape; }
  int rank() const { return body().shape.rank(); }
  int64_t size(int dim) const { return body().shape[dim]; }
  int64_t numel() const { return body().shape.numel(); }
  DType dtype() const { return body().dtype; }
  Device device() const { return body().storage->device(); }
  size_t bytes() const { return size_t(numel()) * size_of(dtype()); }

  // -- reading; copies from the device, converts nothing ----------------------------------------
  // The one element. Throws ShapeError for another number of elements, or another dtype than
  // T's.
  template <class T = float>
  T item() const;
  template <class T = float>
  std::vector<T> to_vector() const;

  // -- copies; differentiable (defined in autograd/ops) -----------------------------------------
  // `to` gives this very tensor where there is nothing to convert.
  Tensor clone() const;
  Tensor to(Device device) const;
  Tensor to(DType dtype) const;
  // One size may be -1 and is worked out. Shares the elements.
  Tensor reshape(std::initializer_list<int64_t> sizes) const;
  Tensor reshape(const Shape& shape) const;

  // -- gradients (defined in autograd) ----------------------------------------------------------
  // True for a leaf that asked for a gradient, and for everything that was computed from one and
  // recorded.
  bool requires_grad() const { return bool(body().node); }
  bool is_leaf() const;
  // Marks a floating leaf. Throws Error on the result of a recorded function.
  Tensor& set_requires_grad(bool value);
  // The gradient of a leaf; undefined before the first backward. That of a parameter in an
  // optimizer lies in the optimizer's memory, which the next backward writes to: clone() it to keep
  // it.
  Tensor grad() const;
  void set_grad(const Tensor& grad);
  void zero_grad() { set_grad(Tensor()); }
  // Adds d(this)/d(leaf) to the gradient of every leaf behind this scalar. The graph is freed
  // unless `retain_graph`. Throws ShapeError for more than one element, Error without a graph.
  void backward(bool retain_graph = false) const;
  // The same elements outside the graph.
  Tensor detach() const;

  // -- for the library and custom kernels -------------------------------------------------------
  // An operand of a kernel call; wants core/tensor_view.h.
  operator TensorView() const;
  void* data() const { return static_cast<std::byte*>(body().storage->data()) + body().offset; }
  // The elements as T, on the CPU. Throws ShapeError for another dtype, DeviceError elsewhere.
  template <class T>
  std::span<T> span() const;
  const IntrusivePtr<Storage>& storage() const { return body().storage; }
  size_t byte_offset() const { return body().offset; }
  uint32_t version() const { return body().version->value(); }
  // To be called after writing into the elements of an existing tensor.
  void bump_version() const { body().version->bump(); }
  // The same memory from byte `offset` of this tensor's start, as another dense tensor outside
  // the graph; shares the version.
  Tensor alias(const Shape& shape, size_t offset = 0) const;
  // A tensor over the elements of a view, which lie in `storage`.
  static Tensor over(IntrusivePtr<Storage> storage, const TensorView& view);
  // A tensor over part of an arena: as `alias`, with a dtype and a version of its own.
  Tensor segment(const Shape& shape, size_t offset, DType dtype) const;
  const IntrusivePtr<GraphNode>& node() const { return body().node; }
  int output_index() const { return body().output_index; }
  void set_node(IntrusivePtr<GraphNode> node, int output_index) const;
  // Moves this tensor, and every handle on it, to the memory of `place` (same shape and dtype).
  void rebind(const Tensor& place) const;
  bool is_same(const Tensor& other) const { return body_ == other.body_; }
  // Whether both start at the same byte of the same storage.
  bool shares_start(const Tensor& other) const {
    return storage() == other.storage() && byte_offset() == other.byte_offset();
  }
  // Whether other tensors share its elements, as reshapes and slices do.
  bool has_views() const;
  // Whether this is the only handle on the tensor, and the tensor the only one on its storage.
  bool is_unique() const;

 private:
  struct Body : RefCounted {
    IntrusivePtr<Storage> storage;
    IntrusivePtr<VersionCounter> version;
    size_t offset = 0;  // bytes
    Shape shape;
    DType dtype = DType::f32;
    int output_index = 0;
    IntrusivePtr<GraphNode> node;
  };
  explicit Tensor(IntrusivePtr<Body> body) : body_(std::move(body)) {}
  Body& body() const {
    if (!body_) throw_undefined();
    return *body_;
  }
  [[noreturn]] static void throw_undefined();

  IntrusivePtr<Body> body_;
};

// Prints like NumPy: nested brackets, long dimensions abbreviated, then shape, dtype and device.
std::string to_string(const Tensor& tensor);
std::ostream& operator<<(std::ostream& out, const Tensor& tensor);

}  // namespace adret
