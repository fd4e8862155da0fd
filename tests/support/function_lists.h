// The parts of the table of calls that have a file of their own.
#pragma once

#include <vector>

#include "tests/support/functions.h"

namespace adret::test {

std::vector<FunctionCase> rearrange_cases();
std::vector<FunctionCase> norm_cases();
std::vector<FunctionCase> loss_cases();
std::vector<FunctionCase> attention_cases();
std::vector<FunctionCase> image_cases();
std::vector<FunctionCase> recurrent_cases();
std::vector<FunctionCase> volume_cases();
std::vector<FunctionCase> integer_cases();

}  // namespace adret::test
