// Memory that a kernel needs for the length of one call.
#pragma once

#include <adret/core/storage.h>

#include <cstdint>

namespace adret::cpu {

// `count` values from the pool of the CPU, not initialised: a repeated kernel gets the same block.
template <class T>
class Workspace {
 public:
  explicit Workspace(int64_t count)
      : storage_(Storage::allocate(size_t(count) * sizeof(T), Device::cpu())) {}
  T* data() const { return static_cast<T*>(storage_->data()); }

 private:
  IntrusivePtr<Storage> storage_;
};

}  // namespace adret::cpu
