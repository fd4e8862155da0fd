// Cases of functions that are losses.
#include "tests/support/function_lists.h"

namespace adret::test {

std::vector<FunctionCase> loss_cases() { return {}; }

}  // namespace adret::test
