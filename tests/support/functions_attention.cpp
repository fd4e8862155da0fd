// Cases of functions of attention.
#include "tests/support/function_lists.h"

namespace adret::test {

std::vector<FunctionCase> attention_cases() { return {}; }

}  // namespace adret::test
