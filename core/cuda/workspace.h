// Memory that a kernel needs for the length of one call.
#pragma once

#include <adret/core/cuda/context.h>
#include <adret/core/storage.h>

namespace adret::cuda {

// `bytes` from the device's pool, not initialised. It may go as soon as the kernels that use it are
// launched: who gets the block next runs after them on the same stream.
class Workspace {
 public:
  Workspace(const Context& context, size_t bytes)
      : storage_(Storage::allocate(bytes, context.device())) {}
  void* data() const { return storage_->data(); }
  template <class T>
  T* as() const {
    return static_cast<T*>(data());
  }

 private:
  IntrusivePtr<Storage> storage_;
};

}  // namespace adret::cuda
