// The networks of 3x3 convolutions by Simonyan and Zisserman (2015, arXiv:1409.1556), with
// torchvision's names.
#pragma once

#include <adret/layers/linear.h>
#include <adret/layers/models/blocks.h>
#include <adret/layers/sequential.h>

#include <array>

namespace adret {

// Convolutions of each of the five resolutions: a column of the paper's table 1.
using VggDepth = std::array<int64_t, 5>;

struct VggOptions {
  int64_t classes = 10;
  bool batch_norm = false;  // behind every convolution
  Stem head = Stem::cifar;
  double dropout = 0.5;  // in imagenet's head
};

// (N, H, W, 3) -> logits (N, classes). The features are the image's at 1/32 of its size, 512
// channels. The cifar head averages them and has one linear layer; imagenet's averages them to 7x7
// and has three, with dropout.
class Vgg : public Layer<Vgg> {
 public:
  explicit Vgg(const VggDepth& depth, const VggOptions& options = {});
  // Throws ShapeError for images below 32x32, and in front of imagenet's head for sizes that are
  // not multiples of 224.
  Tensor forward(const Tensor& x);
  Vgg rebuild() const { return Vgg(depth, options); }

  const VggDepth depth;
  const VggOptions options;
  Sequential& features;
  Sequential& classifier;
};

inline Vgg vgg11(const VggOptions& options = {}) { return Vgg({1, 1, 2, 2, 2}, options); }
inline Vgg vgg16(const VggOptions& options = {}) { return Vgg({2, 2, 3, 3, 3}, options); }

}  // namespace adret
