// This thread's names, and the observer of all threads'.
#include <adret/core/scope.h>

#include <vector>

namespace adret {

namespace detail {
constinit thread_local CurrentFunction function;
constinit std::atomic<const ScopeObserver*> scope_observer{nullptr};
}  // namespace detail

namespace {
thread_local std::vector<const char*> names;
}

void observe_scopes(const ScopeObserver* observer) {
  detail::scope_observer.store(observer, std::memory_order_release);
}

NameScope::NameScope(const char* name)
    : before_(std::exchange(detail::function, {})), observer_(detail::tell_begin(name)) {
  names.push_back(name);
}

NameScope::~NameScope() {
  names.pop_back();
  detail::function = before_;
  detail::tell_end(observer_);
}

std::string NameScope::path() {
  std::string path;
  for (const char* name : names) path += (path.empty() ? "" : "/") + std::string(name);
  return path;
}

std::string current_place() {
  std::string place = NameScope::path();
  const auto [name, backward] = current_function();
  if (name) {
    if (!place.empty()) place += '/';
    place += name;
    if (backward) place += " backward";
  }
  return place;
}

}  // namespace adret
