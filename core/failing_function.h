// Whose name an error gets.
#pragma once

#include <adret/core/scope.h>

namespace adret {

// The function of the library that the user called, of which `own` is a part; `own` itself in the
// backward of a function, where nobody called it.
inline const char* failing_function(const char* own) {
  const CurrentFunction now = current_function();
  return now.name && !now.backward ? now.name : own;
}

}  // namespace adret
