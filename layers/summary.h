// A model's layers in a table: output shapes, parameters, floating-point operations.
#pragma once

#include <adret/layers/module.h>

#include <cstdint>
#include <string>
#include <vector>

namespace adret {

struct SummaryRow {
  std::string name;  // dotted; empty for the model itself
  std::string type;
  std::vector<Shape> outputs;  // one for each call in a forward
  int64_t parameters = 0;      // of the layer and those inside it
  double flops = 0;  // of one forward, those inside it included; a multiply-add counts two
};

// One row a module, the model first, from a dry run of forward in evaluation: nothing is computed
// and the model is left as it was. `input` is the shape of a whole batch, such as (1, 28, 28, 1).
// Throws what forward throws, and Error for a forward that is not of one tensor.
std::vector<SummaryRow> summarize(Module& model, const Shape& input);

// The rows as a table, with the model's totals below.
std::string summary(Module& model, const Shape& input);

}  // namespace adret
