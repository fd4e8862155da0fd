// Matrix products.
#include <adret/autograd/ops/check.h>
#include <adret/autograd/ops/matmul.h>
#include <adret/autograd/ops/shape.h>
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

void check_operand(const char* name, const Tensor& x, bool transposed) {
  if (x.rank() > (transposed ? 1 : 0)) return;
  check::refuse("matmul", fmt::format("{} is {}, wanted {}", name, to_string(x.shape()),
                                      transposed ? "two dimensions to transpose" : "(..., M, K)"));
}

void check_columns(const Tensor& a, const Tensor& b, const ProductOptions& options) {
  const int64_t columns = a.size(options.transpose_a ? -2 : -1);
  const int64_t rows = b.size(options.transpose_b || b.rank() == 1 ? -1 : -2);
  if (columns == rows) return;
  check::refuse("matmul", fmt::format("{} and {} do not multiply: {} columns meet {} rows",
                                      describe("a", a, options.transpose_a),
                                      describe("b", b, options.transpose_b), columns, rows));
}

// -- batches ----------------------------------------------------------------------

// The dimensions before the last two.
Shape batch_of(const Tensor& x) { return Shape(x.shape().span().first(size_t(x.rank() - 2))); }

Tensor shaped(const Tensor& x, const Shape& shape) {
  return x.shape() == shape ? x : x.reshape(shape);
}

// (..., M, N) as one batch (B, M, N), stretched to the dimensions `batch`.
Tensor as_batch(const Tensor& x, const Shape& batch) {
  const int64_t rows = x.size(-2), columns = x.size(-1);
  const Shape whole = batch.inserted(batch.rank(), rows).inserted(batch.rank() + 1, columns);
  return shaped(broadcast_to(x, whole), {batch.numel(), rows, columns});
}

// Of (..., M, K) and (..., K, N), checked; of the batch, B matrices, (B * M, N) or (B, M, N).
Tensor multiply_batches(const Tensor& a, const Tensor& b, const ProductOptions& options,
                        const Shape& batch) {
  const auto [ta, tb, math] = options;
  const int64_t matrices = batch.numel(), rows = a.size(ta ? -1 : -2), inner = a.size(ta ? -2 : -1);
  const int64_t columns = b.size(tb ? -2 : -1);
  // The rows of all matrices are rows of one.
  if (batch_of(b).numel() == 1 && (!ta || matrices == 1)) {
    const Tensor left = shaped(a, ta ? Shape{inner, rows} : Shape{matrices * rows, inner});
    const Tensor right = shaped(b, {b.size(-2), b.size(-1)});
    return product(left, right, options, empty_like(a, {matrices * rows, columns}));
  }
  return product(as_batch(a, batch), as_batch(b, batch), options,
                 empty_like(a, {matrices, rows, columns}));
}

}  // namespace

Tensor matmul(const Tensor& a, const Tensor& b, const MatmulOptions& options) {
  const FunctionScope scope("matmul");
  check::alike("matmul", {"a", a}, {"b", b});
  check::floating("matmul", {"a", a});
  ProductOptions how{options.transpose_a, options.transpose_b, compute_mode().math};
  check_operand("a", a, how.transpose_a);
  check_operand("b", b, how.transpose_b);
  check_columns(a, b, how);
  const bool is_row = a.rank() == 1, is_column = b.rank() == 1;
  // With one row or column its own transposition is the same memory.
  const Tensor left = is_row ? a.reshape({1, a.size(0)}) : a;
  const Tensor right = is_column ? b.reshape({b.size(0), 1}) : b;
  const Shape batch = broadcast("matmul", batch_of(left), batch_of(right));
  Tensor y;
  if (is_row && how.transpose_b && batch.rank() > 0) {
    // a b^T is b a, in which the row is one matrix for all of the batch.
    how = {false, false, how.math};
    y = multiply_batches(right, a.reshape({a.size(0), 1}), how, batch);
  } else {
    y = multiply_batches(left, right, how, batch);
  }
  Shape shape = batch;
  if (!is_row) shape = shape.inserted(shape.rank(), left.size(how.transpose_a ? -1 : -2));
  if (!is_column) shape = shape.inserted(shape.rank(), right.size(options.transpose_b ? -2 : -1));
  return shaped(y, shape);
}

}  // namespace adret
