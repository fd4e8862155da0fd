// Sequences, images (N, H, W, C) and volumes in other sizes. All are linear in x.
#pragma once

#include <adret/core/size3.h>
#include <adret/core/tensor.h>

namespace adret {

// Linear in every direction; bilinear and trilinear are its names for images and volumes.
enum class Interpolation { nearest, linear, bilinear = linear, trilinear = linear };

struct InterpolateOptions {
  Interpolation mode = Interpolation::nearest;
  // Linear: the outermost centres stay where they are, instead of the outer edges.
  bool align_corners = false;
};

// x (N, H, W, C) -> (N, size.h, size.w, C). Nearest takes pixel floor(i H / size.h); bilinear
// weighs the two pixels in each direction beside (i + 0.5) H / size.h - 0.5, or with align_corners
// i (H - 1) / (size.h - 1). Throws ShapeError for other ranks, empty images or sizes, and
// align_corners with nearest.
Tensor interpolate(const Tensor& x, Size2 size, const InterpolateOptions& options = {});
// The same of sequences (N, L, C) and volumes (N, D, H, W, C). A volume is rounded to x's dtype
// twice: along D, and over H and W.
Tensor interpolate1d(const Tensor& x, int64_t size, const InterpolateOptions& options = {});
Tensor interpolate3d(const Tensor& x, Size3 size, const InterpolateOptions& options = {});

// (N, H, W, C factor^2) -> (N, H factor, W factor, C): channel c factor^2 + i factor + j goes to
// pixel (i, j) of each square (Shi et al. 2016). Throws ShapeError for channels that factor^2 does
// not divide.
Tensor pixel_shuffle(const Tensor& x, int64_t factor);
// Its inverse: (N, H factor, W factor, C) -> (N, H, W, C factor^2). Throws ShapeError for sides
// that the factor does not divide.
Tensor pixel_unshuffle(const Tensor& x, int64_t factor);

}  // namespace adret
