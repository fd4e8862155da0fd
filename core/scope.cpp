// This thread's names.
#include <adret/core/scope.h>

#include <atomic>
#include <utility>
#include <vector>

namespace adret {
namespace {

thread_local std::vector<const char*> names;
constinit thread_local CurrentFunction function;
constinit std::atomic<const ScopeObserver*> observer_of_all{nullptr};

const ScopeObserver* tell_begin(const char* name) {
  const ScopeObserver* observer = observer_of_all.load(std::memory_order_acquire);
  if (observer) [[unlikely]]
    observer->begin(name);
  return observer;
}

void tell_end(const ScopeObserver* observer) {
  if (observer) [[unlikely]]
    observer->end();
}

}  // namespace

void observe_scopes(const ScopeObserver* observer) {
  observer_of_all.store(observer, std::memory_order_release);
}

CurrentFunction current_function() { return function; }

NameScope::NameScope(const char* name)
    : before_(std::exchange(function, {})), observer_(tell_begin(name)) {
  names.push_back(name);
}

NameScope::~NameScope() {
  names.pop_back();
  function = before_;
  tell_end(observer_);
}

std::string NameScope::path() {
  std::string path;
  for (const char* name : names) path += (path.empty() ? "" : "/") + std::string(name);
  return path;
}

FunctionScope::FunctionScope(const char* name)
    : FunctionScope(function.name ? function : CurrentFunction{.name = name}, name) {}

FunctionScope FunctionScope::backward(const char* name) {
  return FunctionScope({.name = name, .backward = true}, name);
}

FunctionScope::FunctionScope(const CurrentFunction& now, const char* name)
    : before_(std::exchange(function, now)), observer_(tell_begin(name)) {}

FunctionScope::~FunctionScope() {
  function = before_;
  tell_end(observer_);
}

std::string current_place() {
  std::string place = NameScope::path();
  if (function.name) {
    if (!place.empty()) place += '/';
    place += function.name;
    if (function.backward) place += " backward";
  }
  return place;
}

}  // namespace adret
