// Whether what is to be called is there.
#pragma once

#include <functional>

namespace adret {

// True for a std::function or a pointer that holds no function; other callables are one.
template <class F>
bool is_empty(const F&) {
  return false;
}
template <class Result, class... Args>
bool is_empty(const std::function<Result(Args...)>& function) {
  return !function;
}
template <class Result, class... Args>
bool is_empty(Result (*const& function)(Args...)) {
  return !function;
}

}  // namespace adret
