// Sums of products by the names of dimensions.
#pragma once

#include <adret/core/tensor.h>

#include <string_view>
#include <vector>

namespace adret {

// einsum("bhtd,bhsd->bhts", {q, k}): each operand's dimensions are named by letters; what has a
// letter in common is multiplied, and letters that the result does not name are summed over.
// Without
// "->" the result names, in order, the letters that come once. Blanks do not matter. Operands are
// taken from left to right, each by one matrix product with all before it: put first what makes
// small results. Of one floating dtype.
//
// Throws ShapeError for another number of operands or dimensions than named, for sizes of one
// letter that differ (1 is not stretched), a letter named twice by one operand (no diagonals), a
// letter of the result that no operand has or that it names twice, and "...".
Tensor einsum(std::string_view equation, const std::vector<Tensor>& operands);

}  // namespace adret
