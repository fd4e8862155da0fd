// Products for the gradients of weights on Hopper's tensor cores: which the kernel takes, and on a
// GPU its results against loops in f64.
#include <adret/core/cuda/check.h>
#include <adret/core/cuda/context.h>
#include <adret/core/cuda/matmul_wide.h>
#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <vector>

#include "matrix.h"
#include "on_gpu.h"

namespace adret::cuda {
namespace {

class WideProducts : public OnGpu<> {
 protected:
  void SetUp() override {
    OnGpu::SetUp();
    if (!IsSkipped() && context().properties.major != 9) GTEST_SKIP() << "it runs on Hopper alone";
  }

  static Product product(int64_t rows, int64_t columns, int64_t depth,
                         Epilogue epilogue = Epilogue::none) {
    return {.rows = rows,
            .columns = columns,
            .depth = depth,
            .transpose_a = true,
            .epilogue = epilogue};
  }

  template <class T>
  struct Operands {
    Matrix<T> a, b, y, beside;
    explicit Operands(const Product& p)
        : a(p.depth * p.rows, 1),
          b(p.depth * p.columns, 2),
          y(p.rows * p.columns, 3),
          beside(p.rows, 4) {}
    bool run(const Product& p) {
      const TensorView views[] = {
          a.view({p.depth, p.rows}), b.view({p.depth, p.columns}), y.view({p.rows, p.columns}),
          p.epilogue == Epilogue::none ? TensorView() : beside.view({p.rows})};
      const ProductOperands operands{views[0], views[1], views[2], views[3]};
      if (!can_multiply_wide(context(), p, operands)) return false;
      multiply_wide(context(), p, operands);
      ADRET_CHECK(cudaDeviceSynchronize());
      return true;
    }
  };

  // Of the rounding to T, and of sums in f32.
  static double tolerance(double expected) { return 0x1p-8 * std::abs(expected) + 0x1p-8; }

  template <class T>
  static void check(const Product& p) {
    Operands<T> o(p);
    const std::string what = std::to_string(p.rows) + "x" + std::to_string(p.columns) + "x" +
                             std::to_string(p.depth) + " epilogue " +
                             std::to_string(int(p.epilogue));
    ASSERT_TRUE(o.run(p)) << what;
    std::vector<double> sums(size_t(p.rows * p.columns)), row_sums(size_t(p.rows));
    for (int64_t k = 0; k < p.depth; ++k) {
      for (int64_t r = 0; r < p.rows; ++r) {
        const double a = o.a[k * p.rows + r];
        row_sums[size_t(r)] += a;
        double* const of_row = &sums[size_t(r * p.columns)];
        for (int64_t c = 0; c < p.columns; ++c) of_row[c] += a * o.b[k * p.columns + c];
      }
    }
    for (size_t i = 0; i < sums.size(); ++i) {
      ASSERT_NEAR(o.y[int64_t(i)], sums[i], tolerance(sums[i])) << what << ", element " << i;
    }
    for (size_t r = 0; p.epilogue == Epilogue::bias_gradient && r < row_sums.size(); ++r) {
      ASSERT_NEAR(o.beside[int64_t(r)], row_sums[r], tolerance(row_sums[r]))
          << what << ", row " << r;
    }
    EXPECT_TRUE(o.y.guard_intact() && o.beside.guard_intact())
        << what << " wrote beyond its output";
  }
};

// At the edges of tiles and stages; fewer stages than blocks, tiles that many blocks share, and
// blocks that have several tiles.
TEST_F(WideProducts, AtTheEdgesOfTilesAndStages) {
  const int64_t sizes[][3] = {{64, 64, 1},      {192, 192, 64},  {256, 128, 65},
                              {64, 1024, 100},  {384, 384, 777}, {64, 384, 20000},
                              {1536, 384, 640}, {384, 1536, 300}};
  for (const auto& [rows, columns, depth] : sizes) {
    for (const Epilogue epilogue : {Epilogue::none, Epilogue::bias_gradient}) {
      check<bfloat16>(product(rows, columns, depth, epilogue));
      check<float16>(product(rows, columns, depth, epilogue));
    }
  }
}

TEST_F(WideProducts, TheSameBitsEachTime) {
  const Product p = product(384, 448, 5000, Epilogue::bias_gradient);
  Operands<bfloat16> first(p), second(p);
  ASSERT_TRUE(first.run(p) && second.run(p));
  for (int64_t i = 0; i < p.rows * p.columns; ++i) ASSERT_EQ(first.y[i], second.y[i]) << i;
  for (int64_t r = 0; r < p.rows; ++r) ASSERT_EQ(first.beside[r], second.beside[r]) << r;
}

TEST_F(WideProducts, NaNStaysInItsRowAndColumn) {
  const Product p = product(256, 256, 130, Epilogue::bias_gradient);
  Operands<bfloat16> o(p);
  o.a.view({p.depth, p.rows}).template as<bfloat16>()[129 * p.rows + 3] = bfloat16(NAN);
  ASSERT_TRUE(o.run(p));
  for (int64_t i = 0; i < p.rows * p.columns; ++i) {
    ASSERT_EQ(std::isnan(o.y[i]), i / p.columns == 3) << i;
  }
  for (int64_t r = 0; r < p.rows; ++r) ASSERT_EQ(std::isnan(o.beside[r]), r == 3) << r;
}

TEST_F(WideProducts, WhatItDoesNotTake) {
  Product odd = product(96, 64, 64), straight = product(64, 64, 64), added = product(64, 64, 64),
          activated = product(64, 64, 64, Epilogue::relu_slope);
  straight.transpose_a = false;
  added.accumulate = true;
  for (const Product& p : {odd, straight, added, activated}) {
    EXPECT_FALSE(Operands<bfloat16>(p).run(p));
  }
  const Product exact = product(64, 64, 64);
  EXPECT_FALSE(Operands<float>(exact).run(exact));
}

}  // namespace
}  // namespace adret::cuda
