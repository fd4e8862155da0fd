// Cases of integers and booleans.
#include <adret/autograd/ops/arithmetic.h>
#include <adret/autograd/ops/elementary.h>
#include <adret/autograd/ops/extreme.h>
#include <adret/autograd/ops/reduce.h>
#include <adret/autograd/ops/scan.h>

#include "tests/support/function_lists.h"

namespace adret::test {
namespace {

using Inputs = std::vector<Tensor>;
using Cases = std::vector<FunctionCase>;

FunctionCase two(const char* name, Tensor (*function)(const Tensor&, const Tensor&)) {
  return {name, [=](const Inputs& in) { return function(in[0], in[1]); }};
}
template <class F>
FunctionCase one(const char* name, F function) {
  return {name, [=](const Inputs& in) { return function(in[0]); }};
}
FunctionCase reduction(const char* name, Tensor (*function)(const Tensor&, const ReduceOptions&),
                       int dim) {
  return {name, [=](const Inputs& in) { return function(in[0], {.dims = {dim}}); }};
}
FunctionCase scan(const char* name, Tensor (*function)(const Tensor&, int, const ScanOptions&)) {
  return {name, [=](const Inputs& in) { return function(in[0], 1, {}); }};
}

Cases pair_cases() {
  return {
      two("add/integers", add),
      two("add/bytes", add),
      two("add/words", add),
      two("subtract/integers", subtract),
      two("subtract/bytes", subtract),
      two("subtract/words", subtract),
      two("multiply/integers", multiply),
      two("multiply/bytes", multiply),
      two("multiply/words", multiply),
      two("maximum/integers", maximum),
      two("maximum/bytes", maximum),
      two("maximum/words", maximum),
      two("minimum/integers", minimum),
      two("minimum/bytes", minimum),
      two("minimum/words", minimum),
      two("pow/integers", pow),
      one("pow/bytes", [](const Tensor& x) { return pow(x, 3); }),
      two("floor_divide", floor_divide),
      two("floor_divide/row", floor_divide),
      two("floor_divide/bytes", floor_divide),
      one("floor_divide/constant", [](const Tensor& x) { return floor_divide(x, -3); }),
      two("remainder/bytes", remainder),
      one("remainder/constant", [](const Tensor& x) { return remainder(x, -3); }),
      one("fmod/constant", [](const Tensor& x) { return fmod(x, 3); }),
  };
}

Cases constant_cases() {
  return {
      one("add/constant", [](const Tensor& x) { return x + 7; }),
      one("subtract/from", [](const Tensor& x) { return 7 - x; }),
      one("multiply/constant", [](const Tensor& x) { return x * 3; }),
      one("affine/integers", [](const Tensor& x) { return affine(x, 3, -2); }),
      one("square/integers", square),
      one("negative/bytes", negative),
      one("abs/words", abs),
      one("less/constant", [](const Tensor& x) { return less(x, 3); }),
      one("equal/constant", [](const Tensor& x) { return equal(x, 255); }),
  };
}

Cases reduce_cases() {
  return {
      reduction("sum/integers", sum, 1),
      reduction("sum/bytes", sum, 1),
      reduction("sum/words", sum, 1),
      reduction("sum/flags", sum, 1),
      reduction("prod/integers", prod, 1),
      reduction("prod/bytes", prod, 1),
      reduction("prod/words", prod, 1),
      reduction("prod/flags", prod, 1),
      reduction("max/integers", max, 0),
      reduction("max/bytes", max, 0),
      reduction("max/words", max, 0),
      reduction("min/integers", min, 0),
      reduction("min/bytes", min, 0),
      reduction("min/words", min, 0),
      one("max_with_indices/bytes",
          [](const Tensor& x) { return max_with_indices(x, {.dim = 1}).values; }),
      one("argmin/bytes", [](const Tensor& x) { return argmin(x, {.dim = 0}); }),
      scan("cumsum/integers", cumsum),
      scan("cumsum/bytes", cumsum),
      scan("cumsum/words", cumsum),
      scan("cumsum/flags", cumsum),
      scan("cumprod/integers", cumprod),
      scan("cumprod/bytes", cumprod),
      scan("cumprod/words", cumprod),
      scan("cumprod/flags", cumprod),
  };
}

}  // namespace

std::vector<FunctionCase> integer_cases() {
  Cases all = pair_cases();
  for (const Cases& part : {constant_cases(), reduce_cases()}) {
    all.insert(all.end(), part.begin(), part.end());
  }
  return all;
}

}  // namespace adret::test
