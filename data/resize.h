// Images of another size: resized, or their centre cut out.
#pragma once

#include <adret/core/size2.h>
#include <adret/core/tensor.h>

#include <cstdint>

namespace adret {

// Images (N, H, W, C) or one image (H, W, C), u8, of 1 to 4 channels. Throw ShapeError for others.

// Bilinear, with the filter widened to cover all pixels when it reduces, as in Pillow: the same
// levels as Pillow's BILINEAR on every device. Throws Error for a size below 1.
Tensor resize(const Tensor& images, Size2 size);
// The shorter side becomes `length`, the other one keeps the ratio, rounded down.
Tensor resize_shorter_side(const Tensor& images, int64_t length);
// Throws ShapeError for a size larger than the images or of 2^31 elements. Rows and columns on both
// sides differ by one at most, with fewer above and on the left.
Tensor center_crop(const Tensor& images, Size2 size);

}  // namespace adret
