// Storage takes its block from the device's pool and gives it back.
#include <adret/core/backend.h>
#include <adret/core/storage.h>

namespace adret {

IntrusivePtr<Storage> Storage::allocate(size_t bytes, Device device) {
  return IntrusivePtr<Storage>(new Storage(backend_for(device).services().pool(), bytes, device));
}

Storage::Storage(MemoryPool& pool, size_t bytes, Device device)
    : pool_(pool), allocation_(pool.allocate(bytes)), bytes_(bytes), device_(device) {}

Storage::~Storage() { pool_.deallocate(allocation_); }

}  // namespace adret
