// Running sums, running products and linear recurrences.
#include <adret/autograd/ops/arithmetic.h>
#include <adret/autograd/ops/check.h>
#include <adret/autograd/ops/scan.h>
#include <adret/autograd/ops/shape.h>
#include <adret/autograd/saved_tensor.h>
#include <adret/core/kernels/scan.h>

namespace adret {
namespace {

// Note [Derivatives of scans]
// y[i] = a[i] y[i-1] + b[i]. The gradient of y[i] in all, g[i] = dy[i] + a[i+1] g[i+1], is a linear
// recurrence from the other end; then db = g and da[i] = g[i] y[i-1]. Running sums have no a,
// running products no b.

struct Way {
  int dim;
  bool reverse;
};

// Each element takes the place of the one before it (or behind it) on the way; `first` comes in.
Tensor shifted(const Tensor& x, const Way& way, double first) {
  const int64_t size = x.size(way.dim);
  if (size == 0) return x;
  const Tensor edge =
      Tensor::full(x.shape().with(way.dim, 1), first, {.dtype = x.dtype(), .device = x.device()});
  return way.reverse ? concatenate({slice(x, way.dim, 1, size), edge}, way.dim)
                     : concatenate({edge, slice(x, way.dim, 0, size - 1)}, way.dim);
}

// a or b may be undefined.
Tensor scan(const char* function, const Tensor& a, const Tensor& b, const Way& way);

struct ScanBackward final : Node {
  ScanBackward(const char* function, const Tensor& a, const Tensor& b, const Tensor& y,
               const Way& way)
      : function(function),
        a(a),
        y(a.defined() && a.requires_grad() ? y : Tensor()),
        start(b.defined() ? 0 : 1),
        way(way) {}
  const char* name() const override { return function; }
  std::vector<Tensor> backward(const std::vector<Tensor>& grads) override {
    const Way back{way.dim, !way.reverse};
    const Tensor factors = a.defined() ? shifted(a.unpack(*this), back, 0) : Tensor();
    const Tensor g = scan(function, factors, grads[0], back);
    std::vector<Tensor> result(2);
    if (needs_gradient(0)) result[0] = g * shifted(y.unpack(*this), way, start);
    if (needs_gradient(1)) result[1] = g;
    return result;
  }
  const char* function;
  SavedTensor a;
  SavedOutput y;
  double start;
  Way way;
};

Tensor scan(const char* function, const Tensor& a, const Tensor& b, const Way& way) {
  Tensor y = empty_like(a.defined() ? a : b);
  run_custom(kernels::Scan{.dim = way.dim, .reverse = way.reverse}, {a, b}, {y});
  record<ScanBackward>({y}, {a, b}, function, a, b, y, way);
  return y;
}

// Integers and booleans in i64.
Tensor exact(const Tensor& x) { return is_floating(x.dtype()) ? x : x.to(DType::i64); }

}  // namespace

Tensor cumsum(const Tensor& x, int dim, const ScanOptions& options) {
  const FunctionScope scope("cumsum");
  const Way way{x.shape().resolve_dim("cumsum", dim), options.reverse};
  const Tensor y = scan("cumsum", Tensor(), exact(x), way);
  return options.exclusive ? shifted(y, way, 0) : y;
}

Tensor cumprod(const Tensor& x, int dim, const ScanOptions& options) {
  const FunctionScope scope("cumprod");
  const Way way{x.shape().resolve_dim("cumprod", dim), options.reverse};
  const Tensor y = scan("cumprod", exact(x), Tensor(), way);
  return options.exclusive ? shifted(y, way, 1) : y;
}

Tensor linear_recurrence(const Tensor& factors, const Tensor& terms, int dim) {
  const FunctionScope scope("linear_recurrence");
  check::alike("linear_recurrence", {"factors", factors}, {"terms", terms});
  check::floating("linear_recurrence", {"terms", terms});
  check::shape("linear_recurrence", {"terms", terms}, factors.shape());
  const Way way{factors.shape().resolve_dim("linear_recurrence", dim), false};
  return scan("linear_recurrence", factors, terms, way);
}

}  // namespace adret
