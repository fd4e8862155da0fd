// The argument check of dropout.
#include <adret/core/error.h>
#include <adret/layers/dropout.h>
#include <fmt/core.h>

namespace adret {

Dropout::Dropout(double p) : p(p) {
  if (p >= 0 && p <= 1) return;
  throw Error(fmt::format("[Dropout] p is {}; a probability lies in 0..1", p));
}

}  // namespace adret
