// Sums of products by the names of dimensions.
#pragma once

#include <adret/core/tensor.h>

#include <string_view>
#include <vector>

namespace adret {

// einsum("bhtd,bhsd->bhts", {q, k}): each operand's dimensions are named by letters; what has a
// letter in common is multiplied, and letters that the result does not name are summed over. A
// letter that one operand has twice means its diagonal: "ii->i", and "ii->" the trace. "..." stands
// for any number of dimensions without names, which broadcast as NumPy's do; a result without it
// sums over them. Without "->" the result is "..." and, in alphabetical order, the letters that
// come once. Blanks do not matter. Operands are taken from left to right, each by one matrix
// product with all before it: put first what makes small results. Of one floating dtype.
//
// Throws ShapeError for another number of operands or dimensions than named, for sizes of one
// letter that differ (1 is stretched in "..." alone), and for a letter of the result that no
// operand has or that it names twice.
Tensor einsum(std::string_view equation, const std::vector<Tensor>& operands);

}  // namespace adret
