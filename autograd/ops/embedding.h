// Rows of a table by their numbers.
#pragma once

#include <adret/core/tensor.h>

#include <optional>

namespace adret {

struct EmbeddingOptions {
  // A row that gets no gradient; negative ones count from the end.
  std::optional<int64_t> padding_idx = {};
};

// weight[indices]: indices (...) i32 or i64, weight (V, C) -> (..., C). Throws ShapeError for other
// shapes and dtypes and a padding_idx that is no row, and Error for an index outside 0..V-1, naming
// it, on the CPU; elsewhere and in replayed steps its row is NaN.
Tensor embedding(const Tensor& indices, const Tensor& weight, const EmbeddingOptions& options = {});

}  // namespace adret
