// The argument check of dropout.
#include <adret/layers/check.h>
#include <adret/layers/dropout.h>

namespace adret {

Dropout::Dropout(double p) : p(probability(p, "Dropout", "p")) {}
Dropout1d::Dropout1d(double p) : p(probability(p, "Dropout1d", "p")) {}
Dropout3d::Dropout3d(double p) : p(probability(p, "Dropout3d", "p")) {}
AlphaDropout::AlphaDropout(double p) : p(probability(p, "AlphaDropout", "p")) {}
FeatureAlphaDropout::FeatureAlphaDropout(double p)
    : p(probability(p, "FeatureAlphaDropout", "p")) {}
Dropout2d::Dropout2d(double p) : p(probability(p, "Dropout2d", "p")) {}
DropPath::DropPath(double p) : p(probability(p, "DropPath", "p")) {}

}  // namespace adret
