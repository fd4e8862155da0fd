// Convolutions and transposed ones of volumes, made of those of images.
#include <adret/autograd/ops/arithmetic.h>
#include <adret/autograd/ops/conv.h>
#include <adret/autograd/ops/conv_parts.h>
#include <adret/autograd/ops/create.h>
#include <adret/autograd/ops/pad.h>
#include <adret/autograd/ops/places.h>
#include <adret/autograd/ops/shape.h>

namespace adret {
namespace {

// Note [Volumes as images]
// An output slice of a convolution of volumes depends on KD slices of its input. Put beside each
// other as channels they are an image, with KD C / groups channels a group, and the weights
// (O, KH, KW, KD C / groups) those of a convolution of images: one such convolution of N OD images
// is all of it. The slices are gathered, and a permutation puts their channels together; where each
// slice is used once and in order, as for KD = 1, for a kernel as deep as the volume, and for
// patches side by side, nothing is gathered. A transposed convolution goes the same way back: its
// slices are added up where they overlap.

// Slice i, tap k is slice i stride + k dilation of the padded volume.
struct DepthTaps {
  int64_t slices, taps, stride, dilation;

  int64_t count() const { return slices * taps; }
  // Whether they are slices 0, 1, 2 ...
  bool in_order() const { return (taps == 1 || dilation == 1) && (slices == 1 || stride == taps); }
  // Made of kernels, so that a recorded step has them as constants.
  Tensor places(Device device) const {
    const TensorOptions wide{.dtype = DType::f64, .device = device};
    const Tensor first = arange(0, double(slices), 1, wide) * double(stride);
    const Tensor tap = arange(0, double(taps), 1, wide) * double(dilation);
    return (first.reshape({slices, 1}) + tap.reshape({1, taps})).to(DType::i64).reshape({count()});
  }
};

// (O, KD, KH, KW, C) -> (O, KH, KW, KD C).
Tensor weight_of_images(const Tensor& weight) {
  const int64_t o = weight.size(0), kd = weight.size(1), kh = weight.size(2), kw = weight.size(3),
                c = weight.size(4);
  const bool moves = kd > 1 && kh * kw > 1;
  const Tensor ordered = moves ? permute(weight, {0, 2, 3, 1, 4}) : weight;
  return ordered.reshape({o, kh, kw, kd * c});
}

// (N, D, H, W, C) -> (N slices, H, W, groups taps C / groups).
Tensor beside_channels(const Tensor& x, const DepthTaps& depth, int64_t groups) {
  const int64_t n = x.size(0), h = x.size(2), w = x.size(3), c = x.size(4);
  Tensor slices = x;
  if (!depth.in_order()) {
    slices = gather_places(x, {"conv3d", 1, depth.places(x.device())});
  } else if (depth.count() < x.size(1)) {
    slices = slice(x, 1, 0, depth.count());
  }
  if (depth.taps > 1) {
    slices = permute(slices.reshape({n * depth.slices, depth.taps, h * w, groups, c / groups}),
                     {0, 2, 3, 1, 4});
  }
  return slices.reshape({n * depth.slices, h, w, depth.taps * c});
}

struct DepthResult {
  int64_t size, groups;
};

// (N slices, H, W, groups taps C / groups) -> (N, size, H, W, C), the way back from
// beside_channels; 0 in slices that none goes to.
Tensor added_in_depth(const Tensor& images, const DepthTaps& depth, const DepthResult& result) {
  const int64_t groups = result.groups;
  const int64_t n = images.size(0) / depth.slices, h = images.size(1), w = images.size(2),
                c = images.size(3) / depth.taps;
  Tensor slices = images;
  if (depth.taps > 1) {
    slices = permute(images.reshape({n * depth.slices, h * w, groups, depth.taps, c / groups}),
                     {0, 3, 1, 2, 4});
  }
  slices = slices.reshape({n, depth.count(), h, w, c});
  if (depth.in_order() && depth.count() == result.size) return slices;
  return sum_to_places(slices, {"conv_transpose3d", 1, depth.places(images.device())},
                       empty_like(images, {n, result.size, h, w, c}));
}

}  // namespace

Tensor conv3d(const Tensor& x, const Tensor& weight, const Tensor& bias,
              const Conv3dOptions& options) {
  const char* const name = "conv3d";
  const FunctionScope scope(name);
  check::rank(name, {"x", x}, 5, "(N, D, H, W, C)");
  check::rank(name, {"weight", weight}, 5, "(O, KD, KH, KW, C / groups)");
  check_operands(name, x, weight, bias);
  check_activation(name, options.activation);
  const auto sizes = conv_sizes<Size3>(name, options, weight);
  check_conv(name, x, weight, bias, sizes);
  const Size3 output = conv_output(name, x.shape(), sizes), end = sizes.end_padding;

  const int64_t ends = sizes.padding.d;
  const bool pads = ends > 0 || end != Size3(0);
  const Tensor padded = pads ? pad(x, {{}, {ends, ends + end.d}, {0, end.h}, {0, end.w}, {}}) : x;
  const DepthTaps depth{output.d, sizes.kernel.d, sizes.stride.d, sizes.dilation.d};
  const Tensor images =
      conv2d(beside_channels(padded, depth, sizes.groups), weight_of_images(weight), bias,
             {.stride = sizes.stride.plane(),
              .padding = sizes.padding.plane(),
              .dilation = sizes.dilation.plane(),
              .groups = sizes.groups,
              .activation = options.activation});
  return images.reshape(around(x.size(0), output, weight.size(0)));
}

Tensor conv_transpose3d(const Tensor& x, const Tensor& weight, const Tensor& bias,
                        const ConvTranspose3dOptions& options) {
  const char* const name = "conv_transpose3d";
  const FunctionScope scope(name);
  check::rank(name, {"x", x}, 5, "(N, D, H, W, I)");
  check::rank(name, {"weight", weight}, 5, "(I, KD, KH, KW, O / groups)");
  check_operands(name, x, weight, bias);
  const auto sizes = conv_sizes<Size3>(name, options, weight);
  check_conv_transpose(name, x, weight, bias, sizes);
  const Size3 output = conv_transpose_output(name, x.shape(), options.output_padding, sizes);

  const int64_t n = x.size(0), d = x.size(1);
  const Tensor images = conv_transpose2d(x.reshape({n * d, x.size(2), x.size(3), x.size(4)}),
                                         weight_of_images(weight), {},
                                         {.stride = sizes.stride.plane(),
                                          .padding = sizes.padding.plane(),
                                          .dilation = sizes.dilation.plane(),
                                          .output_padding = options.output_padding.plane(),
                                          .groups = sizes.groups});
  const DepthTaps depth{d, sizes.kernel.d, sizes.stride.d, sizes.dilation.d};
  const int64_t ends = sizes.padding.d;
  Tensor y = added_in_depth(images, depth, {output.d + 2 * ends, sizes.groups});
  if (ends > 0) y = slice(y, 1, ends, ends + output.d);
  return bias.defined() ? y + bias : y;
}

}  // namespace adret
