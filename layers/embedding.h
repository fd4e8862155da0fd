// A table of learned vectors.
#pragma once

#include <adret/autograd/ops/embedding.h>
#include <adret/layers/module.h>

namespace adret {

// Indices (...) below `count` -> their rows (..., features). The weight (count, features) starts
// normal; the row padding_idx starts at 0 and does not learn.
class Embedding : public Layer<Embedding> {
 public:
  // Throws Error for sizes below 1 and a padding_idx that is no row.
  Embedding(int64_t count, int64_t features, const EmbeddingOptions& options = {});
  Tensor forward(const Tensor& indices) { return embedding(indices, weight, options); }
  Embedding rebuild() const { return Embedding(count, features, options); }

  const int64_t count, features;
  const EmbeddingOptions options;
  Parameter& weight;
};

}  // namespace adret
