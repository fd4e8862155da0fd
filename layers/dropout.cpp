// The argument check of dropout.
#include <adret/core/error.h>
#include <adret/layers/dropout.h>
#include <fmt/core.h>

namespace adret {
namespace {

double probability(const char* layer, double p) {
  if (p >= 0 && p <= 1) return p;
  throw Error(fmt::format("[{}] p is {}; a probability lies in 0..1", layer, p));
}

}  // namespace

Dropout::Dropout(double p) : p(probability("Dropout", p)) {}
Dropout2d::Dropout2d(double p) : p(probability("Dropout2d", p)) {}
DropPath::DropPath(double p) : p(probability("DropPath", p)) {}

}  // namespace adret
