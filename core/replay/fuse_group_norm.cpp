// Normalisation of samples with the sum before it, and its gradient with that of the sum's other
// users: what blocks with residual connections are made of.
#include <adret/core/replay/fuse.h>

namespace adret {
namespace {

using namespace kernels;

bool is_plain_sum(const Binary& call) {
  return call.op == BinaryOp::add && call.a.shape == call.b.shape &&
         call.y.storage != call.a.storage && call.y.storage != call.b.storage;
}

// The norm that reads sum `i` before anybody else does.
std::optional<size_t> norm_behind(CallList& list, size_t i, const TensorView& sum) {
  const std::vector<size_t> users = list.touching_after(i, sum);
  if (users.empty()) return {};
  const auto* const norm = list.at<GroupNormForward>(users.front());
  const bool fits = norm && !norm->added.defined() && norm->x.storage == sum.storage &&
                    norm->x.numel() == sum.numel();
  return fits ? std::optional(users.front()) : std::nullopt;
}

// y = norm(a + b), which others may read the sum of.
bool sum_and_norm(CallList& list, size_t i) {
  const Binary sum = *list.at<Binary>(i);
  const auto j = is_plain_sum(sum) ? norm_behind(list, i, sum.y) : std::nullopt;
  if (!j || !list.unwritten_between(i, *j, sum.a) || !list.unwritten_between(i, *j, sum.b)) {
    return false;
  }
  GroupNormForward& norm = *list.at<GroupNormForward>(*j);
  const Shape shape = norm.x.shape;
  norm.x = CallList::reshaped(sum.a, shape);
  norm.added = CallList::reshaped(sum.b, shape);
  norm.sum = CallList::reshaped(sum.y, shape);
  list.erase(i);
  return true;
}

// The gradient of a norm's operand, which others have gradients of that are there already.
bool gradient_and_sum(CallList& list, size_t i) {
  const GroupNormBackward norm = *list.at<GroupNormBackward>(i);
  const auto j =
      norm.dx.defined() && !norm.dsum.defined() ? list.only_reader(i, norm.dx) : std::nullopt;
  const auto* const sum = j ? list.at<Binary>(*j) : nullptr;
  if (!sum || sum->op != BinaryOp::add || sum->a.shape != sum->b.shape) return false;
  const TensorView other = sum->a.storage == norm.dx.storage ? sum->b : sum->a;
  if (other.storage == norm.dx.storage || other.numel() != norm.dx.numel() ||
      !list.unwritten_between(i, *j, other) || !list.untouched_between(i, *j, sum->y)) {
    return false;
  }
  for (const Operand& input : norm.inputs()) {  // y may be the other's place, no other one's
    if (input.view.storage == sum->y.storage) return false;
  }
  GroupNormBackward& fused = *list.at<GroupNormBackward>(i);
  fused.dsum = CallList::reshaped(other, norm.dx.shape);
  fused.dx = CallList::reshaped(sum->y, norm.dx.shape);
  list.erase(*j);
  return true;
}

}  // namespace

bool fuse_group_norm(CallList& list, size_t i) {
  if (list.at<Binary>(i)) return sum_and_norm(list, i);
  if (list.at<GroupNormBackward>(i)) return gradient_and_sum(list, i);
  return false;
}

}  // namespace adret
