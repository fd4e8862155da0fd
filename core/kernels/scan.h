// Running sums, running products and linear recurrences along one dimension.
#pragma once

#include <adret/core/kernels/custom.h>

#include <string>

namespace adret::kernels {

// y[i] = a[i] * y[i - 1] + b[i] along `dim` (0..rank-1), or with y[i + 1] when `reverse`; of one
// shape and dtype, a floating one or i64, which wraps; 0 times any a[i] is 0 there. Without a:
// running sums. Without b: running products, which begin at 1 instead of 0, and 0 times infinity is
// NaN. One of them is there. Floats are kept in f64, and y is none of the operands.
struct Scan {
  static constexpr const char* name = "scan";
  static constexpr CustomOperand inputs[] = {{.name = "a", .optional = true},
                                             {.name = "b", .optional = true}},
                                 outputs[] = {{.name = "y"}};
  int dim = 0;
  bool reverse = false;
  bool operator==(const Scan&) const = default;

  double flops(const CustomCall& call) const { return 2 * double(call.outputs[0].numel()); }
  std::string params() const;
  void run_cpu(const CustomCall& call) const;
};

}  // namespace adret::kernels
