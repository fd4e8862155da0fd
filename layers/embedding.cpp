// A table of learned vectors.
#include <adret/autograd/grad_mode.h>
#include <adret/autograd/ops/shape.h>
#include <adret/core/error.h>
#include <adret/layers/check.h>
#include <adret/layers/embedding.h>
#include <adret/layers/init.h>
#include <fmt/core.h>

namespace adret {

Embedding::Embedding(int64_t count, int64_t features, const EmbeddingOptions& options)
    : count(at_least(1, count, "Embedding", "count")),
      features(at_least(1, features, "Embedding", "features")),
      options(options),
      weight(parameter("weight", Tensor::empty({count, features}))) {
  const NoGrad no_grad;
  init::normal_(weight.value, 0, 1);
  if (!options.padding_idx) return;
  int64_t row = *options.padding_idx;
  if (row < -count || row >= count) {
    throw Error(fmt::format("[Embedding] padding_idx {} is none of {} rows", row, count));
  }
  if (row < 0) row += count;
  init::zeros_(slice(weight, 0, row, row + 1));
}

}  // namespace adret
