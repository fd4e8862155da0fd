// Images (N, H, W, C) in other sizes. All are linear in x.
#pragma once

#include <adret/core/size3.h>
#include <adret/core/tensor.h>

namespace adret {

enum class Interpolation { nearest, bilinear };

struct InterpolateOptions {
  Interpolation mode = Interpolation::nearest;
  // Bilinear: the corner pixels' centres stay where they are, instead of the image's edges.
  bool align_corners = false;
};

// x (N, H, W, C) -> (N, size.h, size.w, C). Nearest takes pixel floor(i H / size.h); bilinear
// weighs the two pixels in each direction beside (i + 0.5) H / size.h - 0.5, or with align_corners
// i (H - 1) / (size.h - 1). Throws ShapeError for other ranks and empty images or sizes.
Tensor interpolate(const Tensor& x, Size2 size, const InterpolateOptions& options = {});

// (N, H, W, C factor^2) -> (N, H factor, W factor, C): channel c factor^2 + i factor + j goes to
// pixel (i, j) of each square (Shi et al. 2016). Throws ShapeError for channels that factor^2 does
// not divide.
Tensor pixel_shuffle(const Tensor& x, int64_t factor);

}  // namespace adret
