// The autoencoder: shapes, learning a few images, copies and files.
#include <adret/autograd/grad_mode.h>
#include <adret/autograd/ops/regression_loss.h>
#include <adret/core/random.h>
#include <adret/layers/models/autoencoder.h>
#include <adret/optim/adam.h>
#include <adret/train/weights.h>
#include <gtest/gtest.h>

#include "tests/support/expect_error.h"
#include "tests/support/files.h"

namespace adret {
namespace {

using namespace test;

constexpr int64_t count = 8;

// White rectangles of different places and sizes on black.
Tensor rectangles() {
  std::vector<float> pixels(count * 28 * 28);
  for (int64_t i = 0; i < count; ++i) {
    for (int64_t row = 2 + 2 * i; row < 6 + 3 * i && row < 28; ++row) {
      for (int64_t column = 18 - 2 * i; column < 24 - i; ++column) {
        pixels[size_t((i * 28 + row) * 28 + column)] = 1;
      }
    }
  }
  return Tensor::from(pixels, {count, 28, 28, 1});
}

double loss_of(Autoencoder& model, const Tensor& images) {
  const NoGrad no_grad;
  return mse_loss(model(images), images).item();
}

// The same bits twice are promised in deterministic mode.
TEST(Autoencoder, GoesToItsCodeAndBack) {
  ComputeMode mode = compute_mode();
  mode.deterministic = true;
  const ComputeModeScope scope(mode);
  Autoencoder model({.code = 5});
  const Tensor code = model.encode(Tensor::zeros({3, 28, 28, 1}));
  EXPECT_EQ(code.shape(), (Shape{3, 5}));
  const Tensor images = model.decode(code);
  EXPECT_EQ(images.shape(), (Shape{3, 28, 28, 1}));
  EXPECT_EQ(model(Tensor::zeros({3, 28, 28, 1})).to_vector(), images.to_vector());
  expect_error<Error>([] { return Autoencoder({.code = 0}); }, "[Autoencoder] code is 0");
}

// Black for all gives 0.098, and the mean of the images 0.068.
TEST(Autoencoder, RefusesImagesOfOtherSizes) {
  Autoencoder net;
  for (const Shape& shape : {Shape{1, 25, 28, 1}, Shape{1, 28, 28}, Shape{1, 28, 28, 3}}) {
    expect_error<ShapeError>([&] { return net(Tensor::ones(shape)); },
                             "[Autoencoder] x is " + to_string(shape) + ", wanted (N, 28, 28, 1)");
  }
}

TEST(Autoencoder, LearnsItsImages) {
  random::manual_seed(1);
  Autoencoder model({.code = 16});
  const Tensor images = rectangles();
  Adam optimizer(model, {.lr = 2e-3});
  const double before = loss_of(model, images);
  for (int step = 0; step < 200; ++step) {
    optimizer.zero_grad();
    mse_loss(model(images), images).backward();
    optimizer.step();
  }
  const double after = loss_of(model, images);
  RecordProperty("loss", std::to_string(after));
  EXPECT_GT(before, 0.09);
  EXPECT_LT(after, 0.01);
}

TEST(Autoencoder, CanBeCopiedAndSaved) {
  Autoencoder model({.code = 4}), other({.code = 4});
  const Tensor images = rectangles();
  const double loss = loss_of(model, images);
  Autoencoder copy = model.clone();
  EXPECT_EQ(loss_of(copy, images), loss);
  EXPECT_EQ(copy.options.code, 4);
  EXPECT_NE(loss_of(other, images), loss);
  const TempDir dir;
  save_weights(model, dir / "weights");
  load_weights(other, dir / "weights");
  EXPECT_EQ(loss_of(other, images), loss);
}

}  // namespace
}  // namespace adret
