// Activations and their gradients, with the products, poolings and dropouts beside them.
#include <adret/core/replay/fuse.h>

#include <algorithm>
#include <array>
#include <optional>
#include <type_traits>

namespace adret {
namespace {

using namespace kernels;

// y = relu(what `activation` is of).
bool relu_behind(CallList& list, size_t i, TensorView& y, Activation& activation) {
  if (activation != Activation::none) return false;
  const auto j = list.follower<Unary>(i, y, &Unary::y);
  if (!j || list.at<Unary>(*j)->op != UnaryOp::relu) return false;
  activation = Activation::relu;
  y = list.at<Unary>(*j)->y;
  list.erase(*j);
  return true;
}

bool can_mark_zeros(const MaxPool2dForward& call) {
  return !call.position.defined() || call.position.dtype != DType::u8 ||
         call.pool.kernel.area() < 256;
}

// Of a dropout whose mask has relu's zeros.
bool relu_and_dropout(CallList& list, size_t i) {
  const Unary unary = *list.at<Unary>(i);
  const auto j = list.follower<DropoutForward>(i, unary.y, &DropoutForward::y);
  if (unary.op != UnaryOp::relu || !j ||
      list.at<DropoutForward>(*j)->activation != Activation::relu ||
      !list.unwritten_between(i, *j, unary.x)) {
    return false;
  }
  list.at<DropoutForward>(*j)->x = unary.x;
  list.erase(i);
  return true;
}

constexpr std::array differentiated{Activation::relu, Activation::gelu, Activation::gelu_tanh};

// dx of a linear layer, then the gradient of what gave its x.
bool gradient_and_activation(CallList& list, size_t i) {
  auto& call = *list.at<LinearBackwardInput>(i);
  if (call.activation != Activation::none) return false;
  const auto j = list.follower<UnaryBackward>(i, call.dx, &UnaryBackward::dx);
  if (!j) return false;
  const UnaryBackward unary = *list.at<UnaryBackward>(*j);
  const auto activation =
      std::ranges::find(differentiated, unary.op, [](Activation known) { return unary_of(known); });
  if (activation == differentiated.end() || unary.saved.storage == call.dx.storage ||
      !list.unwritten_between(i, *j, unary.saved) || unary.saved.numel() != call.dx.numel()) {
    return false;
  }
  call.activation = *activation;
  call.saved = CallList::reshaped(unary.saved, call.dx.shape);
  call.dx = CallList::reshaped(unary.dx, call.dx.shape);
  list.erase(*j);
  return true;
}

// The gradient of relu, then of pooling whose positions know relu's zeros.
bool relu_gradient_and_pool(CallList& list, size_t i) {
  const UnaryBackward unary = *list.at<UnaryBackward>(i);
  const auto j = list.only_reader(i, unary.dx);
  auto* const pool = j ? list.at<MaxPool2dBackward>(*j) : nullptr;
  if (unary.op != UnaryOp::relu || !pool) return false;
  const auto* const forward = list.maker(&MaxPool2dForward::position, pool->position);
  if (!forward || forward->activation != Activation::relu ||
      !CallList::same(forward->y, unary.saved) || !list.unwritten_between(i, *j, unary.dy)) {
    return false;
  }
  pool->dy = CallList::reshaped(unary.dy, pool->dy.shape);
  list.erase(i);
  return true;
}

// The gradient of what had relu's result as x: zero where relu's is, once `forward` says so.
template <class K>
bool relu_behind_gradient(CallList& list, size_t i, K* forward, TensorView& dx) {
  const auto j = list.follower<UnaryBackward>(i, dx, &UnaryBackward::dx);
  if (!forward || !j) return false;
  const UnaryBackward unary = *list.at<UnaryBackward>(*j);
  if (unary.op != UnaryOp::relu || !CallList::same(unary.saved, forward->x)) return false;
  if constexpr (std::is_same_v<K, MaxPool2dForward>) {
    if (!can_mark_zeros(*forward)) return false;
  }
  forward->activation = Activation::relu;
  dx = CallList::reshaped(unary.dx, dx.shape);
  list.erase(*j);
  return true;
}

}  // namespace

bool fuse_activation(CallList& list, size_t i) {
  if (auto* call = list.at<LinearForward>(i)) {
    return relu_behind(list, i, call->y, call->activation);
  }
  if (auto* call = list.at<Conv2dForward>(i)) {
    return relu_behind(list, i, call->y, call->activation);
  }
  if (auto* call = list.at<MaxPool2dForward>(i)) {
    return can_mark_zeros(*call) && relu_behind(list, i, call->y, call->activation);
  }
  if (list.at<Unary>(i)) return relu_and_dropout(list, i);
  if (list.at<LinearBackwardInput>(i)) return gradient_and_activation(list, i);
  if (list.at<UnaryBackward>(i)) return relu_gradient_and_pool(list, i);
  if (auto* call = list.at<MaxPool2dBackward>(i)) {
    return relu_behind_gradient(list, i, list.maker(&MaxPool2dForward::position, call->position),
                                call->dx);
  }
  if (auto* call = list.at<DropoutBackward>(i)) {
    return relu_behind_gradient(list, i, list.maker(&DropoutForward::mask, call->mask), call->dx);
  }
  return false;
}

}  // namespace adret
