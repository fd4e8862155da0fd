// Attention as graphs of cuDNN's, of the operations that its fused engines recognise.
#pragma once

#include <adret/core/cuda/cudnn_graph.h>
#include <adret/core/dtype.h>

#include <cstdint>
#include <string>

namespace adret::cuda {

// What decides how attention is run: 16-bit q, y (samples, queries, heads, width), k and v
// (samples, keys, heads, width) or parts of a packed tensor, without mask, lengths and dropout.
struct AttentionShape {
  int64_t samples, heads, queries, keys, width;
  double scale;
  DType dtype;
  bool causal, packed;
  bool backward;
  bool with_log_sum_exp;  // of a forward pass: stored
  auto operator<=>(const AttentionShape&) const = default;
};
// One line, for files of choices.
std::string to_string(const AttentionShape& shape);

// The operands' ids in both graphs. The last three are single floats by value: the scale, 1, and
// the score of a key that is not seen.
namespace attention_id {
enum : int64_t {
  q = 1,
  k,
  v,
  y,
  log_sum_exp,
  dy,
  dq,
  dk,
  dv,
  means,
  scale,
  one,
  unseen,
};
}

// Throws DeviceError when this cuDNN takes no such graph. For the handle's device, or with null for
// one that is only described. In the backward graph the scores' gradients lie in the workspace: the
// other way sums queries' gradients in the order in which blocks happen to come.
Graph attention_graph(const AttentionShape& shape, cudnnHandle_t handle,
                      const Descriptor* device = nullptr);

}  // namespace adret::cuda
