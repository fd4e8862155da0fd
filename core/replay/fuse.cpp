// Finds pairs of calls, and replaces them.
#include <adret/core/kernels/fields.h>
#include <adret/core/replay/fuse.h>

#include <algorithm>
#include <optional>
#include <unordered_set>

namespace adret {
namespace {

using namespace kernels;

bool touches(const std::vector<Operand>& operands, const TensorView& view) {
  return view.defined() && std::ranges::any_of(operands, [&](const Operand& operand) {
           return operand.view.storage == view.storage;
         });
}

bool same(const TensorView& a, const TensorView& b) {
  return a.storage == b.storage && a.data == b.data && a.shape == b.shape && a.dtype == b.dtype;
}

class Fusion {
 public:
  explicit Fusion(const Recording& recording) {
    for (size_t i = 0; i < recording.calls.size(); ++i) {
      list_.push_back({recording.calls[i].call(), recording.places[i]});
    }
    for (const auto& placeholder : recording.placeholders) temporary_.insert(placeholder.get());
    for (const TensorView& output : recording.outputs) temporary_.erase(output.storage);
  }

  std::vector<ListedCall> run() && {
    // Again, as a fused call may be one of another pair.
    while (fuse_some()) {
    }
    return std::move(list_);
  }

 private:
  template <class K>
  K* at(size_t i) {
    return std::get_if<K>(&static_cast<AnyKernel&>(list_[i].call));
  }
  void erase(size_t i) { list_.erase(list_.begin() + std::ptrdiff_t(i)); }

  // The one call that reads what call `i` leaves in `view`, which it may do in place; none if that
  // is read elsewhere.
  std::optional<size_t> only_reader(size_t i, const TensorView& view) const {
    if (!view.defined() || !temporary_.contains(view.storage)) return {};
    std::optional<size_t> reader;
    for (size_t j = i + 1; j < list_.size(); ++j) {
      const bool reads = touches(inputs(list_[j].call), view);
      const bool writes = touches(outputs(list_[j].call), view);
      if (!reads && !writes) continue;
      if (reader || !reads) return {};
      if (writes) return j;
      reader = j;
    }
    return reader;
  }
  // Whether no call between `i` and `j` has to do with `view`: writes it, or for `also_reads`,
  // reads it.
  bool is_idle(size_t i, size_t j, const TensorView& view, bool also_reads) const {
    for (size_t k = i + 1; k < j; ++k) {
      if (touches(outputs(list_[k].call), view)) return false;
      if (also_reads && touches(inputs(list_[k].call), view)) return false;
    }
    return true;
  }
  // Call `j` of type K, if it alone reads `from`, which call `i` writes, and its result may be
  // there as early as call `i`.
  template <class K>
  std::optional<size_t> follower(size_t i, const TensorView& from, TensorView K::*result) {
    const std::optional<size_t> j = only_reader(i, from);
    if (!j || !at<K>(*j) || !is_idle(i, *j, at<K>(*j)->*result, true)) return {};
    return j;
  }

  bool fuse_some() {
    bool fused = false;
    for (size_t i = 0; i < list_.size(); ++i) fused = fuse_at(i) || fused;
    return fused;
  }
  bool fuse_at(size_t i) {
    if (auto* call = at<LinearForward>(i)) return relu_behind(i, call->y, call->activation);
    if (auto* call = at<Conv2dForward>(i)) return relu_behind(i, call->y, call->activation);
    if (at<MaxPool2dForward>(i)) return pool_and_relu(i);
    if (at<Unary>(i)) return relu_and_dropout(i);
    if (at<LinearBackwardInput>(i)) return gradient_and_activation(i);
    if (at<UnaryBackward>(i)) return relu_gradient_and_pool(i);
    if (auto* call = at<MaxPool2dBackward>(i)) {
      return relu_behind_gradient(i, pooling_of(call->position), call->dx);
    }
    if (auto* call = at<DropoutBackward>(i)) {
      return relu_behind_gradient(i, dropout_of(call->mask), call->dx);
    }
    if (at<CrossEntropyForward>(i)) return loss_and_gradient(i);
    return false;
  }

  // Linear and convolution: y = relu(product).
  bool relu_behind(size_t i, TensorView& y, Activation& activation) {
    if (activation != Activation::none) return false;
    const auto j = follower<Unary>(i, y, &Unary::y);
    if (!j || at<Unary>(*j)->op != UnaryOp::relu) return false;
    activation = Activation::relu;
    y = at<Unary>(*j)->y;
    erase(*j);
    return true;
  }

  static bool can_mark_zeros(const MaxPool2dForward& call) {
    return !call.position.defined() || call.position.dtype != DType::u8 ||
           call.pool.kernel.area() < 256;
  }
  bool pool_and_relu(size_t i) {
    return can_mark_zeros(*at<MaxPool2dForward>(i)) &&
           relu_behind(i, at<MaxPool2dForward>(i)->y, at<MaxPool2dForward>(i)->activation);
  }

  // Of a dropout that ends in the mask's zeros where relu has its own.
  bool relu_and_dropout(size_t i) {
    const Unary unary = *at<Unary>(i);
    const auto j = follower<DropoutForward>(i, unary.y, &DropoutForward::y);
    if (unary.op != UnaryOp::relu || !j || at<DropoutForward>(*j)->activation != Activation::relu ||
        !is_idle(i, *j, unary.x, false)) {
      return false;
    }
    at<DropoutForward>(*j)->x = unary.x;
    erase(i);
    return true;
  }

  bool gradient_and_activation(size_t i) {
    auto& call = *at<LinearBackwardInput>(i);
    if (call.activation != Activation::none) return false;
    const auto j = follower<UnaryBackward>(i, call.dx, &UnaryBackward::dx);
    if (!j) return false;
    const UnaryBackward unary = *at<UnaryBackward>(*j);
    const bool known = unary.op == UnaryOp::relu || unary.op == UnaryOp::gelu;
    if (!known || unary.saved.storage == call.dx.storage || !is_idle(i, *j, unary.saved, false) ||
        !same_size(unary.saved, call.dx)) {
      return false;
    }
    call.activation = unary.op == UnaryOp::relu ? Activation::relu : Activation::gelu;
    call.saved = reshaped(unary.saved, call.dx.shape);
    call.dx = reshaped(unary.dx, call.dx.shape);
    erase(*j);
    return true;
  }
  static bool same_size(const TensorView& a, const TensorView& b) {
    return a.numel() == b.numel() && a.dtype == b.dtype;
  }
  static TensorView reshaped(TensorView view, const Shape& shape) {
    view.shape = shape;
    return view;
  }

  // dy of relu, then pooling whose positions know relu's zeros: y of both is what relu saved.
  bool relu_gradient_and_pool(size_t i) {
    const UnaryBackward unary = *at<UnaryBackward>(i);
    const auto j = only_reader(i, unary.dx);
    auto* const pool = j ? at<MaxPool2dBackward>(*j) : nullptr;
    if (unary.op != UnaryOp::relu || !pool) return false;
    const MaxPool2dForward* const forward = pooling_of(pool->position);
    if (!forward || forward->activation != Activation::relu || !same(forward->y, unary.saved) ||
        !is_idle(i, *j, unary.dy, false)) {
      return false;
    }
    pool->dy = reshaped(unary.dy, pool->dy.shape);
    erase(i);
    return true;
  }

  MaxPool2dForward* pooling_of(const TensorView& position) {
    return maker<MaxPool2dForward>(&MaxPool2dForward::position, position);
  }
  DropoutForward* dropout_of(const TensorView& mask) {
    return maker<DropoutForward>(&DropoutForward::mask, mask);
  }
  template <class K>
  K* maker(TensorView K::*result, const TensorView& view) {
    for (size_t i = 0; i < list_.size(); ++i) {
      if (K* const call = at<K>(i); call && same(call->*result, view)) return call;
    }
    return nullptr;
  }

  // Gradient of what had relu's result as x: it is zero where relu's is, once `forward` says so.
  template <class K>
  bool relu_behind_gradient(size_t i, K* forward, TensorView& dx) {
    const auto j = follower<UnaryBackward>(i, dx, &UnaryBackward::dx);
    if (!forward || !j) return false;
    const UnaryBackward unary = *at<UnaryBackward>(*j);
    if (unary.op != UnaryOp::relu || !same(unary.saved, forward->x)) return false;
    if constexpr (std::is_same_v<K, MaxPool2dForward>) {
      if (!can_mark_zeros(*forward)) return false;
    }
    forward->activation = Activation::relu;
    dx = reshaped(unary.dx, dx.shape);
    erase(*j);
    return true;
  }

  bool loss_and_gradient(size_t i) {
    auto& forward = *at<CrossEntropyForward>(i);
    if (forward.dlogits.defined()) return false;
    for (size_t j = i + 1; j < list_.size(); ++j) {
      const auto* const backward = at<CrossEntropyBackward>(j);
      if (!backward || !same(backward->log_sum_exp, forward.log_sum_exp)) continue;
      if (!same(backward->logits, forward.logits) || !same(backward->labels, forward.labels) ||
          !(backward->loss_params == forward.loss_params) ||
          !is_idle(i, j, forward.logits, false) || !is_idle(i, j, forward.labels, false) ||
          !is_idle(i, j, backward->dlogits, true)) {
        return false;
      }
      return take_gradient(i, j);
    }
    return false;
  }
  // Its dloss must be there in time: from before, or from a fill that can be made earlier.
  bool take_gradient(size_t i, size_t j) {
    const CrossEntropyBackward backward = *at<CrossEntropyBackward>(j);
    std::optional<size_t> fill;
    for (size_t k = i + 1; k < j; ++k) {
      if (!touches(outputs(list_[k].call), backward.dloss)) continue;
      if (fill || !at<Fill>(k) || !temporary_.contains(backward.dloss.storage)) return false;
      fill = k;
    }
    auto& forward = *at<CrossEntropyForward>(i);
    forward.dloss = backward.dloss;
    forward.dlogits = backward.dlogits;
    erase(j);
    if (fill)
      std::rotate(list_.begin() + std::ptrdiff_t(i), list_.begin() + std::ptrdiff_t(*fill),
                  list_.begin() + std::ptrdiff_t(*fill) + 1);
    return true;
  }

  std::vector<ListedCall> list_;
  std::unordered_set<const Storage*> temporary_;
};

}  // namespace

std::vector<ListedCall> fuse(const Recording& recording) { return Fusion(recording).run(); }

}  // namespace adret
