// Images that are flattened in the order of channels, rows and columns for a linear layer.
#include <adret/core/replay/fuse.h>

#include <algorithm>
#include <initializer_list>
#include <optional>
#include <vector>

namespace adret {
namespace {

using namespace kernels;

// Note [Flattened images]
//   permute (N, H, W, C) -> (N, C, H, W); linear; ...; gradients of linear; permute back
// becomes a linear layer that takes the images as they are, with the columns of its weight in their
// order. Weight and gradient are turned instead, beside the other calls, and only where they are
// not much larger than the images.
constexpr int64_t most_weights = 4;  // for an element of the images

bool turns(const Permute& call, std::initializer_list<int> order) {
  if (call.x.shape.rank() != int(order.size())) return false;
  int i = 0;
  for (const int dim : order) {
    if (call.order[size_t(i++)] != dim) return false;
  }
  return true;
}

struct Parts {
  size_t forward = 0, input = 0, weight = 0, back = 0;
};

// What belongs to the permutation at `i`.
std::optional<Parts> find_parts(CallList& list, size_t i) {
  const Permute permute = *list.at<Permute>(i);
  if (!turns(permute, {0, 3, 1, 2}) || !list.is_temporary(permute.y)) return {};
  const std::vector<size_t> users = list.touching_after(i, permute.y);
  if (users.size() != 2) return {};
  Parts parts{.forward = users[0], .weight = users[1]};
  const auto* const forward = list.at<LinearForward>(parts.forward);
  const auto* const weight = list.at<LinearBackwardWeight>(parts.weight);
  if (!forward || !weight || !weight->dweight.defined()) return {};
  for (size_t j = parts.forward + 1; j < list.size(); ++j) {
    const auto* const input = list.at<LinearBackwardInput>(j);
    if (!input || !CallList::same(input->weight, forward->weight)) continue;
    const auto back = list.follower<Permute>(j, input->dx, &Permute::y);
    if (!back || !turns(*list.at<Permute>(*back), {0, 2, 3, 1}) ||
        input->activation != Activation::none || weight->dy.storage != input->dy.storage ||
        !list.unwritten_between(parts.forward, j, forward->weight) ||
        !list.unwritten_between(i, parts.weight, permute.x)) {
      return {};
    }
    parts.input = j;
    parts.back = *back;
    return parts;
  }
  return {};
}

// The place behind the last call before `i` that writes `view`.
size_t earliest(const CallList& list, size_t i, const TensorView& view) {
  while (i > 0 && !list.writes(i - 1, view)) --i;
  return i;
}

}  // namespace

bool fuse_flatten(CallList& list, size_t i) {
  if (!list.at<Permute>(i)) return false;
  const std::optional<Parts> parts = find_parts(list, i);
  if (!parts) return false;
  const Permute permute = *list.at<Permute>(i), back = *list.at<Permute>(parts->back);
  auto& forward = *list.at<LinearForward>(parts->forward);
  auto& input = *list.at<LinearBackwardInput>(parts->input);
  auto& weight = *list.at<LinearBackwardWeight>(parts->weight);
  const TensorView w = forward.weight, dw = weight.dweight;
  if (w.numel() > most_weights * permute.x.numel()) return false;

  const Shape& x = permute.x.shape;
  const Shape planes{w.shape[0], x[3], x[1], x[2]}, pixels{w.shape[0], x[1], x[2], x[3]};
  const TensorView turned = list.make_temporary(w.shape, w.dtype);
  const TensorView turned_gradient = list.make_temporary(dw.shape, dw.dtype);
  Permute turn{.x = CallList::reshaped(w, planes), .y = CallList::reshaped(turned, pixels)};
  turn.order = back.order;
  Permute turn_back{.x = CallList::reshaped(turned_gradient, pixels),
                    .y = CallList::reshaped(dw, planes)};
  turn_back.order = permute.order;
  const TensorView flat = CallList::reshaped(permute.x, forward.x.shape);
  forward.x = weight.x = flat;
  forward.weight = input.weight = turned;
  input.dx = CallList::reshaped(back.y, input.dx.shape);
  weight.dweight = turned_gradient;

  const std::string place = list.place(parts->weight);
  // From the end on, so that the numbers stay right.
  const size_t behind = std::max(parts->weight, parts->back) + 1;
  list.insert(behind, {turn_back, place, true});
  list.erase(parts->back);
  list.erase(i);
  list.insert(earliest(list, i, w), {turn, place, true});
  return true;
}

}  // namespace adret
