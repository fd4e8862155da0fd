// Storage takes its block from a pool of its device and gives it back.
#include <adret/core/backend.h>
#include <adret/core/storage.h>

namespace adret {
namespace {

constinit thread_local const PoolScope* innermost = nullptr;

// The function that asks, or the modules around it.
MemoryPool::Allocation allocate(MemoryPool& pool, size_t bytes) {
  const CurrentFunction function = current_function();
  if (function.name) return pool.allocate(bytes, function);
  const std::string path = NameScope::path();
  return pool.allocate(bytes, {.name = path.empty() ? nullptr : path.c_str()});
}

}  // namespace

PoolScope::PoolScope(Device device, MemoryPool& pool)
    : device_(device), pool_(pool), outer_(innermost) {
  innermost = this;
}
PoolScope::~PoolScope() { innermost = outer_; }

MemoryPool& pool_for(Device device) {
  for (const PoolScope* scope = innermost; scope; scope = scope->outer_) {
    if (scope->device_ == device) return scope->pool_;
  }
  return backend_for(device).services().pool();
}

IntrusivePtr<Storage> Storage::allocate(size_t bytes, Device device) {
  return IntrusivePtr<Storage>(new Storage(pool_for(device), bytes, device));
}

Storage::Storage(MemoryPool& pool, size_t bytes, Device device)
    : allocation_(adret::allocate(pool, bytes)), bytes_(bytes), device_(device) {}

Storage::~Storage() { MemoryPool::deallocate(allocation_); }

}  // namespace adret
