// Tensors padded, flipped, rolled and repeated.
#include <adret/autograd/node.h>
#include <adret/autograd/ops/check.h>
#include <adret/autograd/ops/pad.h>
#include <adret/autograd/ops/reduce.h>
#include <adret/autograd/ops/shape.h>
#include <adret/core/holds.h>
#include <adret/core/kernels/kernel.h>
#include <adret/core/kernels/remap_plan.h>
#include <fmt/core.h>

#include <algorithm>

namespace adret {
namespace {

using namespace kernels;

// Where elements come from, and the function that asked.
struct Way {
  const char* function;
  RemapParams params;
};

Way straight(const char* function, const Tensor& x, PadMode mode = PadMode::constant) {
  Way way{function, {.mode = mode}};
  for (int d = 0; d < x.rank(); ++d) way.params.step[size_t(d)] = 1;
  return way;
}

// x's elements in a tensor of another shape; the gradient of that; and its gradient, which is the
// first without the constant.
Tensor moved(const Tensor& x, const Shape& shape, const Way& way);
Tensor moved_back(const Tensor& dy, const Tensor& dx, const Way& way);

struct MovedBackward final : Node {
  explicit MovedBackward(const Way& way) : way(way) {}
  const char* name() const override { return way.function; }
  std::vector<Tensor> backward(const std::vector<Tensor>& grads) override {
    return {moved_back(grads[0], grad_buffer(0), way)};
  }
  Way way;
};

struct MovedBackBackward final : Node {
  MovedBackBackward(const Shape& shape, const Way& way) : shape(shape), way(way) {
    this->way.params.value = 0;
  }
  const char* name() const override { return way.function; }
  std::vector<Tensor> backward(const std::vector<Tensor>& grads) override {
    return {moved(grads[0], shape, way)};
  }
  Shape shape;
  Way way;
};

Tensor moved(const Tensor& x, const Shape& shape, const Way& way) {
  Tensor y = empty_like(x, shape);
  run(Remap{.x = x, .y = y, .remap = way.params});
  record<MovedBackward>({y}, {x}, way);
  return y;
}

Tensor moved_back(const Tensor& dy, const Tensor& dx, const Way& way) {
  if (const auto back = inverse(way.params, dx.shape(), dy.shape())) {
    run(Remap{.x = dy, .y = dx, .remap = *back});
  } else {
    run(RemapBackward{.dy = dy, .dx = dx, .remap = way.params});
  }
  record<MovedBackBackward>({dx}, {dy}, dy.shape(), way);
  return dx;
}

// x's elements several times along each dimension; backward their sums, a dimension at a time.
struct RepeatBackward final : Node {
  explicit RepeatBackward(const Shape& from) : from(from) {}
  const char* name() const override { return "repeat"; }
  std::vector<Tensor> backward(const std::vector<Tensor>& grads) override {
    Tensor dx = grads[0];
    for (int d = 0; d < from.rank(); ++d) {
      if (dx.size(d) == from[d]) continue;
      int64_t outer = 1;
      for (int e = 0; e < d; ++e) outer *= from[e];
      const Shape single = dx.shape().with(d, from[d]);
      const int64_t count = from[d] ? dx.size(d) / from[d] : 0;
      const int64_t rest = outer ? single.numel() / outer : 0;
      dx = sum(dx.reshape({outer, count, rest}), {.dims = {1}}).reshape(single);
    }
    return {dx};
  }
  Shape from;
};

// The dimensions from the front, each once.
std::vector<int> resolved(const char* function, const Tensor& x, const std::vector<int>& dims) {
  std::vector<int> result;
  for (const int dim : dims) {
    result.push_back(x.shape().resolve_dim(function, dim));
    if (std::ranges::count(result, result.back()) > 1) {
      check::refuse(function, fmt::format("dimension {} of x {} is named twice", result.back(),
                                          to_string(x.shape())));
    }
  }
  return result;
}

void check_padding(const Tensor& x, int dim, const Padding& padding, PadMode mode) {
  const int64_t size = x.size(dim), most = std::max(padding.before, padding.after);
  const auto refuse = [&](const std::string& why) {
    check::refuse("pad",
                  fmt::format("padding {{{}, {}}} of dimension {} of x {}: {}", padding.before,
                              padding.after, dim, to_string(x.shape()), why));
  };
  for (const int64_t side : {padding.before, padding.after}) {
    if (side < -size) refuse("it would cut more elements than there are");
    if (side > Shape::max_numel) refuse("a tensor cannot have as many elements");
  }
  if (size + padding.before + padding.after < 0) refuse("it would have less than no elements");
  if (mode == PadMode::reflect && most > 0 && most >= size) {
    refuse("reflect adds fewer elements than there are");
  }
  if (mode != PadMode::constant && most > 0 && size == 0) refuse("there is nothing to repeat");
}

}  // namespace

Tensor pad(const Tensor& x, const std::vector<Padding>& paddings, const PadOptions& options) {
  const FunctionScope scope("pad");
  if (paddings.size() != size_t(x.rank())) {
    check::refuse("pad", fmt::format("{} paddings for x {}, wanted one for each dimension",
                                     paddings.size(), to_string(x.shape())));
  }
  Way way = straight("pad", x, options.mode);
  if (options.mode == PadMode::constant) {
    check_holds("pad", options.value, x.dtype());
    way.params.value = options.value;
  }
  Shape shape = x.shape();
  for (int d = 0; d < x.rank(); ++d) {
    const Padding& padding = paddings[size_t(d)];
    check_padding(x, d, padding, options.mode);
    shape = shape.with(d, x.size(d) + padding.before + padding.after);
    way.params.start[size_t(d)] = -padding.before;
  }
  return moved(x, shape, way);
}

Tensor flip(const Tensor& x, const std::vector<int>& dims) {
  const FunctionScope scope("flip");
  Way way = straight("flip", x);
  for (const int dim : resolved("flip", x, dims)) {
    way.params.start[size_t(dim)] = x.size(dim) - 1;
    way.params.step[size_t(dim)] = -1;
  }
  return moved(x, x.shape(), way);
}

Tensor roll(const Tensor& x, const std::vector<int64_t>& shifts, const std::vector<int>& dims) {
  const FunctionScope scope("roll");
  if (shifts.size() != dims.size()) {
    check::refuse("roll", fmt::format("{} shifts for {} dimensions", shifts.size(), dims.size()));
  }
  Way way = straight("roll", x, PadMode::circular);
  const std::vector<int> along = resolved("roll", x, dims);
  for (size_t i = 0; i < along.size(); ++i) {
    const int64_t size = std::max<int64_t>(1, x.size(along[i]));
    way.params.start[size_t(along[i])] = -(shifts[i] % size);
  }
  return moved(x, x.shape(), way);
}

Tensor repeat(const Tensor& x, const std::vector<int64_t>& counts) {
  const FunctionScope scope("repeat");
  const int added = int(counts.size()) - x.rank();
  if (added < 0) {
    check::refuse("repeat", fmt::format("{} counts for x {}, wanted one for each dimension",
                                        counts.size(), to_string(x.shape())));
  }
  Shape from = x.shape();
  for (int d = 0; d < added; ++d) from = from.inserted(0, 1);
  Shape to = from;
  for (int d = 0; d < to.rank(); ++d) {
    const int64_t count = counts[size_t(d)];
    if (count < 0) check::refuse("repeat", fmt::format("count {} is below 0", count));
    if (count > Shape::max_numel / std::max<int64_t>(1, from[d])) {
      check::refuse("repeat", fmt::format("count {} is more than a tensor has elements", count));
    }
    to = to.with(d, from[d] * count);
  }
  const Tensor of_rank = added ? x.reshape(from) : x;
  const Way way = straight("repeat", of_rank, PadMode::circular);
  Tensor y = empty_like(of_rank, to);
  run(Remap{.x = of_rank, .y = y, .remap = way.params});
  record<RepeatBackward>({y}, {of_rank}, from);
  return y;
}

Tensor repeat_interleave(const Tensor& x, int64_t count, int dim) {
  const FunctionScope scope("repeat_interleave");
  const int along = x.shape().resolve_dim("repeat_interleave", dim);
  if (count < 0) check::refuse("repeat_interleave", fmt::format("count {} is below 0", count));
  int64_t outer = 1;
  for (int d = 0; d < along; ++d) outer *= x.size(d);
  const int64_t inner = x.numel() / std::max<int64_t>(1, outer * x.size(along));
  const Tensor places = x.reshape({outer, x.size(along), 1, inner});
  return broadcast_to(places, {outer, x.size(along), count, inner})
      .reshape(x.shape().with(along, x.size(along) * count));
}

}  // namespace adret
