// Scratch memory of a thread: kept between calls, so that a steady training step allocates nothing.
#pragma once

#include <cstdint>
#include <cstdlib>
#include <memory>
#include <new>

namespace adret::cpu {

// `count` uninitialised elements on a cache line's boundary, valid until the thread's next call.
template <class T>
T* thread_scratch(int64_t count) {
  struct Free {
    void operator()(void* data) const { std::free(data); }
  };
  thread_local std::unique_ptr<void, Free> data;
  thread_local size_t capacity = 0;
  const size_t bytes = (size_t(count) * sizeof(T) + 63) / 64 * 64;
  if (bytes > capacity) {
    capacity = 0;
    data.reset();
    data.reset(std::aligned_alloc(64, bytes));
    if (!data) throw std::bad_alloc();
    capacity = bytes;
  }
  return static_cast<T*>(data.get());
}

}  // namespace adret::cpu
