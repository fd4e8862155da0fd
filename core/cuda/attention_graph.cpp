// The operations of attention, one by one.
#include <adret/core/cuda/attention_graph.h>
#include <fmt/core.h>

#include <utility>

namespace adret::cuda {
namespace {

using Dims = std::array<int64_t, 4>;
using Tensor = cudnnBackendDescriptor_t;

Dims turned(Dims dims) {
  std::swap(dims[2], dims[3]);
  return dims;
}
Dims dense(const Dims& dims) {
  return {dims[1] * dims[2] * dims[3], dims[2] * dims[3], dims[3], 1};
}

struct PointwiseOptions {
  Tensor condition = nullptr;
  int64_t axis = -1;  // of indices
  cudnnDataType_t type = CUDNN_DATA_FLOAT;
};

// Dims are (N, H, rows, columns), whatever order memory has.
class Builder {
 public:
  explicit Builder(const AttentionShape& shape) : s_(shape) {}

  Graph::Operations forward() {
    const Tensor q = rows(attention_id::q, s_.queries), k = columns(attention_id::k),
                 v = rows(attention_id::v, s_.keys), y = result(attention_id::y),
                 stored = row_values(s_.with_log_sum_exp ? int64_t(attention_id::log_sum_exp) : 0);
    const Tensor scale = number(attention_id::scale);
    const Tensor scores =
        causal(pointwise(CUDNN_POINTWISE_MUL, multiply(q, k, between()), scale, between()));
    const Tensor largest = reduce(CUDNN_REDUCE_TENSOR_MAX, scores, row_values());
    const Tensor exponentials =
        pointwise(CUDNN_POINTWISE_EXP, pointwise(CUDNN_POINTWISE_SUB, scores, largest, between()),
                  nullptr, between());
    const Tensor sum = reduce(CUDNN_REDUCE_TENSOR_ADD, exponentials, row_values());
    const Tensor log_sum = pointwise(CUDNN_POINTWISE_LOG, sum, nullptr, row_values());
    pointwise(CUDNN_POINTWISE_ADD, largest, log_sum, stored);
    const Tensor weights =
        pointwise(CUDNN_POINTWISE_DIV, exponentials, sum, between(cudnn_type(s_.dtype)));
    multiply(weights, v, y);
    return std::move(made_);
  }

  Graph::Operations backward() {
    const Tensor q = rows(attention_id::q, s_.queries), k = columns(attention_id::k),
                 v = columns(attention_id::v), y = result(attention_id::y),
                 dy = result(attention_id::dy), log_sum = row_values(attention_id::log_sum_exp),
                 dq = rows(attention_id::dq, s_.queries), dk = rows(attention_id::dk, s_.keys),
                 dv = rows(attention_id::dv, s_.keys);
    const Tensor scale = number(attention_id::scale);
    const Dims product{s_.samples, s_.heads, s_.queries, s_.width};
    const int64_t row = s_.heads * s_.width;
    const Dims like_y{s_.queries * row, s_.queries * s_.width, row, 1};
    const Tensor products =
        pointwise(CUDNN_POINTWISE_MUL, dy, y, tensor(product, like_y, CUDNN_DATA_FLOAT));
    const Tensor means =
        pointwise(CUDNN_POINTWISE_MUL, reduce(CUDNN_REDUCE_TENSOR_ADD, products, row_values()),
                  number(attention_id::one), row_values(attention_id::means));

    const Tensor scores =
        pointwise(CUDNN_POINTWISE_MUL, multiply(q, k, between()), scale, between());
    const Tensor shifted = causal(pointwise(CUDNN_POINTWISE_SUB, scores, log_sum, between()));
    const Tensor weights = pointwise(CUDNN_POINTWISE_EXP, shifted, nullptr, between());
    multiply(turned_scores(weights), dy, dv);

    const Tensor above =
        pointwise(CUDNN_POINTWISE_SUB, multiply(dy, v, between()), means, between());
    const Tensor gradients = pointwise(CUDNN_POINTWISE_MUL, above, weights, between());
    const Tensor dscores =
        pointwise(CUDNN_POINTWISE_MUL, gradients, scale, between(cudnn_type(s_.dtype)));
    multiply(turned_scores(dscores), q, dk);
    const Dims keys{s_.samples, s_.heads, s_.keys, s_.width};
    multiply(dscores, reshape(k, tensor(keys, strides(s_.keys), cudnn_type(s_.dtype))), dq);
    return std::move(made_);
  }

 private:
  // -- tensors ---------------------------------------------------------------------------------

  // Without an id: between operations, never stored.
  Tensor tensor(const Dims& dims, const Dims& strides, cudnnDataType_t type, int64_t id = 0,
                bool by_value = false) {
    Descriptor descriptor(CUDNN_BACKEND_TENSOR_DESCRIPTOR);
    descriptor.set(CUDNN_ATTR_TENSOR_UNIQUE_ID, id ? id : next_id_++)
        .set(CUDNN_ATTR_TENSOR_DATA_TYPE, type)
        .set(CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT, int64_t(16))
        .set(CUDNN_ATTR_TENSOR_DIMENSIONS, std::span<const int64_t>(dims))
        .set(CUDNN_ATTR_TENSOR_STRIDES, std::span<const int64_t>(strides));
    if (!id) descriptor.set(CUDNN_ATTR_TENSOR_IS_VIRTUAL, true);
    if (by_value) descriptor.set(CUDNN_ATTR_TENSOR_IS_BY_VALUE, true);
    return keep(std::move(descriptor.finalize()));
  }

  Dims strides(int64_t length) const {
    const int64_t token = s_.heads * s_.width * (s_.packed ? 3 : 1);
    return {length * token, s_.width, token, 1};
  }
  Tensor rows(int64_t id, int64_t length) {
    return tensor({s_.samples, s_.heads, length, s_.width}, strides(length), cudnn_type(s_.dtype),
                  id);
  }
  // Keys or values turned, as the right side of a product.
  Tensor columns(int64_t id) {
    return tensor({s_.samples, s_.heads, s_.width, s_.keys}, turned(strides(s_.keys)),
                  cudnn_type(s_.dtype), id);
  }
  // Like y, which is never packed.
  Tensor result(int64_t id) {
    const int64_t token = s_.heads * s_.width;
    return tensor({s_.samples, s_.heads, s_.queries, s_.width},
                  {s_.queries * token, s_.width, token, 1}, cudnn_type(s_.dtype), id);
  }
  Dims scores() const { return {s_.samples, s_.heads, s_.queries, s_.keys}; }
  Tensor between(cudnnDataType_t type = CUDNN_DATA_FLOAT) {
    return tensor(scores(), dense(scores()), type);
  }
  Tensor row_values(int64_t id = 0) {
    const Dims dims{s_.samples, s_.heads, s_.queries, 1};
    return tensor(dims, dense(dims), CUDNN_DATA_FLOAT, id);
  }
  Tensor number(int64_t id) {
    return tensor({1, 1, 1, 1}, {1, 1, 1, 1}, CUDNN_DATA_FLOAT, id, true);
  }

  // -- operations ------------------------------------------------------------------------------

  Tensor pointwise(cudnnPointwiseMode_t mode, Tensor x, Tensor b, Tensor y,
                   const PointwiseOptions& options = {}) {
    Descriptor description(CUDNN_BACKEND_POINTWISE_DESCRIPTOR);
    description.set(CUDNN_ATTR_POINTWISE_MODE, CUDNN_TYPE_POINTWISE_MODE, 1, &mode)
        .set(CUDNN_ATTR_POINTWISE_MATH_PREC, options.type);
    if (options.axis >= 0) description.set(CUDNN_ATTR_POINTWISE_AXIS, options.axis);
    Descriptor operation(CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR);
    operation
        .set(CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR, keep(std::move(description.finalize())))
        .set(CUDNN_ATTR_OPERATION_POINTWISE_XDESC, x)
        .set(CUDNN_ATTR_OPERATION_POINTWISE_YDESC, y);
    if (b) operation.set(CUDNN_ATTR_OPERATION_POINTWISE_BDESC, b);
    if (options.condition) {
      operation.set(CUDNN_ATTR_OPERATION_POINTWISE_TDESC, options.condition);
    }
    add(std::move(operation));
    return y;
  }

  Tensor reduce(cudnnReduceTensorOp_t how, Tensor x, Tensor y) {
    Descriptor description(CUDNN_BACKEND_REDUCTION_DESCRIPTOR);
    description.set(CUDNN_ATTR_REDUCTION_OPERATOR, CUDNN_TYPE_REDUCTION_OPERATOR_TYPE, 1, &how)
        .set(CUDNN_ATTR_REDUCTION_COMP_TYPE, CUDNN_DATA_FLOAT);
    Descriptor operation(CUDNN_BACKEND_OPERATION_REDUCTION_DESCRIPTOR);
    operation.set(CUDNN_ATTR_OPERATION_REDUCTION_DESC, keep(std::move(description.finalize())))
        .set(CUDNN_ATTR_OPERATION_REDUCTION_XDESC, x)
        .set(CUDNN_ATTR_OPERATION_REDUCTION_YDESC, y);
    add(std::move(operation));
    return y;
  }

  Tensor multiply(Tensor a, Tensor b, Tensor y) {
    Descriptor description(CUDNN_BACKEND_MATMUL_DESCRIPTOR);
    description.set(CUDNN_ATTR_MATMUL_COMP_TYPE, CUDNN_DATA_FLOAT);
    Descriptor operation(CUDNN_BACKEND_OPERATION_MATMUL_DESCRIPTOR);
    operation.set(CUDNN_ATTR_OPERATION_MATMUL_DESC, keep(std::move(description.finalize())))
        .set(CUDNN_ATTR_OPERATION_MATMUL_ADESC, a)
        .set(CUDNN_ATTR_OPERATION_MATMUL_BDESC, b)
        .set(CUDNN_ATTR_OPERATION_MATMUL_CDESC, y);
    add(std::move(operation));
    return y;
  }

  Tensor reshape(Tensor x, Tensor y) {
    Descriptor operation(CUDNN_BACKEND_OPERATION_RESHAPE_DESCRIPTOR);
    operation.set(CUDNN_ATTR_OPERATION_RESHAPE_XDESC, x).set(CUDNN_ATTR_OPERATION_RESHAPE_YDESC, y);
    add(std::move(operation));
    return y;
  }
  Tensor turned_scores(Tensor x) {
    return reshape(x, tensor(turned(scores()), turned(dense(scores())), cudnn_type(s_.dtype)));
  }

  // Scores where the row is not before the column, else those of keys that are not seen.
  Tensor causal(Tensor x) {
    if (!s_.causal) return x;
    const auto index = [&](int64_t axis) {
      return pointwise(CUDNN_POINTWISE_GEN_INDEX, x, nullptr, between(CUDNN_DATA_INT32),
                       {.axis = axis});
    };
    const Tensor row = index(2), column = index(3);
    const Tensor seen = pointwise(CUDNN_POINTWISE_CMP_GE, row, column, between(CUDNN_DATA_BOOLEAN),
                                  {.type = CUDNN_DATA_BOOLEAN});
    return pointwise(CUDNN_POINTWISE_BINARY_SELECT, x, number(attention_id::unseen), between(),
                     {.condition = seen});
  }

  Tensor keep(Descriptor descriptor) {
    made_.parts.push_back(std::move(descriptor));
    return made_.parts.back().get();
  }
  void add(Descriptor operation) {
    operation.finalize();
    made_.operations.push_back(std::move(operation));
  }

  const AttentionShape& s_;
  Graph::Operations made_;
  int64_t next_id_ = 100;  // of what is between operations
};

}  // namespace

std::string to_string(const AttentionShape& s) {
  return fmt::format("{} {} {}x{}x{}x{} keys {} scale {}{}{}{}",
                     s.backward ? "backward" : "forward", name(s.dtype), s.samples, s.queries,
                     s.heads, s.width, s.keys, s.scale, s.causal ? " causal" : "",
                     s.packed ? " packed" : "", s.with_log_sum_exp ? " log_sum_exp" : "");
}

Graph attention_graph(const AttentionShape& shape, cudnnHandle_t handle, const Descriptor* device) {
  Builder builder(shape);
  return Graph(shape.backward ? builder.backward() : builder.forward(), handle, device);
}

}  // namespace adret::cuda
