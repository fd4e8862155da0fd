// Image files (PNG, BMP) as tensors, and drawings of digits as MNIST has them.
#pragma once

#include <adret/core/tensor.h>

#include <filesystem>

namespace adret {

struct ImageOptions {
  // 1 gray (from colours: 0.30 R + 0.59 G + 0.11 B), 3 RGB, 4 RGBA; 0 keeps the file's. Palettes
  // are resolved, 16 bits become 8; transparency is dropped when not asked for.
  int channels = 0;
};

// (H, W, C) u8. Throws DataError with the path for a missing, empty or damaged file and for other
// formats, Error for other numbers of channels.
Tensor load_image(const std::filesystem::path& path, const ImageOptions& options = {});

enum class Invert { automatic, never, always };

struct DigitOptions {
  int64_t size = 28;  // of the result's sides
  Invert invert =
      Invert::automatic;  // automatic: when the image's border is lighter than middle gray
};

// (size, size, 1) u8, white on black: gray, transparency over white, padded to a square with the
// border's shade, then each pixel the mean of the area it covers. An image of that size, black at
// its border, is taken as it is.
Tensor load_digit(const std::filesystem::path& path, const DigitOptions& options = {});

}  // namespace adret
