// A small convolutional autoencoder for images of MNIST's size.
#pragma once

#include <adret/layers/conv.h>
#include <adret/layers/linear.h>

namespace adret {

struct AutoencoderOptions {
  int64_t code = 32;  // numbers an image becomes
};

// (N, 28, 28, 1) -> the same: two convolutions of stride 2 and a linear layer to the code, and the
// way back with transposed convolutions. Nothing bounds the last one, so that no pixel's gradient
// vanishes: train it with mse_loss against its input, or take its results as logits.
class Autoencoder : public Layer<Autoencoder> {
 public:
  // Throws Error for a code below 1.
  explicit Autoencoder(const AutoencoderOptions& options = {});
  Tensor forward(const Tensor& x) { return decode(encode(x)); }
  Autoencoder rebuild() const { return Autoencoder(options); }

  // (N, 28, 28, 1) -> (N, code). Throws ShapeError for images of other sizes.
  Tensor encode(const Tensor& x);
  Tensor decode(const Tensor& code);  // (N, code) -> (N, 28, 28, 1)

  const AutoencoderOptions options;
  Conv2d &conv1, &conv2;
  Linear &to_code, &from_code;
  ConvTranspose2d &up1, &up2;
};

}  // namespace adret
