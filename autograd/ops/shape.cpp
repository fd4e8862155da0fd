// Functions that rearrange elements.
#include <adret/autograd/node.h>
#include <adret/autograd/ops/check.h>
#include <adret/autograd/ops/reduce.h>
#include <adret/autograd/ops/shape.h>
#include <adret/core/kernels/kernel.h>
#include <fmt/core.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <numeric>

namespace adret {
namespace {

using namespace kernels;

// -- reshape ----------------------------------------------------------------------

struct ReshapeBackward final : Node {
  explicit ReshapeBackward(const Shape& shape) : shape(shape) {}
  const char* name() const override { return "reshape"; }
  std::vector<Tensor> backward(const std::vector<Tensor>& grads) override {
    return {grads[0].reshape(shape)};
  }
  Shape shape;
};

int64_t product(std::span<const int64_t> sizes) {
  return std::accumulate(sizes.begin(), sizes.end(), int64_t(1), std::multiplies<>());
}

// `sizes` with -1 worked out.
Shape complete(const Tensor& x, std::span<const int64_t> sizes) {
  const auto text = [&] { return fmt::format("({})", fmt::join(sizes, ", ")); };
  if (std::ranges::count(sizes, -1) > 1) {
    check::refuse("reshape", "sizes " + text() + " hold -1 twice; only one can be worked out");
  }
  std::vector<int64_t> filled(sizes.begin(), sizes.end());
  if (const auto unknown = std::ranges::find(filled, -1); unknown != filled.end()) {
    *unknown = 1;
    const int64_t known = product(filled);
    if (known == 0) {
      check::refuse("reshape", "-1 in sizes " + text() +
                                   " could be anything: the others have no elements; write it out");
    }
    *unknown = x.numel() / known;
  }
  const Shape shape{std::span<const int64_t>(filled)};
  if (shape.numel() != x.numel()) {
    check::refuse("reshape", fmt::format("x {} has {} elements, which do not fill {}",
                                         to_string(x.shape()), x.numel(), text()));
  }
  return shape;
}

}  // namespace

Tensor Tensor::reshape(const Shape& shape) const {
  const FunctionScope scope("reshape");
  if (shape.numel() != numel()) complete(*this, shape.span());  // says why not
  Tensor y = alias(shape);
  record<ReshapeBackward>({y}, {*this}, this->shape());
  return y;
}

Tensor Tensor::reshape(std::initializer_list<int64_t> sizes) const {
  const FunctionScope scope("reshape");
  return reshape(complete(*this, {sizes.begin(), sizes.size()}));
}

Tensor reshape(const Tensor& x, std::span<const int64_t> sizes) {
  const FunctionScope scope("reshape");
  return x.reshape(complete(x, sizes));
}

Tensor flatten(const Tensor& x) {
  const FunctionScope scope("flatten");
  if (x.rank() == 0) check::refuse("flatten", "x is a scalar, wanted (N, ...)");
  const Shape flat = {x.size(0), x.rank() == 1 ? 1 : x.shape().without(0).numel()};
  // One channel or one pixel: C, H, W order is the order they are in.
  const bool has_channels = x.rank() == 4 || x.rank() == 5;
  if (!has_channels || x.size(-1) == 1 || flat[1] == x.size(-1)) return x.reshape(flat);
  return (x.rank() == 4 ? permute(x, {0, 3, 1, 2}) : permute(x, {0, 4, 1, 2, 3})).reshape(flat);
}

// -- permute ----------------------------------------------------------------------

namespace {

struct PermuteBackward final : Node {
  explicit PermuteBackward(const std::vector<int>& order) : inverse(order.size()) {
    for (size_t i = 0; i < order.size(); ++i) inverse[size_t(order[i])] = int(i);
  }
  const char* name() const override { return "permute"; }
  std::vector<Tensor> backward(const std::vector<Tensor>& grads) override {
    return {permute(grads[0], inverse)};
  }
  std::vector<int> inverse;
};

}  // namespace

Tensor permute(const Tensor& x, const std::vector<int>& order) {
  const FunctionScope scope("permute");
  std::vector<int> resolved;
  uint32_t seen = 0;
  Permute call{.x = x};
  Shape shape = x.shape();
  for (size_t i = 0; i < order.size() && i < size_t(x.rank()); ++i) {
    resolved.push_back(x.shape().resolve_dim("permute", order[i]));
    seen |= 1u << resolved[i];
    call.order[i] = resolved[i];
    shape = shape.with(int(i), x.size(resolved[i]));
  }
  if (order.size() != size_t(x.rank()) || seen != (1u << x.rank()) - 1) {
    check::refuse("permute", fmt::format("order ({}) does not name every dimension of x {} once",
                                         fmt::join(order, ", "), to_string(x.shape())));
  }
  Tensor y = empty_like(x, shape);
  call.y = y;
  run(call);
  record<PermuteBackward>({y}, {x}, resolved);
  return y;
}

Tensor transpose(const Tensor& x, int dim0, int dim1) {
  const FunctionScope scope("transpose");
  std::vector<int> order(size_t(x.rank()));
  std::iota(order.begin(), order.end(), 0);
  std::swap(order[size_t(x.shape().resolve_dim("transpose", dim0))],
            order[size_t(x.shape().resolve_dim("transpose", dim1))]);
  return permute(x, order);
}

// -- slice and concatenate -----------------------------------------------------------

namespace {

// The elements begin..end-1 of a dimension (0..rank-1).
struct Range {
  int dim;
  int64_t begin, end;
};

// A range of a tensor's dimension is `count` runs of consecutive elements.
struct Runs {
  int64_t count, length, offset, stride;
  Runs(const Shape& shape, const Range& range) {
    const std::span<const int64_t> sizes = shape.span();
    const int64_t inner = product(sizes.subspan(size_t(range.dim) + 1));
    count = product(sizes.first(size_t(range.dim)));
    length = (range.end - range.begin) * inner;
    offset = range.begin * inner;
    stride = shape[range.dim] * inner;
  }
};

// Copies x into `range` of y.
void copy_into(const Tensor& y, const Tensor& x, const Range& range) {
  const Runs to(y.shape(), range);
  run(CopyRuns{.x = x,
               .y = y,
               .count = to.count,
               .length = to.length,
               .x_stride = to.length,
               .y_offset = to.offset,
               .y_stride = to.stride});
}

Tensor slice_range(const Tensor& x, const Range& range);

struct SliceSecondBackward final : Node {
  explicit SliceSecondBackward(const Range& range) : range(range) {}
  const char* name() const override { return "slice_backward"; }
  std::vector<Tensor> backward(const std::vector<Tensor>& grads) override {
    return {slice_range(grads[0], range)};
  }
  Range range;
};

// dy at `range`, zeros elsewhere; dx is the memory to write.
Tensor slice_backward(const Tensor& dy, const Range& range, const Tensor& dx) {
  if (dy.numel() != dx.numel()) run(Fill{.y = dx, .value = 0});
  copy_into(dx, dy, range);
  record<SliceSecondBackward>({dx}, {dy}, range);
  return dx;
}

struct SliceBackward final : Node {
  explicit SliceBackward(const Range& range) : range(range) {}
  const char* name() const override { return "slice"; }
  std::vector<Tensor> backward(const std::vector<Tensor>& grads) override {
    return {slice_backward(grads[0], range, grad_buffer(0))};
  }
  Range range;
};

Tensor slice_range(const Tensor& x, const Range& range) {
  const Runs from(x.shape(), range);
  const Shape shape = x.shape().with(range.dim, range.end - range.begin);
  Tensor y;
  if (range.dim == 0) {
    y = x.alias(shape, size_t(from.offset) * size_of(x.dtype()));
  } else {
    y = empty_like(x, shape);
    run(CopyRuns{.x = x,
                 .y = y,
                 .count = from.count,
                 .length = from.length,
                 .x_offset = from.offset,
                 .x_stride = from.stride,
                 .y_stride = from.length});
  }
  record<SliceBackward>({y}, {x}, range);
  return y;
}

struct ConcatenateBackward final : Node {
  ConcatenateBackward(const std::vector<Tensor>& tensors, int dim) : dim(dim) {
    for (const Tensor& tensor : tensors) sizes.push_back(tensor.size(dim));
  }
  const char* name() const override { return "concatenate"; }
  std::vector<Tensor> backward(const std::vector<Tensor>& grads) override {
    std::vector<Tensor> result(sizes.size());
    int64_t begin = 0;
    for (size_t i = 0; i < sizes.size(); begin += sizes[i++]) {
      if (needs_gradient(i)) result[i] = slice_range(grads[0], {dim, begin, begin + sizes[i]});
    }
    return result;
  }
  int dim;
  std::vector<int64_t> sizes;
};

}  // namespace

Tensor slice(const Tensor& x, int dim, int64_t begin, int64_t end) {
  const FunctionScope scope("slice");
  const int resolved = x.shape().resolve_dim("slice", dim);
  const int64_t size = x.size(resolved);
  const Range range{resolved, begin < 0 ? begin + size : begin, end < 0 ? end + size : end};
  if (range.begin < 0 || range.end > size || range.begin > range.end) {
    check::refuse("slice", fmt::format("elements {}..{} of dimension {} do not lie in x {}", begin,
                                       end, dim, to_string(x.shape())));
  }
  return slice_range(x, range);
}

Tensor concatenate(const std::vector<Tensor>& tensors, int dim) {
  const FunctionScope scope("concatenate");
  if (tensors.empty()) check::refuse("concatenate", "no tensors were given, wanted at least one");
  const Tensor& first = tensors[0];
  const int resolved = first.shape().resolve_dim("concatenate", dim);
  int64_t total = 0;
  for (const Tensor& tensor : tensors) {
    check::alike("concatenate", {"the first tensor", first}, {"another", tensor});
    if (tensor.rank() != first.rank() ||
        tensor.shape().with(resolved, 0) != first.shape().with(resolved, 0)) {
      check::refuse("concatenate",
                    fmt::format("{} and {} differ outside dimension {}", to_string(first.shape()),
                                to_string(tensor.shape()), dim));
    }
    total += tensor.size(resolved);
  }
  Tensor y = empty_like(first, first.shape().with(resolved, total));
  int64_t begin = 0;
  for (const Tensor& tensor : tensors) {
    const int64_t end = begin + tensor.size(resolved);
    copy_into(y, tensor, {resolved, begin, end});
    begin = end;
  }
  record<ConcatenateBackward>(std::span(&y, 1), tensors, tensors, resolved);
  return y;
}

// -- split and stack ---------------------------------------------------------------

namespace {

struct SplitBackward final : Node {
  explicit SplitBackward(int dim) : dim(dim) {}
  const char* name() const override { return "split"; }
  std::vector<Tensor> backward(const std::vector<Tensor>& grads) override {
    std::vector<Tensor> parts = grads;
    for (size_t i = 0; i < parts.size(); ++i) {
      const TensorSpec& spec = output_spec(i);
      if (!parts[i].defined()) parts[i] = Tensor::zeros(spec.shape, {spec.dtype, spec.device});
    }
    return {concatenate(parts, dim)};
  }
  int dim;
};

// Parts of `size` elements, without a place in the graph each.
std::vector<Tensor> split_range(const Tensor& x, int64_t size, int dim) {
  std::vector<Tensor> parts;
  {
    NoGrad together;
    int64_t begin = 0;
    do {
      const int64_t end = std::min(x.size(dim), begin + size);
      parts.push_back(slice_range(x, {dim, begin, end}));
      begin = end;
    } while (begin < x.size(dim));
  }
  record<SplitBackward>(parts, std::span(&x, 1), dim);
  return parts;
}

// Before which dimension of a tensor of one dimension more a new one comes.
int resolve_new_dim(const char* function, const Tensor& x, int dim) {
  return x.shape().inserted(0, 1).resolve_dim(function, dim);
}

}  // namespace

std::vector<Tensor> split(const Tensor& x, int64_t size, int dim) {
  const FunctionScope scope("split");
  const int resolved = x.shape().resolve_dim("split", dim);
  if (size < 1) check::refuse("split", fmt::format("size is {}, wanted 1 at least", size));
  return split_range(x, size, resolved);
}

std::vector<Tensor> chunk(const Tensor& x, int64_t count, int dim) {
  const FunctionScope scope("chunk");
  const int resolved = x.shape().resolve_dim("chunk", dim);
  if (count < 1) check::refuse("chunk", fmt::format("count is {}, wanted 1 at least", count));
  return split_range(x, std::max<int64_t>(1, (x.size(resolved) + count - 1) / count), resolved);
}

std::vector<Tensor> unbind(const Tensor& x, int dim) {
  const FunctionScope scope("unbind");
  const int resolved = x.shape().resolve_dim("unbind", dim);
  if (x.size(resolved) == 0) return {};
  std::vector<Tensor> parts = split_range(x, 1, resolved);
  for (Tensor& part : parts) part = squeeze(part, resolved);
  return parts;
}

Tensor stack(const std::vector<Tensor>& tensors, int dim) {
  const FunctionScope scope("stack");
  if (tensors.empty()) check::refuse("stack", "no tensors were given, wanted at least one");
  const Tensor& first = tensors[0];
  const int resolved = resolve_new_dim("stack", first, dim);
  std::vector<Tensor> layers;
  for (const Tensor& tensor : tensors) {
    check::alike("stack", {"the first tensor", first}, {"another", tensor});
    check::shape("stack", {"a tensor", tensor}, first.shape());
    layers.push_back(tensor.reshape(tensor.shape().inserted(resolved, 1)));
  }
  return concatenate(layers, resolved);
}

Tensor squeeze(const Tensor& x, int dim) {
  const FunctionScope scope("squeeze");
  const int resolved = x.shape().resolve_dim("squeeze", dim);
  if (x.size(resolved) != 1) {
    check::refuse("squeeze", fmt::format("dimension {} of x {} has {} elements, wanted 1", resolved,
                                         to_string(x.shape()), x.size(resolved)));
  }
  return x.reshape(x.shape().without(resolved));
}

Tensor unsqueeze(const Tensor& x, int dim) {
  const FunctionScope scope("unsqueeze");
  return x.reshape(x.shape().inserted(resolve_new_dim("unsqueeze", x, dim), 1));
}

// -- broadcast --------------------------------------------------------------------

namespace {

struct BroadcastBackward final : Node {
  explicit BroadcastBackward(const Shape& shape) : shape(shape) {}
  const char* name() const override { return "broadcast_to"; }
  std::vector<Tensor> backward(const std::vector<Tensor>& grads) override {
    return {sum_to(grads[0], shape)};
  }
  Shape shape;
};

}  // namespace

Tensor broadcast_to(const Tensor& x, const Shape& shape) {
  const FunctionScope scope("broadcast_to");
  if (x.shape() == shape) return x;
  if (broadcast("broadcast_to", x.shape(), shape) != shape) {
    check::refuse("broadcast_to", fmt::format("x {} does not stretch to {}", to_string(x.shape()),
                                              to_string(shape)));
  }
  Tensor y = empty_like(x, shape);
  run(Broadcast{.x = x, .y = y});
  record<BroadcastBackward>({y}, {x}, x.shape());
  return y;
}

}  // namespace adret
