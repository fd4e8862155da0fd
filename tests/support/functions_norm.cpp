// Cases of functions that normalise.
#include "tests/support/function_lists.h"

namespace adret::test {

std::vector<FunctionCase> norm_cases() { return {}; }

}  // namespace adret::test
