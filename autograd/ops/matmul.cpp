// Matrix products.
#include <adret/autograd/ops/check.h>
#include <adret/autograd/ops/matmul.h>
#include <adret/autograd/saved_tensor.h>
#include <adret/core/kernels/kernel.h>
#include <fmt/core.h>

namespace adret {
namespace {

// How a product is computed: its gradients in the math mode of the forward.
struct ProductOptions {
  bool transpose_a = false, transpose_b = false;
  MathMode math = MathMode::exact;
};

Tensor product(const Tensor& a, const Tensor& b, const ProductOptions& options, const Tensor& y);

// For y = op(a) op(b): d op(a) = dy op(b)^T and d op(b) = op(a)^T dy; transposed where op
// transposes.
struct MatmulBackward final : Node {
  MatmulBackward(const Tensor& a, const Tensor& b, const ProductOptions& options)
      : a(b.requires_grad() ? a : Tensor()),
        b(a.requires_grad() ? b : Tensor()),
        options(options) {}
  const char* name() const override { return "matmul"; }
  std::vector<Tensor> backward(const std::vector<Tensor>& grads) override {
    const auto [ta, tb, math] = options;
    const Tensor& dy = grads[0];
    std::vector<Tensor> result(2);
    if (needs_gradient(0)) {
      const Tensor& right = b.unpack(*this);
      result[0] = ta ? product(right, dy, {tb, true, math}, grad_buffer(0))
                     : product(dy, right, {false, !tb, math}, grad_buffer(0));
    }
    if (needs_gradient(1)) {
      const Tensor& left = a.unpack(*this);
      result[1] = tb ? product(dy, left, {true, ta, math}, grad_buffer(1))
                     : product(left, dy, {!ta, false, math}, grad_buffer(1));
    }
    return result;
  }
  SavedTensor a, b;
  ProductOptions options;
};

// Writes the product into y.
Tensor product(const Tensor& a, const Tensor& b, const ProductOptions& options, const Tensor& y) {
  run(kernels::Matmul{.a = a,
                      .b = b,
                      .y = y,
                      .transpose_a = options.transpose_a,
                      .transpose_b = options.transpose_b,
                      .math = options.math});
  record<MatmulBackward>({y}, {a, b}, a, b, options);
  return y;
}

std::string describe(const char* name, const Tensor& x, bool transposed) {
  return fmt::format("{} {}{}", name, to_string(x.shape()), transposed ? " transposed" : "");
}

}  // namespace

Tensor matmul(const Tensor& a, const Tensor& b, const MatmulOptions& options) {
  const FunctionScope scope("matmul");
  check::alike("matmul", {"a", a}, {"b", b});
  check::floating("matmul", {"a", a});
  const int rank = a.rank();
  const auto [ta, tb] = options;
  if (rank != b.rank() || rank < 2 || rank > 3) {
    check::refuse("matmul", fmt::format("a {} and b {}, wanted both (M, K) (K, N) or both "
                                        "(B, M, K) (B, K, N)",
                                        to_string(a.shape()), to_string(b.shape())));
  }
  if (rank == 3 && a.size(0) != b.size(0)) {
    check::refuse("matmul", fmt::format("batches of {} and {} do not agree: a {}, b {}", a.size(0),
                                        b.size(0), to_string(a.shape()), to_string(b.shape())));
  }
  const int64_t columns = a.size(ta ? -2 : -1), rows = b.size(tb ? -1 : -2);
  if (columns != rows) {
    check::refuse("matmul", fmt::format("{} and {} do not multiply: {} columns meet {} rows",
                                        describe("a", a, ta), describe("b", b, tb), columns, rows));
  }
  const Shape shape =
      a.shape().with(rank - 2, a.size(ta ? -1 : -2)).with(rank - 1, b.size(tb ? -2 : -1));
  return product(a, b, {ta, tb, compute_mode().math}, empty_like(a, shape));
}

}  // namespace adret
