// A small convolutional autoencoder.
#include <adret/autograd/ops/activation.h>
#include <adret/autograd/ops/check.h>
#include <adret/autograd/ops/shape.h>
#include <adret/layers/check.h>
#include <adret/layers/models/autoencoder.h>

namespace adret {
namespace {

constexpr int64_t channels = 32, side = 7;  // of what is flattened
constexpr int64_t input_side = 4 * side;

}  // namespace

Autoencoder::Autoencoder(const AutoencoderOptions& options)
    : options{at_least(1, options.code, "Autoencoder", "code")},
      conv1(add(
          "conv1",
          Conv2d(1, 16, {.kernel = 3, .stride = 2, .padding = 1, .activation = Activation::relu}))),
      conv2(add("conv2",
                Conv2d(16, channels,
                       {.kernel = 3, .stride = 2, .padding = 1, .activation = Activation::relu}))),
      to_code(add("to_code", Linear(channels * side * side, options.code))),
      from_code(add("from_code", Linear(options.code, channels * side * side,
                                        {.activation = Activation::relu}))),
      up1(add("up1", ConvTranspose2d(channels, 16, {.kernel = 4, .stride = 2, .padding = 1}))),
      up2(add("up2", ConvTranspose2d(16, 1, {.kernel = 4, .stride = 2, .padding = 1}))) {}

Tensor Autoencoder::encode(const Tensor& x) {
  const bool fits = x.rank() == 4 && x.shape().without(0) == Shape{input_side, input_side, 1};
  if (!fits) check::refuse_shape("Autoencoder", {"x", x}, "(N, 28, 28, 1)");
  return to_code(flatten(conv2(conv1(x))));
}

Tensor Autoencoder::decode(const Tensor& code) {
  const Tensor images = from_code(code).reshape({-1, channels, side, side});  // flatten's order
  return up2(relu(up1(permute(images, {0, 2, 3, 1}))));
}

}  // namespace adret
