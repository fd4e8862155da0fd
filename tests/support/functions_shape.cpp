// Cases of functions that rearrange, index and multiply.
#include "tests/support/function_lists.h"

namespace adret::test {

std::vector<FunctionCase> rearrange_cases() { return {}; }

}  // namespace adret::test
