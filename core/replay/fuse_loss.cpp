// Cross-entropy with its gradient.
#include <adret/core/replay/fuse.h>

#include <optional>

namespace adret {
namespace {

using namespace kernels;

// The gradient's dloss must be there in time: from before, or from a fill that can be made earlier.
bool take_gradient(CallList& list, size_t i, size_t j) {
  const CrossEntropyBackward backward = *list.at<CrossEntropyBackward>(j);
  std::optional<size_t> fill;
  for (size_t k = i + 1; k < j; ++k) {
    if (!list.writes(k, backward.dloss)) continue;
    if (fill || !list.at<Fill>(k) || !list.is_temporary(backward.dloss)) return false;
    fill = k;
  }
  auto& forward = *list.at<CrossEntropyForward>(i);
  forward.dloss = backward.dloss;
  forward.dlogits = backward.dlogits;
  list.erase(j);
  if (fill) list.move(*fill, i);
  return true;
}

}  // namespace

bool fuse_loss(CallList& list, size_t i) {
  const auto* const forward = list.at<CrossEntropyForward>(i);
  if (!forward || forward->dlogits.defined()) return false;
  for (size_t j = i + 1; j < list.size(); ++j) {
    const auto* const backward = list.at<CrossEntropyBackward>(j);
    if (!backward || !CallList::same(backward->log_sum_exp, forward->log_sum_exp)) continue;
    return CallList::same(backward->logits, forward->logits) &&
           CallList::same(backward->labels, forward->labels) &&
           CallList::same(backward->class_weights, forward->class_weights) &&
           backward->loss_params == forward->loss_params &&
           list.unwritten_between(i, j, forward->logits) &&
           list.unwritten_between(i, j, forward->labels) &&
           (!forward->class_weights.defined() ||
            list.unwritten_between(i, j, forward->class_weights)) &&
           list.untouched_between(i, j, backward->dlogits) && take_gradient(list, i, j);
  }
  return false;
}

}  // namespace adret
