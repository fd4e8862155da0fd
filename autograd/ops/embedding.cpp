// Rows of a table by their numbers.
#include <adret/autograd/node.h>
#include <adret/autograd/ops/arithmetic.h>
#include <adret/autograd/ops/check.h>
#include <adret/autograd/ops/embedding.h>
#include <adret/autograd/ops/logic.h>
#include <adret/autograd/ops/places.h>
#include <adret/autograd/saved_tensor.h>
#include <adret/core/kernels/kernel.h>
#include <fmt/core.h>

namespace adret {
namespace {

// A row of the table, or none.
using Row = std::optional<int64_t>;

// The gradient of the table: rows of dy (n, C) added up in dweight (V, C) by their indices.
Tensor table_gradient(const Tensor& dy, const Tensor& indices, const Row& padding,
                      const Tensor& dweight);

struct TableGradientBackward final : Node {
  TableGradientBackward(const Tensor& indices, const Row& padding)
      : indices(indices), padding(padding) {}
  const char* name() const override { return "embedding_backward"; }
  std::vector<Tensor> backward(const std::vector<Tensor>& grads) override {
    const Tensor& rows = indices.unpack(*this);
    const Tensor result = gather_places(grads[0], {"embedding", 0, rows});
    if (!padding) return {result};
    const Tensor is_padding = equal(rows, scalar_like(rows, double(*padding)));
    return {where(is_padding.reshape({-1, 1}), 0, result)};
  }
  SavedTensor indices;
  Row padding;
};

Tensor table_gradient(const Tensor& dy, const Tensor& indices, const Row& padding,
                      const Tensor& dweight) {
  run(kernels::Scatter{
      .x = dy, .indices = indices, .y = dweight, .dim = 0, .mode = kernels::ScatterMode::sum});
  if (padding) {
    const int64_t columns = dweight.size(1);
    const size_t row_bytes = size_t(columns) * size_of(dweight.dtype());
    run(kernels::Fill{.y = dweight.alias({columns}, size_t(*padding) * row_bytes), .value = 0});
  }
  record<TableGradientBackward>({dweight}, {dy}, indices, padding);
  return dweight;
}

struct EmbeddingBackward final : Node {
  EmbeddingBackward(const Tensor& indices, const Row& padding)
      : indices(indices), padding(padding) {}
  const char* name() const override { return "embedding"; }
  std::vector<Tensor> backward(const std::vector<Tensor>& grads) override {
    return {table_gradient(grads[0], indices.unpack(*this), padding, grad_buffer(0))};
  }
  SavedTensor indices;
  Row padding;
};

Row padding_row(const Row& padding, const Tensor& weight) {
  if (!padding) return {};
  const int64_t rows = weight.size(0), row = *padding < 0 ? *padding + rows : *padding;
  if (row < 0 || row >= rows) {
    check::refuse("embedding", fmt::format("padding_idx is {}, weight {} has {} rows", *padding,
                                           to_string(weight.shape()), rows));
  }
  return row;
}

}  // namespace

Tensor embedding(const Tensor& indices, const Tensor& weight, const EmbeddingOptions& options) {
  const FunctionScope scope("embedding");
  check::same_device("embedding", {"weight", weight}, {"indices", indices});
  check::integer("embedding", {"indices", indices});
  check::rank("embedding", {"weight", weight}, 2, "(V, C)");
  const Row padding = padding_row(options.padding_idx, weight);
  check::within("embedding", {"indices", indices}, weight.size(0),
                fmt::format("weight {}", to_string(weight.shape())));
  const Tensor flat = indices.rank() == 1 ? indices : indices.reshape({indices.numel()});
  Tensor y = empty_like(weight, {flat.numel(), weight.size(1)});
  run(kernels::Gather{.x = weight, .indices = flat, .y = y, .dim = 0});
  record<EmbeddingBackward>({y}, {weight}, flat, padding);
  if (indices.rank() == 1) return y;
  return y.reshape(indices.shape().inserted(indices.rank(), weight.size(1)));
}

}  // namespace adret
