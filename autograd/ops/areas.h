// Where the areas begin and end that cover a line of elements, as tensors of f64.
#pragma once

#include <adret/autograd/ops/arithmetic.h>
#include <adret/autograd/ops/create.h>
#include <adret/autograd/ops/elementary.h>

namespace adret {

// floor(x / divisor) of whole numbers from 0. The half keeps quotients away from whole numbers,
// since x / b of a tensor is x times the rounded 1 / b.
inline Tensor whole_quotient(const Tensor& x, int64_t divisor) {
  return floor((x + 0.5) / double(divisor));
}

// Of `to` areas over `from` elements the i-th is elements floor(i from / to) to
// ceil((i + 1) from / to) - 1. Made of kernels, so that a recorded step has them as constants.
struct AreaEnds {
  Tensor first, last;  // (to, 1)

  AreaEnds(int64_t from, int64_t to, Device device) {
    const Tensor number = arange(0, double(to), 1, {.dtype = DType::f64, .device = device});
    const Tensor begin = number.reshape({to, 1}) * double(from);
    first = whole_quotient(begin, to);
    last = whole_quotient(begin + double(from - 1), to);
  }
};

}  // namespace adret
