// Batch normalisation with the sum and the ReLU behind it, forward and backward.
#include <adret/core/replay/fuse.h>

#include <algorithm>

namespace adret {
namespace {

using namespace kernels;

bool relu_behind_norm(CallList& list, size_t i) {
  auto& call = *list.at<BatchNormForward>(i);
  if (call.activation != Activation::none) return false;
  const auto j = list.follower<Unary>(i, call.y, &Unary::y);
  if (!j || list.at<Unary>(*j)->op != UnaryOp::relu) return false;
  call.activation = Activation::relu;
  call.y = list.at<Unary>(*j)->y;
  list.erase(*j);
  return true;
}

// y = norm(x) + other: done where the sum stood, as the other may be made in between.
bool sum_behind_norm(CallList& list, size_t i) {
  BatchNormForward norm = *list.at<BatchNormForward>(i);
  if (norm.activation != Activation::none || norm.residual.defined()) return false;
  const auto j = list.only_reader(i, norm.y);
  const auto* const sum = j ? list.at<Binary>(*j) : nullptr;
  if (!sum || sum->op != BinaryOp::add || sum->a.shape != sum->b.shape) return false;
  const TensorView other = sum->a.storage == norm.y.storage ? sum->b : sum->a;
  if (other.storage == norm.y.storage || other.shape != norm.y.shape) return false;
  for (const Operand& input : norm.inputs()) {
    if (!list.unwritten_between(i, *j, input.view)) return false;
  }
  for (const Operand& output : norm.outputs()) {
    if (!list.untouched_between(i, *j, output.view)) return false;
  }
  norm.residual = other;
  norm.y = sum->y;
  *list.at<BatchNormForward>(i) = norm;
  list.erase(*j);
  list.move(i, *j - 1);
  return true;
}

// Whether a call is the gradient of the norm whose own relu `unary` is the gradient of.
bool is_gradient_behind(CallList& list, size_t i, const UnaryBackward& unary) {
  const auto* const norm = list.at<BatchNormBackward>(i);
  if (!norm || norm->dy.storage != unary.dx.storage || norm->activation != Activation::none ||
      norm->dresidual.defined()) {
    return false;
  }
  const auto* const forward = list.maker(&BatchNormForward::mean, norm->mean);
  return forward && forward->activation == Activation::relu &&
         CallList::same(forward->y, unary.saved);
}

// The gradient of relu behind a norm whose forward pass has it: the norm finds the mask itself, and
// leaves the masked gradient to others if there are any, as behind a sum.
bool relu_gradient_and_norm(CallList& list, size_t i) {
  const UnaryBackward unary = *list.at<UnaryBackward>(i);
  if (unary.op != UnaryOp::relu || !list.is_temporary(unary.dx)) return false;
  const std::vector<size_t> users = list.touching_after(i, unary.dx);
  const auto j = std::ranges::find_if(
      users, [&](size_t user) { return is_gradient_behind(list, user, unary); });
  if (j == users.end()) return false;
  // dy is read while the masked one is written.
  const bool in_place = users.size() > 1 && unary.dx.storage == unary.dy.storage;
  if (in_place && list.is_fixed(i + 1, unary.dx)) return false;
  BatchNormBackward norm = *list.at<BatchNormBackward>(*j);
  const auto* const forward = list.maker(&BatchNormForward::mean, norm.mean);
  // It moves to where relu's stood.
  for (const Operand& input : norm.inputs()) {
    if (input.view.storage != unary.dx.storage && !list.unwritten_between(i, *j, input.view)) {
      return false;
    }
  }
  for (const Operand& output : norm.outputs()) {
    if (!list.untouched_between(i, *j, output.view)) return false;
  }
  norm.activation = Activation::relu;
  norm.dy = CallList::reshaped(unary.dy, norm.dy.shape);
  if (forward->residual.defined()) {
    norm.y = unary.saved;
  } else {
    norm.bias = forward->bias;
  }
  list.move(*j, i + 1);
  list.erase(i);
  *list.at<BatchNormBackward>(i) = norm;
  if (users.size() == 1) return true;
  const TensorView masked = in_place ? list.replace_memory(i + 1, unary.dx) : unary.dx;
  list.at<BatchNormBackward>(i)->dresidual = CallList::reshaped(masked, norm.dy.shape);
  return true;
}

// The gradients of two users of y, summed for a norm that masks the sum and keeps it: it adds them
// itself.
bool gradient_sum_and_norm(CallList& list, size_t i) {
  const Binary sum = *list.at<Binary>(i);
  if (sum.op != BinaryOp::add || sum.a.numel() != sum.b.numel()) return false;
  const auto j = list.only_reader(i, sum.y);
  auto* const norm = j ? list.at<BatchNormBackward>(*j) : nullptr;
  if (!norm || norm->dy_added.defined() || norm->activation != Activation::relu ||
      !norm->y.defined() || !norm->dresidual.defined() || norm->dy.storage != sum.y.storage) {
    return false;
  }
  for (const TensorView& part : {sum.a, sum.b}) {
    if (part.numel() != norm->dy.numel() || part.storage == norm->dresidual.storage ||
        part.storage == norm->dx.storage || !list.unwritten_between(i, *j, part)) {
      return false;
    }
  }
  norm->dy_added = CallList::reshaped(sum.b, norm->dy.shape);
  norm->dy = CallList::reshaped(sum.a, norm->dy.shape);
  list.erase(i);
  return true;
}

}  // namespace

bool fuse_norm(CallList& list, size_t i) {
  if (list.at<Binary>(i)) return gradient_sum_and_norm(list, i);
  if (list.at<BatchNormForward>(i)) return relu_behind_norm(list, i) || sum_behind_norm(list, i);
  if (list.at<UnaryBackward>(i)) return relu_gradient_and_norm(list, i);
  return false;
}

}  // namespace adret
