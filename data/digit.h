// Drawings of digits, brought to MNIST's form.
#pragma once

#include <adret/core/tensor.h>

#include <filesystem>

namespace adret {

enum class Invert { automatic, never, always };

struct DigitOptions {
  int64_t size = 28;  // of the result's sides
  Invert invert =
      Invert::automatic;  // automatic: when the image's border is lighter than middle gray
};

// (size, size, 1) u8, white on black: gray, transparency over white, padded to a square with the
// border's shade, then each pixel the mean of the area it covers. An image of that size, black at
// its border, is taken as it is. Throws DataError as load_image does.
Tensor load_digit(const std::filesystem::path& path, const DigitOptions& options = {});

}  // namespace adret
