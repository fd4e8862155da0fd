// Storage takes its block from a pool of its device and gives it back.
#include <adret/core/backend.h>
#include <adret/core/storage.h>

#include <atomic>

namespace adret {
namespace {

constinit thread_local const PoolScope* innermost = nullptr;
constinit std::atomic<uint64_t> next_id = 0;

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
  return IntrusivePtr<Storage>(
      new Storage(adret::allocate(pool_for(device), bytes), bytes, device));
}

IntrusivePtr<Storage> Storage::placeholder(size_t bytes, Device device) {
  return IntrusivePtr<Storage>(new Storage({}, bytes, device));
}

uint64_t next_storage_id() { return next_id.load(std::memory_order_relaxed); }

Storage::Storage(MemoryPool::Allocation allocation, size_t bytes, Device device)
    : allocation_(allocation),
      bytes_(bytes),
      id_(next_id.fetch_add(1, std::memory_order_relaxed)),
      device_(device) {}

Storage::~Storage() {
  if (life_) life_->over_ = true;
  MemoryPool::deallocate(allocation_);
}

IntrusivePtr<StorageLife> Storage::life() {
  if (!life_) life_ = make_intrusive<StorageLife>();
  return life_;
}

}  // namespace adret
