// Products on tensor cores: which tilings there are for a device, and on a GPU each of them against
// loops in f64.
#include <adret/core/cuda/check.h>
#include <adret/core/cuda/matmul_tensor.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "matrix.h"
#include "on_gpu.h"

namespace adret::cuda {
namespace {

cudaDeviceProp described(int major, int multiprocessors) {
  cudaDeviceProp device{};
  device.major = major;
  device.multiProcessorCount = multiprocessors;
  return device;
}

const Product layer{.rows = 64, .columns = 256, .depth = 784, .math = MathMode::tf32};

TEST(TensorTilings, OnlyOfWhatTensorCoresMayCompute) {
  const cudaDeviceProp hopper = described(9, 132);
  Product exact = layer;
  exact.math = MathMode::exact;
  EXPECT_FALSE(tensor_tilings(hopper, layer, DType::f32).empty());
  EXPECT_FALSE(tensor_tilings(hopper, exact, DType::bf16).empty());
  EXPECT_FALSE(tensor_tilings(hopper, exact, DType::f16).empty());
  EXPECT_TRUE(tensor_tilings(hopper, exact, DType::f32).empty());
  EXPECT_TRUE(tensor_tilings(hopper, layer, DType::f64).empty());
  EXPECT_TRUE(tensor_tilings(described(7, 40), layer, DType::f32).empty());
}

TEST(TensorTilings, NoneForMatricesBeyondTwoGigabytes) {
  Product large = layer;
  large.depth = int64_t(1) << 24;
  EXPECT_TRUE(tensor_tilings(described(9, 132), large, DType::f32).empty());
}

TEST(TensorTilings, OnlyClustersShareADepth) {
  for (const TensorTiling& tiling : tensor_tilings(described(8, 108), layer, DType::f32)) {
    EXPECT_EQ(tiling.splits, 1);
  }
}

TEST(TensorTilings, EachBlockHasSomeOfTheDepth) {
  for (const int64_t depth : {1, 8, 9, 16, 60, 100, 784, 9216}) {
    for (const DType dtype : {DType::f32, DType::bf16}) {
      Product product = layer;
      product.depth = depth;
      for (const TensorTiling& tiling : tensor_tilings(described(9, 132), product, dtype)) {
        const int64_t share = depth_share(depth, tiling.splits, dtype);
        EXPECT_EQ(share * int64_t(size_of(dtype)) % tensor_step_bytes, 0);
        EXPECT_GE(share * tiling.splits, depth);
        EXPECT_LT(share * (tiling.splits - 1), depth);
      }
    }
  }
}

TEST(TensorTilings, ALongDepthOfFewOutputsIsSharedFirst) {
  const Product few{.rows = 64, .columns = 128, .depth = 9216, .math = MathMode::tf32};
  EXPECT_EQ(tensor_tilings(described(9, 132), few, DType::f32).front().splits, most_tensor_splits);
}

// -- on a GPU ------------------------------------------------------------------------------------

double after(Epilogue epilogue, double value, double beside) {
  switch (epilogue) {
    case Epilogue::bias: return value + beside;
    case Epilogue::relu: return std::max(value, 0.0);
    case Epilogue::bias_relu: return std::max(value + beside, 0.0);
    case Epilogue::relu_slope: return beside > 0 ? value : 0;
    case Epilogue::gelu_slope:
      return value * (std::erfc(-beside / std::sqrt(2.0)) / 2 +
                      beside * std::exp(-beside * beside / 2) * 0.3989422804014327);
    default: return value;
  }
}

std::string text_of(const Product& p, const TensorTiling& tiling) {
  return std::to_string(p.rows) + "x" + std::to_string(p.columns) + "x" + std::to_string(p.depth) +
         (p.transpose_a ? " a^T" : " a") + (p.transpose_b ? " b^T" : " b") + ", epilogue " +
         std::to_string(int(p.epilogue)) + (p.accumulate ? ", accumulated" : "") + ", tile " +
         std::to_string(tiling.tile) + ", splits " + std::to_string(tiling.splits);
}

class TensorProducts : public OnGpu<> {
 protected:
  // The product in each of its tilings; sums are exact, but for their last rounding.
  template <class T>
  static void check(const Product& p, int64_t offset = 0) {
    const Matrix<T> a(p.batch * p.rows * p.depth, 1, offset);
    const Matrix<T> b(p.batch * p.depth * p.columns, 2, offset);
    const std::vector<double> products = product_of(p, a, b);
    for (const TensorTiling& tiling : tensor_tilings(context().properties, p, dtype_of<T>)) {
      const Matrix<T> y(p.batch * p.rows * p.columns, 3, offset),
          y0(p.batch * p.rows * p.columns, 3);
      const bool is_bias = p.epilogue == Epilogue::bias || p.epilogue == Epilogue::bias_relu;
      const bool is_gradient = p.epilogue == Epilogue::bias_gradient;
      const int64_t length = is_bias ? p.columns : is_gradient ? p.rows : p.rows * p.columns;
      const Matrix<T> beside(length, 4, offset);
      multiply_tensor(context(), p,
                      {a.view({p.batch, p.rows, p.depth}), b.view({p.batch, p.depth, p.columns}),
                       y.view({p.batch, p.rows, p.columns}), beside.view({length})},
                      tiling);
      ADRET_CHECK(cudaDeviceSynchronize());
      const std::string what = text_of(p, tiling);
      for (size_t i = 0; i < products.size(); ++i) {
        const auto place = int64_t(i);
        const double e =
            after(p.epilogue, products[i] + (p.accumulate ? y0[place] : 0),
                  is_gradient ? 0 : beside[is_bias ? place % p.columns : place % length]);
        ASSERT_NEAR(y[place], e, tolerance<T>(e, products[i])) << what << ", element " << i;
      }
      if (is_gradient) check_rows(p, a, beside, what);
      EXPECT_TRUE(y.guard_intact() && beside.guard_intact()) << what << " wrote beyond its output";
    }
  }

  static void check_all(const Product& p, int64_t offset = 0) {
    check<float>(p, offset);
    check<bfloat16>(p, offset);
    check<float16>(p, offset);
  }

 private:
  // Of the rounding to T, and of an epilogue's arithmetic in f32.
  template <class T>
  static double tolerance(double expected, double sum) {
    return (sizeof(T) == 2 ? 0x1p-8 * std::abs(expected) : 0) + 0x1p-20 * (std::abs(sum) + 1);
  }

  template <class T>
  static std::vector<double> product_of(const Product& p, const Matrix<T>& a, const Matrix<T>& b) {
    std::vector<double> sums;
    for (int64_t item = 0; item < p.batch; ++item) {
      for (int64_t r = 0; r < p.rows; ++r) {
        for (int64_t c = 0; c < p.columns; ++c) {
          double sum = 0;
          for (int64_t k = 0; k < p.depth; ++k) {
            sum += a[item * p.rows * p.depth + (p.transpose_a ? k * p.rows + r : r * p.depth + k)] *
                   b[item * p.depth * p.columns +
                     (p.transpose_b ? c * p.depth + k : k * p.columns + c)];
          }
          sums.push_back(sum);
        }
      }
    }
    return sums;
  }

  template <class T>
  static void check_rows(const Product& p, const Matrix<T>& a, const Matrix<T>& gradient,
                         const std::string& what) {
    for (int64_t r = 0; r < p.rows; ++r) {
      double sum = 0;
      for (int64_t k = 0; k < p.depth; ++k) sum += a[k * p.rows + r];
      ASSERT_NEAR(gradient[r], sum, tolerance<T>(sum, sum)) << what << ", bias gradient " << r;
    }
  }
};

Product turned(int64_t rows, int64_t columns, int64_t depth, int turn) {
  return {.rows = rows,
          .columns = columns,
          .depth = depth,
          .transpose_a = turn % 2 == 1,
          .transpose_b = turn / 2 == 1,
          .math = MathMode::tf32};
}

// At the edges of tiles, steps and chunks, with rows that 16, 8, 4 and 2 bytes divide.
TEST_F(TensorProducts, HoweverOperandsAreTurned) {
  const int64_t sizes[][3] = {{1, 1, 1},    {16, 16, 8},    {17, 15, 9},    {33, 31, 84},
                              {64, 64, 64}, {65, 72, 130},  {10, 84, 257},  {64, 10, 256},
                              {10, 40, 60}, {30, 100, 129}, {128, 16, 512}, {5, 7, 1000}};
  for (const auto& [rows, columns, depth] : sizes) {
    for (int turn = 0; turn < 4; ++turn) check_all(turned(rows, columns, depth, turn));
  }
}

TEST_F(TensorProducts, OffTheAlignmentOfVectors) {
  for (int turn = 0; turn < 4; ++turn) {
    for (const int64_t offset : {1, 2, 4}) check_all(turned(24, 40, 136, turn), offset);
  }
}

TEST_F(TensorProducts, BatchesAndAccumulation) {
  for (int turn = 0; turn < 4; ++turn) {
    Product product = turned(20, 36, 100, turn);
    product.batch = 3;
    for (const bool accumulate : {false, true}) {
      product.accumulate = accumulate;
      check_all(product);
    }
  }
}

TEST_F(TensorProducts, Epilogues) {
  for (const Epilogue epilogue :
       {Epilogue::bias, Epilogue::relu, Epilogue::bias_relu, Epilogue::bias_gradient,
        Epilogue::relu_slope, Epilogue::gelu_slope}) {
    for (const int64_t rows : {10, 64, 70}) {
      Product product = turned(rows, 50, 200, epilogue == Epilogue::bias_gradient ? 1 : 2);
      product.epilogue = epilogue;
      check_all(product);
    }
  }
}

// To nearest, where a tensor core itself would truncate: 1 + 3/4 of the last place.
TEST_F(TensorProducts, OperandsAreRoundedToNearest) {
  const Product p = turned(16, 16, 64, 2);
  const Matrix<float> a(p.rows * p.depth, 1), b(p.depth * p.columns, 2), y(p.rows * p.columns, 3);
  const TensorView x = a.view({p.rows, p.depth}), w = b.view({p.columns, p.depth});
  std::fill_n(x.as<float>(), p.rows * p.depth, 1 + 0.75f * 0x1p-10f);
  std::fill_n(w.as<float>(), p.depth * p.columns, 1.0f);
  for (const TensorTiling& tiling : tensor_tilings(context().properties, p, DType::f32)) {
    multiply_tensor(context(), p, {x, w, y.view({p.rows, p.columns}), {}}, tiling);
    ADRET_CHECK(cudaDeviceSynchronize());
    EXPECT_EQ(y[0], 64 * (1 + 0x1p-10)) << text_of(p, tiling);
  }
}

TEST_F(TensorProducts, NaNPassesReluAndOperandsRounding) {
  Product p = turned(40, 24, 48, 2);
  p.epilogue = Epilogue::relu;
  const Matrix<float> a(p.rows * p.depth, 1), b(p.depth * p.columns, 2), y(p.rows * p.columns, 3);
  const TensorView x = a.view({p.rows, p.depth});
  x.as<float>()[3 * p.depth + 5] = NAN;
  for (const TensorTiling& tiling : tensor_tilings(context().properties, p, DType::f32)) {
    multiply_tensor(context(), p,
                    {x, b.view({p.columns, p.depth}), y.view({p.rows, p.columns}), {}}, tiling);
    ADRET_CHECK(cudaDeviceSynchronize());
    for (int64_t i = 0; i < p.rows * p.columns; ++i) {
      ASSERT_EQ(std::isnan(y[i]), i / p.columns == 3) << text_of(p, tiling) << ", element " << i;
    }
  }
}

}  // namespace
}  // namespace adret::cuda
