// Where a thread is: in which modules, and in which function of the library. Errors, memory reports
// and profilers say it.
#pragma once

#include <atomic>
#include <string>
#include <utility>

namespace adret {

// Is told when a scope of any thread begins and ends, as a profiler's ranges want it.
struct ScopeObserver {
  void (*begin)(const char* name);
  void (*end)();
};
// For the life of the process; scopes that have begun before end untold. With none, which is how it
// starts, telling costs a comparison.
void observe_scopes(const ScopeObserver* observer);

// The function that this thread is in. Between functions `name` is null.
struct CurrentFunction {
  const char* name = nullptr;
  bool backward = false;  // its backward runs, not itself
};

namespace detail {
extern constinit thread_local CurrentFunction function;
extern constinit std::atomic<const ScopeObserver*> scope_observer;

inline const ScopeObserver* tell_begin(const char* name) {
  const ScopeObserver* observer = scope_observer.load(std::memory_order_acquire);
  if (observer) [[unlikely]]
    observer->begin(name);
  return observer;
}
inline void tell_end(const ScopeObserver* observer) {
  if (observer) [[unlikely]]
    observer->end();
}
}  // namespace detail

inline CurrentFunction current_function() { return detail::function; }

// A name on this thread's stack of modules and phases, for reports ("fit/lenet/conv1"). Functions
// called inside are named anew, also when the scope began within one.
class NameScope {
 public:
  explicit NameScope(const char* name);  // must outlive the scope
  ~NameScope();
  NameScope(const NameScope&) = delete;
  NameScope& operator=(const NameScope&) = delete;
  static std::string path();

 private:
  const CurrentFunction before_;
  const ScopeObserver* const observer_;
};

// Put at the top of a function that allocates: memory that it takes is reported under its name. Of
// functions that call each other the outermost counts, as it is the one that the user called.
class FunctionScope {
 public:
  explicit FunctionScope(const char* name)  // must outlive the scope
      : FunctionScope(detail::function.name ? detail::function : CurrentFunction{.name = name},
                      name) {}
  // The backward of a recorded function, which counts before any around it.
  static FunctionScope backward(const char* name) {
    return FunctionScope({.name = name, .backward = true}, name);
  }
  ~FunctionScope() {
    detail::function = before_;
    detail::tell_end(observer_);
  }
  FunctionScope(const FunctionScope&) = delete;
  FunctionScope& operator=(const FunctionScope&) = delete;

 private:
  FunctionScope(const CurrentFunction& now, const char* name)
      : before_(std::exchange(detail::function, now)), observer_(detail::tell_begin(name)) {}
  const CurrentFunction before_;
  const ScopeObserver* const observer_;
};

// The modules and the function: "fit/lenet/conv1/conv2d", "fit/conv2d backward"; empty outside of
// all.
std::string current_place();

}  // namespace adret
