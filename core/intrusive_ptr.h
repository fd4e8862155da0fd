// Reference counting inside the object: one pointer per handle, one allocation per object.
#pragma once

#include <atomic>
#include <cstdint>
#include <utility>

namespace adret {

// Base of objects owned through IntrusivePtr. `destroy` runs when the last handle goes; classes
// that form long chains override it to avoid recursion.
class RefCounted {
 public:
  RefCounted() = default;
  RefCounted(const RefCounted&) = delete;
  RefCounted& operator=(const RefCounted&) = delete;

  void add_reference() const noexcept { count_.fetch_add(1, std::memory_order_relaxed); }
  void drop_reference() const noexcept {
    if (count_.fetch_sub(1, std::memory_order_acq_rel) == 1)
      const_cast<RefCounted*>(this)->destroy();
  }
  int64_t reference_count() const noexcept { return count_.load(std::memory_order_acquire); }

 protected:
  virtual ~RefCounted() = default;
  virtual void destroy() noexcept { delete this; }

 private:
  mutable std::atomic<int64_t> count_{0};
};

template <class T>
class IntrusivePtr {
 public:
  IntrusivePtr() = default;
  IntrusivePtr(std::nullptr_t) {}
  explicit IntrusivePtr(T* object) : object_(object) { acquire(); }
  IntrusivePtr(const IntrusivePtr& other) : object_(other.object_) { acquire(); }
  IntrusivePtr(IntrusivePtr&& other) noexcept : object_(std::exchange(other.object_, nullptr)) {}
  template <class U>
  IntrusivePtr(const IntrusivePtr<U>& other) : object_(other.get()) {
    acquire();
  }
  ~IntrusivePtr() { release(); }
  IntrusivePtr& operator=(IntrusivePtr other) noexcept {
    std::swap(object_, other.object_);
    return *this;
  }

  T* get() const { return object_; }
  T& operator*() const { return *object_; }
  T* operator->() const { return object_; }
  explicit operator bool() const { return object_ != nullptr; }
  bool operator==(const IntrusivePtr&) const = default;

 private:
  void acquire() const {
    if (object_) object_->add_reference();
  }
  void release() const {
    if (object_) object_->drop_reference();
  }
  T* object_ = nullptr;
};

template <class T, class... Args>
IntrusivePtr<T> make_intrusive(Args&&... args) {
  return IntrusivePtr<T>(new T(std::forward<Args>(args)...));
}

}  // namespace adret
