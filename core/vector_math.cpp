// Note [Bounds out of sight]
#include <adret/core/vector_math.h>

namespace adret::cpu {

constinit const float exp_lowest = -104.0f, exp_highest = 89.0f;
constinit const float largest_float = std::numeric_limits<float>::max();

}  // namespace adret::cpu
