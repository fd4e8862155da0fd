// Matrix products of every rank, the linear layer's function and einsum.
#include <adret/autograd/ops/activation.h>
#include <adret/autograd/ops/einsum.h>
#include <adret/autograd/ops/matmul.h>
#include <adret/autograd/ops/shape.h>

#include <algorithm>
#include <cmath>

#include "tests/support/random_case.h"

namespace adret {
namespace {

using namespace test;

// Operands of a product, as NumPy multiplies them.
struct Product {
  Shape a, b, y;
  int64_t inner;
  MatmulOptions options;

  explicit Product(Draw& draw) : inner(draw.size()) {
    const bool row = draw.chance(0.15), column = draw.chance(0.15);
    const Shape batch = draw.shape(0, 2);
    const int64_t rows = draw.size(), columns = draw.size();
    options = {.transpose_a = !row && draw.chance(), .transpose_b = !column && draw.chance()};
    const Shape left = options.transpose_a ? Shape{inner, rows} : Shape{rows, inner};
    const Shape right = options.transpose_b ? Shape{columns, inner} : Shape{inner, columns};
    const Shape batch_a = row ? Shape() : draw.stretched_to(batch),
                batch_b = column ? Shape() : draw.stretched_to(batch);
    a = row ? Shape{inner} : joined(batch_a, left);
    b = column ? Shape{inner} : joined(batch_b, right);
    y = broadcast("product", batch_a, batch_b);
    if (!row) y = joined(y, {rows});
    if (!column) y = joined(y, {columns});
  }
  static Shape joined(Shape front, const Shape& back) {
    for (int64_t size : back) front = front.inserted(front.rank(), size);
    return front;
  }
};

// The operand as (..., M, K) of `rank` dimensions at an index of y without its matrix, row and k.
double element(const Array& x, const Index& batch, int64_t first, int64_t second, bool transposed) {
  if (x.shape.rank() == 1) return x.at({std::max(first, second)});
  Index at(batch.end() - (x.shape.rank() - 2), batch.end());
  at.push_back(transposed ? second : first);
  at.push_back(transposed ? first : second);
  return x.at(at);
}

TEST(ProductProperties, Matmul) {
  for_random_cases(
      "matmul",
      [](Draw& draw) {
        const Product p(draw);
        const Tensor a = draw.numbers(p.a), b = draw.numbers(p.b);
        const Array left(a), right(b);
        const Array y = tabulate(p.y, [&](Index at) {
          int64_t row = 0, column = 0;
          if (p.b.rank() > 1) column = at.back(), at.pop_back();
          if (p.a.rank() > 1) row = at.back(), at.pop_back();
          double sum = 0;
          for (int64_t k = 0; k < p.inner; ++k) {
            sum += element(left, at, row, k, p.options.transpose_a) *
                   element(right, at, k, column, p.options.transpose_b);
          }
          return sum;
        });
        const DType dtype = draw.wide();
        expect_array(matmul(a.to(dtype), b.to(dtype), p.options), y);
        expect_slope([&](const Inputs& in) { return matmul(in[0], in[1], p.options); }, {a, b},
                     draw);
      },
      300);
}

double activated(double x, Activation activation) {
  switch (activation) {
    case Activation::none: return x;
    case Activation::relu: return std::max(x, 0.0);
    case Activation::gelu: return x / 2 * std::erfc(-x / std::sqrt(2.0));
    case Activation::gelu_tanh: break;
  }
  return x / 2 * (1 + std::tanh(std::sqrt(2 / M_PI) * (x + 0.044715 * x * x * x)));
}

TEST(ProductProperties, Linear) {
  for_random_cases("linear", [](Draw& draw) {
    const Shape shape = draw.shape(1, 4);
    const int64_t inputs = shape[-1], outputs = draw.size();
    const LinearOptions options{draw.one_of<Activation>(
        {Activation::none, Activation::relu, Activation::gelu, Activation::gelu_tanh})};
    const Tensor x = draw.numbers(shape), weight = draw.numbers({outputs, inputs});
    const Tensor bias = draw.chance() ? draw.numbers({outputs}) : Tensor();
    const Array in(x), w(weight), b(bias.defined() ? Array(bias) : Array(Shape{outputs}));
    const Shape to = shape.with(shape.rank() - 1, outputs);
    const Array y = tabulate(to, [&](const Index& at) {
      double sum = b.at({at.back()});
      for (int64_t k = 0; k < inputs; ++k) {
        sum += in.at(with(at, shape.rank() - 1, k)) * w.at({at.back(), k});
      }
      return activated(sum, options.activation);
    });
    const DType dtype = draw.wide();
    expect_array(
        linear(x.to(dtype), weight.to(dtype), bias.defined() ? bias.to(dtype) : bias, options), y);
    Inputs inputs_of = {x, weight};
    if (bias.defined()) inputs_of.push_back(bias);
    expect_slope(
        [&](const Inputs& in) {
          return linear(in[0], in[1], in.size() > 2 ? in[2] : Tensor(), options);
        },
        inputs_of, draw);
  });
}

// Against products and transpositions; loops over all letters are in autograd/einsum_test.cpp.
TEST(ProductProperties, EinsumIsWhatItIsMadeOf) {
  for_random_cases("einsum", [](Draw& draw) {
    const int64_t i = draw.size(), j = draw.size(), k = draw.size(), n = draw.size();
    const Tensor a = draw.numbers({n, i, k}), b = draw.numbers({n, k, j});
    expect_array(einsum("nik,nkj->nij", {a, b}), matmul(a, b));
    expect_array(einsum("nik,nkj->jni", {a, b}), permute(matmul(a, b), {2, 0, 1}));
    expect_slope([](const Inputs& in) { return einsum("nik,nkj->jin", in); }, {a, b}, draw);
  });
}

}  // namespace
}  // namespace adret
