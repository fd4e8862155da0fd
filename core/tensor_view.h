// A kernel's operand: a tensor without ownership, cheap to copy.
#pragma once

#include <adret/core/device.h>
#include <adret/core/dtype.h>
#include <adret/core/shape.h>

#include <cstddef>
#include <string>

namespace adret {

class Storage;

// Undefined (data and storage null) for an optional operand that is absent. `storage` says which
// memory it is; what keeps a kernel call beyond the call retains it.
struct TensorView {
  void* data = nullptr;
  Storage* storage = nullptr;
  Shape shape;
  DType dtype = DType::f32;
  Device device;

  bool defined() const { return storage != nullptr; }
  int64_t numel() const { return shape.numel(); }
  size_t bytes() const { return defined() ? size_t(numel()) * size_of(dtype) : 0; }
  // The elements, unchecked: the caller knows the dtype.
  template <class T>
  T* as() const {
    return static_cast<T*>(data);
  }
};

std::string to_string(const TensorView& view);  // "(64, 10) f32 cpu", or "none"

}  // namespace adret
