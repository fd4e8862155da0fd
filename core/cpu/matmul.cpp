// Matrix products and the linear layer on Eigen's GEMM, split over the threads along the longer
// side of the result.
#include <adret/core/cpu/column_sums.h>
#include <adret/core/cpu/dispatch.h>
#include <adret/core/cpu/eigen.h>
#include <adret/core/cpu/grain.h>
#include <adret/core/cpu/kernels.h>
#include <adret/core/thread_pool.h>

namespace adret::cpu {
namespace {

// Eigen blocks by the cache sizes it finds, and other blocks sum in another order: fixed sizes
// give the same bits on every machine.
[[maybe_unused]] const bool cache_sizes_are_fixed =
    (Eigen::setCpuCacheSizes(32 << 10, 1 << 20, 2 << 20), true);

// y (rows, columns) = or += op(a) op(b) over `depth`, all dense.
struct Product {
  int64_t rows, columns, depth;
  bool transpose_a = false, transpose_b = false, accumulate = false;
};

// Part of the result: the rows or columns begin..end.
struct Part {
  int64_t row, rows, column, columns;
};

template <class T>
void multiply(const Product& p, const T* a, const T* b, T* y, const Part& part) {
  const int64_t lda = p.transpose_a ? p.rows : p.depth, ldb = p.transpose_b ? p.depth : p.columns;
  Matrix<T> result(y + part.row * p.columns + part.column, part.rows, part.columns,
                   Eigen::OuterStride<>(p.columns));
  const auto store = [&](const auto& product) {
    if (p.accumulate) {
      result.noalias() += product;
    } else {
      result.noalias() = product;
    }
  };
  const auto with_b = [&](const auto& left) {
    if (p.transpose_b) {
      const ConstMatrix<T> right(b + part.column * ldb, part.columns, p.depth,
                                 Eigen::OuterStride<>(ldb));
      store(left * right.transpose());
    } else {
      const ConstMatrix<T> right(b + part.column, p.depth, part.columns, Eigen::OuterStride<>(ldb));
      store(left * right);
    }
  };
  if (p.transpose_a) {
    const ConstMatrix<T> left(a + part.row, p.depth, part.rows, Eigen::OuterStride<>(lda));
    with_b(left.transpose());
  } else {
    with_b(ConstMatrix<T>(a + part.row * lda, part.rows, p.depth, Eigen::OuterStride<>(lda)));
  }
}

// Calls f for the parts of the result, on all threads: a power of two of them, so that they share
// the threads evenly, of 2 to 4 million products, but no narrower than 64, as each part packs the
// whole other operand.
template <class F>
void for_each_part(const Product& p, F f) {
  constexpr double part_products = 4e6;
  const bool split_rows = p.rows >= p.columns;
  const int64_t longer = split_rows ? p.rows : p.columns;
  const double products = double(p.rows) * double(p.columns) * double(p.depth);
  int64_t parts = 1;
  while (double(parts) * part_products < products && longer >= 128 * parts) parts *= 2;
  const int64_t grain = round_up(std::max<int64_t>(1, (longer + parts - 1) / parts), 16);
  parallel_for(longer, grain, [&](int64_t begin, int64_t end) {
    f(split_rows ? Part{begin, end - begin, 0, p.columns} : Part{0, p.rows, begin, end - begin});
  });
}

template <class T>
void multiply(const Product& p, const T* a, const T* b, T* y) {
  for_each_part(p, [&](const Part& part) { multiply(p, a, b, y, part); });
}

template <class T>
void matmul(const kernels::Matmul& call) {
  const int64_t rows = call.y.shape[-2], columns = call.y.shape[-1];
  const int64_t depth = call.a.shape[call.transpose_a ? -2 : -1];
  const Product product{rows, columns, depth, call.transpose_a, call.transpose_b, call.accumulate};
  const T *a = call.a.as<T>(), *b = call.b.as<T>();
  T* const y = call.y.as<T>();
  if (call.y.shape.rank() == 2) {
    multiply(product, a, b, y);
    return;
  }
  const int64_t grain = items_per_chunk(1 << 20, rows * columns * depth);
  parallel_for(call.y.shape[0], grain, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      multiply(product, a + i * rows * depth, b + i * depth * columns, y + i * rows * columns);
    }
  });
}

template <class T>
void add_bias(const Part& part, int64_t ld, const T* bias, kernels::Activation activation, T* y) {
  for (int64_t row = part.row; row < part.row + part.rows; ++row) {
    T* const at = y + row * ld;
    for (int64_t c = part.column; c < part.column + part.columns; ++c) {
      const T value = bias ? at[c] + bias[c] : at[c];
      at[c] = activation == kernels::Activation::relu && value < T(0) ? T(0) : value;
    }
  }
}

}  // namespace

void run(const kernels::Matmul& call) {
  dispatch_float(call.a.dtype, call.name, [&](auto zero) { matmul<decltype(zero)>(call); });
}

void run(const kernels::LinearForward& call) {
  if (call.before.defined() || is_gelu(call.activation)) {
    kernels::LinearForward linear = call;
    linear.y = call.before.defined() ? call.before : call.y;
    linear.before = {};
    linear.activation = kernels::Activation::none;
    run(linear);
    return run(kernels::Unary{.x = linear.y, .y = call.y, .op = unary_of(call.activation)});
  }
  dispatch_float(call.x.dtype, call.name, [&](auto zero) {
    using T = decltype(zero);
    const Product p{call.y.shape[0], call.y.shape[1], call.x.shape[1], false, true};
    T* const y = call.y.as<T>();
    for_each_part(p, [&](const Part& part) {
      multiply(p, call.x.as<T>(), call.weight.as<T>(), y, part);
      if (call.bias.defined() || call.activation != kernels::Activation::none) {
        add_bias(part, p.columns, call.bias.as<T>(), call.activation, y);
      }
    });
  });
}

void run(const kernels::LinearBackwardInput& call) {
  dispatch_float(call.dy.dtype, call.name, [&](auto zero) {
    using T = decltype(zero);
    multiply({call.dx.shape[0], call.dx.shape[1], call.dy.shape[1]}, call.dy.as<T>(),
             call.weight.as<T>(), call.dx.as<T>());
  });
  if (call.activation == kernels::Activation::none) return;
  run(kernels::UnaryBackward{
      .saved = call.saved, .dy = call.dx, .dx = call.dx, .op = unary_of(call.activation)});
}

void run(const kernels::LinearBackwardWeight& call) {
  dispatch_float(call.x.dtype, call.name, [&](auto zero) {
    using T = decltype(zero);
    const int64_t batch = call.x.shape[0], in = call.x.shape[1], out = call.dy.shape[1];
    if (call.dweight.defined()) {
      multiply({out, in, batch, true}, call.dy.as<T>(), call.x.as<T>(), call.dweight.as<T>());
    }
    if (call.dbias.defined()) column_sums(call.dy.as<T>(), batch, out, call.dbias.as<T>());
  });
}

}  // namespace adret::cpu
