// The argument check of dropout.
#include <adret/layers/check.h>
#include <adret/layers/dropout.h>

namespace adret {

Dropout::Dropout(double p) : p(probability(p, "Dropout", "p")) {}
Dropout2d::Dropout2d(double p) : p(probability(p, "Dropout2d", "p")) {}
DropPath::DropPath(double p) : p(probability(p, "DropPath", "p")) {}

}  // namespace adret
