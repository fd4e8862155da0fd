// Batch normalisation against PyTorch's values and against loops in f64.
#include <adret/core/kernels/kernel.h>
#include <adret/core/tensor.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "tests/support/close.h"
#include "tests/support/guarded.h"

namespace adret {
namespace {

using namespace test;
using Values = std::vector<double>;

// PyTorch 1.13.1:
//   x = tensor([[1, -2], [3, 0.5], [-1, 4], [2, 1]], dtype=float64, requires_grad=True)
//   w, b = tensor([1.5, -0.5]), tensor([0.25, 1]);  rm, rv = tensor([1, 2]), tensor([3, 4])
//   y = F.batch_norm(x, rm, rv, w, b, training=True, momentum=0.1, eps=1e-3)
//   y.backward(tensor([[1, 0.5], [-2, 1], [0.25, -1], [3, 2]]))
//   F.batch_norm(x, rm, rv, w, b, training=False, eps=1e-3)
const Values x_values{1, -2, 3, 0.5, -1, 4, 2, 1}, dy_values{1, 0.5, -2, 1, 0.25, -1, 3, 2};
const Values weight_values{1.5, -0.5}, bias_values{0.25, 1};
const Values torch_y{-0.00348834285, 1.67406782,  2.0244184,  1.08792189,
                     -2.03139509,    0.267317588, 1.01046503, 0.970692704};
const Values torch_running_mean{1.025, 1.8875}, torch_running_var{2.99166667, 4.20625};
const Values torch_dx{0.383881078,  0.202997916, -2.18019086, -0.0652665912,
                      -0.854372122, 0.192200703, 2.65068191,  -0.329932027};
const Values torch_dweight{-1.39418589, -2.19804724}, torch_dbias{2.25, 2.5};
const Values torch_inference{0.228322854, 1.94763534,  1.9624945,  1.33822354,
                             -1.50584879, 0.485047036, 1.09540868, 1.21634119};

template <class T>
void expect_pytorch(Tolerance tolerance) {
  const Guarded<T> x({4, 2}, x_values), dy({4, 2}, dy_values), y({4, 2}), dx({4, 2});
  const Guarded<T> weight({2}, weight_values), bias({2}, bias_values), mean({2}), rstd({2});
  const Guarded<T> running_mean({2}, {1, 2}), running_var({2}, {3, 4}), dweight({2}), dbias({2});
  run(kernels::BatchNormForward{.x = x,
                                .weight = weight,
                                .bias = bias,
                                .running_mean = running_mean,
                                .running_var = running_var,
                                .y = y,
                                .mean = mean,
                                .rstd = rstd,
                                .momentum = 0.1,
                                .epsilon = 1e-3});
  expect_close(y.values(), torch_y, tolerance, "y");
  expect_close(mean.values(), {1.25, 0.875}, tolerance, "mean");
  expect_close(rstd.values(), {0.675968914, 0.468916744}, tolerance, "rstd");
  expect_close(running_mean.values(), torch_running_mean, tolerance, "running_mean");
  expect_close(running_var.values(), torch_running_var, tolerance, "running_var");
  run(kernels::BatchNormBackward{.x = x,
                                 .dy = dy,
                                 .weight = weight,
                                 .mean = mean,
                                 .rstd = rstd,
                                 .dx = dx,
                                 .dweight = dweight,
                                 .dbias = dbias});
  expect_close(dx.values(), torch_dx, tolerance, "dx");
  expect_close(dweight.values(), torch_dweight, tolerance, "dweight");
  expect_close(dbias.values(), torch_dbias, tolerance, "dbias");
  run(kernels::BatchNormInference{.x = x,
                                  .weight = weight,
                                  .bias = bias,
                                  .mean = running_mean,
                                  .var = running_var,
                                  .y = y,
                                  .epsilon = 1e-3});
  expect_close(y.values(), torch_inference, tolerance, "inference");
  EXPECT_TRUE(y.guards_intact() && dx.guards_intact() && mean.guards_intact());
}

TEST(BatchNorm, MatchesPyTorch) {
  expect_pytorch<double>({.absolute = 1e-8});  // the digits printed above
  expect_pytorch<float>({.absolute = 1e-6});   // a few roundings of f32 at 1
}

struct Reference {
  Values y, mean, rstd, dx, dweight, dbias;
};

// Channel by channel from the definition, without weight and bias.
Reference reference(const Values& x, const Values& dy, size_t channels, double epsilon) {
  const size_t rows = x.size() / channels;
  const double n = double(rows);
  Reference r;
  r.y.resize(x.size());
  r.dx.resize(x.size());
  for (size_t c = 0; c < channels; ++c) {
    double mean = 0, variance = 0, sum = 0, product = 0;
    for (size_t i = c; i < x.size(); i += channels) mean += x[i] / n;
    for (size_t i = c; i < x.size(); i += channels) variance += (x[i] - mean) * (x[i] - mean) / n;
    const double rstd = 1 / std::sqrt(variance + epsilon);
    for (size_t i = c; i < x.size(); i += channels) {
      r.y[i] = (x[i] - mean) * rstd;
      sum += dy[i];
      product += dy[i] * r.y[i];
    }
    for (size_t i = c; i < x.size(); i += channels) {
      r.dx[i] = rstd * (dy[i] - sum / n - r.y[i] * product / n);
    }
    r.mean.push_back(mean);
    r.rstd.push_back(rstd);
    r.dbias.push_back(sum);
    r.dweight.push_back(product);
  }
  return r;
}

template <class T>
void expect_matches(const Shape& shape, const Values& x_values, Tolerance tolerance) {
  const int64_t channels = shape[-1];
  const Values dy_values = random_values(shape.numel(), 9);
  const Guarded<T> x(shape, x_values), dy(shape, dy_values), y(shape), dx(shape);
  const Guarded<T> mean({channels}), rstd({channels}), dweight({channels}), dbias({channels});
  run(kernels::BatchNormForward{.x = x, .y = y, .mean = mean, .rstd = rstd});
  run(kernels::BatchNormBackward{
      .x = x, .dy = dy, .mean = mean, .rstd = rstd, .dx = dx, .dweight = dweight, .dbias = dbias});
  const Reference r = reference(x.values(), dy_values, size_t(channels), 1e-5);
  const std::string what = to_string(shape);
  expect_close(y.values(), r.y, tolerance, what + " y");
  expect_close(mean.values(), r.mean,
               {.relative = tolerance.absolute, .absolute = tolerance.absolute}, what + " mean");
  expect_close(rstd.values(), r.rstd, {.relative = tolerance.absolute}, what + " rstd");
  expect_close(dx.values(), r.dx, {tolerance.absolute, 10 * tolerance.absolute}, what + " dx");
  const double count = double(shape.numel() / channels);
  const Tolerance sums{.absolute = tolerance.absolute * std::sqrt(count) * 10};
  expect_close(dbias.values(), r.dbias, sums, what + " dbias");
  expect_close(dweight.values(), r.dweight, sums, what + " dweight");
  EXPECT_TRUE(y.guards_intact() && dx.guards_intact() && dbias.guards_intact());
}

TEST(BatchNorm, MatchesTheDefinitionForManyShapes) {
  for (const Shape& shape :
       {Shape{2, 1}, Shape{17, 3}, Shape{5, 4, 3, 16}, Shape{8, 14, 14, 32}, Shape{40, 130},
        Shape{1, 7, 7, 300}, Shape{20'000, 5}, Shape{1, 64}, Shape{256, 64}, Shape{257, 64},
        Shape{2049, 64}, Shape{4099, 8}, Shape{9001, 24}, Shape{1003, 512}, Shape{257, 2048}}) {
    const Values x = random_values(shape.numel(), 7);
    expect_matches<double>(shape, x, {.absolute = 1e-11});
    expect_matches<float>(shape, x, {.relative = 2e-6, .absolute = 3e-6});
  }
}

// What relu and a residual make of the definition above, with weight and bias.
struct FusedReference {
  Values y, dx, dweight, dbias, dresidual, mean, var;
};

struct Operands {
  Values x, dy, weight, bias, residual;  // residual may be empty
};

FusedReference fused_reference(Operands& in, bool relu) {
  const size_t channels = in.weight.size();
  const Reference plain = reference(in.x, in.dy, channels, 1e-5);
  FusedReference r;
  for (size_t i = 0; i < in.x.size(); ++i) {
    double value = plain.y[i] * in.weight[i % channels] + in.bias[i % channels];
    if (!in.residual.empty()) value += in.residual[i];
    if (relu && std::abs(value) < 1e-4) in.dy[i] = 0;  // f32 may round to the other side
    r.y.push_back(relu ? std::max(value, 0.0) : value);
    r.dresidual.push_back(relu && value <= 0 ? 0.0 : in.dy[i]);
  }
  const Reference masked = reference(in.x, r.dresidual, channels, 1e-5);
  r.dx = masked.dx;
  for (size_t i = 0; i < in.x.size(); ++i) r.dx[i] *= in.weight[i % channels];
  r.dweight = masked.dweight;
  r.dbias = masked.dbias;
  r.mean = masked.mean;
  for (double rstd : masked.rstd) r.var.push_back(1 / (rstd * rstd) - 1e-5);
  return r;
}

// Whether the gradient of the residual is asked for, and whether dy comes as the sum of two.
enum class Gradients { not_kept, kept, summed };

template <class T>
void expect_fused(const Shape& shape, bool with_residual, kernels::Activation activation,
                  Tolerance tolerance) {
  const int64_t channels = shape[-1], count = shape.numel();
  Operands in{random_values(count, 21), random_values(count, 22), random_values(channels, 23),
              random_values(channels, 24), with_residual ? random_values(count, 25) : Values()};
  const FusedReference r = fused_reference(in, activation == kernels::Activation::relu);
  const Guarded<T> x(shape, in.x), dy(shape, in.dy), y(shape), again(shape);
  const Guarded<T> weight({channels}, in.weight), bias({channels}, in.bias);
  const Guarded<T> mean({channels}), rstd({channels}), saved_mean({channels}, r.mean);
  const Guarded<T> var({channels}, r.var);
  const Guarded<T> added(with_residual ? shape : Shape{0}, in.residual);
  const TensorView residual = with_residual ? TensorView(added) : TensorView();
  const std::string what = to_string(shape) + (with_residual ? " with a residual" : "");
  run(kernels::BatchNormForward{.x = x,
                                .weight = weight,
                                .bias = bias,
                                .residual = residual,
                                .y = y,
                                .mean = mean,
                                .rstd = rstd,
                                .activation = activation});
  expect_close(y.values(), r.y, tolerance, what + " y");
  run(kernels::BatchNormInference{.x = x,
                                  .weight = weight,
                                  .bias = bias,
                                  .residual = residual,
                                  .mean = saved_mean,
                                  .var = var,
                                  .y = again,
                                  .activation = activation});
  expect_close(again.values(), r.y, tolerance, what + " inference");

  Values doubled, negated;  // their sum is exact
  for (const double value : in.dy) {
    doubled.push_back(2 * value);
    negated.push_back(-value);
  }
  const Guarded<T> twice(shape, doubled), negative(shape, negated);
  const Tolerance sums{.absolute = tolerance.absolute * std::sqrt(double(count / channels)) * 10};
  for (const bool give_y : {true, false}) {
    if (with_residual && !give_y) continue;
    for (const Gradients gradients : {Gradients::kept, Gradients::summed, Gradients::not_kept}) {
      const bool keep = gradients != Gradients::not_kept, sums_two = gradients == Gradients::summed;
      if (sums_two && (!give_y || activation != kernels::Activation::relu)) continue;
      const Guarded<T> dx(shape), dweight({channels}), dbias({channels}), dresidual(shape);
      run(kernels::BatchNormBackward{.x = x,
                                     .dy = sums_two ? twice : dy,
                                     .dy_added = sums_two ? TensorView(negative) : TensorView(),
                                     .y = give_y ? TensorView(y) : TensorView(),
                                     .weight = weight,
                                     .bias = bias,
                                     .mean = mean,
                                     .rstd = rstd,
                                     .dx = dx,
                                     .dweight = dweight,
                                     .dbias = dbias,
                                     .dresidual = keep ? TensorView(dresidual) : TensorView(),
                                     .activation = activation});
      expect_close(dx.values(), r.dx, {tolerance.absolute, 10 * tolerance.absolute}, what + " dx");
      expect_close(dweight.values(), r.dweight, sums, what + " dweight");
      expect_close(dbias.values(), r.dbias, sums, what + " dbias");
      if (keep) expect_close(dresidual.values(), r.dresidual, {}, what + " dresidual");
      EXPECT_TRUE(dx.guards_intact() && dresidual.guards_intact());
    }
  }
  EXPECT_TRUE(y.guards_intact() && again.guards_intact());
}

TEST(BatchNorm, FusesAResidualAndRelu) {
  using kernels::Activation;
  for (const Shape& shape : {Shape{2, 1}, Shape{17, 3}, Shape{5, 4, 3, 16}, Shape{8, 14, 14, 32},
                             Shape{40, 130}, Shape{20'000, 5}, Shape{2100, 8}, Shape{1111, 24},
                             Shape{5003, 64}, Shape{301, 72}, Shape{521, 512}}) {
    for (const bool residual : {false, true}) {
      for (const Activation activation : {Activation::none, Activation::relu}) {
        expect_fused<double>(shape, residual, activation, {.absolute = 1e-11});
        expect_fused<float>(shape, residual, activation, {.relative = 2e-6, .absolute = 3e-6});
      }
    }
  }
}

// x and dy together are 31 MB in f32, more than the shared memory of an H200, and x alone is in
// f64.
TEST(BatchNorm, TakesMoreThanADeviceKeepsOnChip) {
  for (const bool residual : {false, true}) {
    expect_fused<float>({60'000, 64}, residual, kernels::Activation::relu,
                        {.relative = 2e-6, .absolute = 3e-6});
  }
}

TEST(BatchNorm, UpdatesItsStatisticsOnceForManyRows) {
  const Shape shape{6000, 64};
  const Guarded<float> x(shape, random_values(shape.numel(), 12)), y(shape), mean({64}), rstd({64});
  const Guarded<float> running_mean({64}, Values(64, 1)), running_var({64}, Values(64, 2));
  const Tensor batches = Tensor::zeros({}, {.dtype = DType::i64});
  for (int i = 0; i < 2; ++i) {
    run(kernels::BatchNormForward{.x = x,
                                  .running_mean = running_mean,
                                  .running_var = running_var,
                                  .num_batches = batches,
                                  .y = y,
                                  .mean = mean,
                                  .rstd = rstd});
  }
  const Reference r = reference(x.values(), x.values(), 64, 1e-5);
  Values means, variances;
  for (size_t c = 0; c < 64; ++c) {
    means.push_back(0.81 + 0.19 * r.mean[c]);
    const double variance = (1 / (r.rstd[c] * r.rstd[c]) - 1e-5) * 6000 / 5999;
    variances.push_back(0.81 * 2 + 0.19 * variance);
  }
  expect_close(running_mean.values(), means, {.absolute = 1e-6}, "running_mean");
  expect_close(running_var.values(), variances, {.relative = 1e-6}, "running_var");
  EXPECT_EQ(batches.item<int64_t>(), 2);
}

TEST(BatchNorm, ReluKeepsNaN) {
  const Guarded<float> x({2, 2}, {1, NAN, 3, 1}), y({2, 2}), mean({2}), rstd({2});
  run(kernels::BatchNormForward{
      .x = x, .y = y, .mean = mean, .rstd = rstd, .activation = kernels::Activation::relu});
  const Values values = y.values();
  EXPECT_EQ(values[0], 0);
  EXPECT_NEAR(values[2], 1, 1e-4);
  EXPECT_TRUE(std::isnan(values[1]) && std::isnan(values[3]));
}

TEST(BatchNorm, GivesTheGradientOfTheResidualAlone) {
  const Guarded<float> x({2, 1}, {-1, 1}), dy({2, 1}, {3, 5}), y({2, 1}, {0, 2}), mean({1}, {0});
  const Guarded<float> rstd({1}, {1}), dresidual({2, 1});
  run(kernels::BatchNormBackward{.x = x,
                                 .dy = dy,
                                 .y = y,
                                 .mean = mean,
                                 .rstd = rstd,
                                 .dresidual = dresidual,
                                 .activation = kernels::Activation::relu});
  EXPECT_EQ(dresidual.values(), (Values{0, 5}));
}

TEST(BatchNorm, KeepsItsPrecisionForALargeMean) {
  const Shape shape{3000, 16};
  Values x = random_values(shape.numel(), 8);
  for (double& v : x) v = double(float(1e4 + std::sqrt(3.0) * v));  // standard deviation 1
  // The reference sees the rounded x. The mean is saved in f32, 5e-4 from its value at 1e4, which
  // shows in dweight and dx only; y is free of it.
  const Guarded<float> in(shape, x), y(shape), mean({16}), rstd({16});
  run(kernels::BatchNormForward{.x = in, .y = y, .mean = mean, .rstd = rstd});
  const Reference r = reference(x, x, 16, 1e-5);
  expect_close(y.values(), r.y, {.absolute = 3e-6}, "y");
  expect_close(rstd.values(), r.rstd, {.relative = 2e-6}, "rstd");
  expect_matches<double>(shape, x, {.absolute = 1e-8});
}

TEST(BatchNorm, TakesAConstantChannelAndAnOutlier) {
  const Guarded<float> x({4, 2}, {5, 1e6, 5, 0, 5, 0, 5, 0}), y({4, 2}), mean({2}), rstd({2});
  run(kernels::BatchNormForward{.x = x, .y = y, .mean = mean, .rstd = rstd, .epsilon = 1e-4});
  // By hand: no variance gives zeros and rstd 100; one of four gives sqrt(3) and -1 / sqrt(3).
  const double s = std::sqrt(3.0);
  expect_close(y.values(), {0, s, 0, -1 / s, 0, -1 / s, 0, -1 / s}, {.relative = 1e-6}, "y");
  EXPECT_NEAR(rstd.values()[0], 100, 1e-4);
}

TEST(BatchNorm, LeavesTheRunningStatisticsAloneForAnEmptyBatch) {
  const Guarded<float> x({0, 3}), y({0, 3}), mean({3}), rstd({3}), dweight({3}), dbias({3});
  const Guarded<float> running_mean({3}, {1, 2, 3}), running_var({3}, {4, 5, 6});
  run(kernels::BatchNormForward{.x = x,
                                .running_mean = running_mean,
                                .running_var = running_var,
                                .y = y,
                                .mean = mean,
                                .rstd = rstd});
  EXPECT_EQ(running_mean.values(), (Values{1, 2, 3}));
  EXPECT_EQ(running_var.values(), (Values{4, 5, 6}));
  run(kernels::BatchNormInference{.x = x, .mean = mean, .var = running_var, .y = y});
  run(kernels::BatchNormBackward{
      .x = x, .dy = y, .mean = mean, .rstd = rstd, .dx = y, .dweight = dweight, .dbias = dbias});
  EXPECT_EQ(dweight.values(), (Values{0, 0, 0}));
  EXPECT_EQ(dbias.values(), (Values{0, 0, 0}));
}

TEST(BatchNorm, CountsARunningVarianceOfASingleRowAsZero) {
  const Guarded<float> x({1, 1}, {3}), y({1, 1}), mean({1}), rstd({1}), running_var({1}, {1});
  run(kernels::BatchNormForward{
      .x = x, .running_var = running_var, .y = y, .mean = mean, .rstd = rstd});
  expect_close(running_var.values(), {0.9}, {.relative = 1e-6}, "running_var");
  EXPECT_EQ(y.values(), (Values{0}));
}

TEST(BatchNorm, GivesTheSameBitsForAnyNumberOfThreads) {
  const Shape shape{10'000, 24};
  const Guarded<float> x(shape, random_values(shape.numel(), 10));
  const Guarded<float> dy(shape, random_values(shape.numel(), 11));
  expect_same_for_any_threads([&] {
    const Guarded<float> y(shape), mean({24}), rstd({24}), dx(shape), dweight({24}), dbias({24});
    run(kernels::BatchNormForward{.x = x, .y = y, .mean = mean, .rstd = rstd});
    run(kernels::BatchNormBackward{.x = x,
                                   .dy = dy,
                                   .mean = mean,
                                   .rstd = rstd,
                                   .dx = dx,
                                   .dweight = dweight,
                                   .dbias = dbias});
    return std::vector{y.exact(), dx.exact(), dweight.exact(), dbias.exact()};
  });
}

}  // namespace
}  // namespace adret
