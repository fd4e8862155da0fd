// Image files (JPEG, PNG, BMP, PGM, PPM) as tensors.
#pragma once

#include <adret/core/tensor.h>

#include <cstddef>
#include <filesystem>
#include <span>
#include <string>

namespace adret {

struct ImageOptions {
  // 1 gray, 3 RGB, 4 RGBA; 0 keeps the file's (2 for gray with alpha). Palettes are resolved, 16
  // bits become 8 (the upper ones), CMYK becomes RGB; transparency is dropped when not asked for.
  // Gray of colours is 0.299 R + 0.587 G + 0.114 B; of a JPEG file it is the brightness stored in
  // it.
  int channels = 0;
};

// (H, W, C) u8, the pixels as the file holds them: an orientation noted in EXIF is not applied.
// JPEG pixels are libjpeg's with its accurate transform and smooth upsampling, as Pillow's and
// OpenCV's are. Throws DataError with the path for a missing or empty file, for one that is damaged
// or cut off, wherever (never a part of an image), and for other formats, naming what it is; Error
// for other numbers of channels. Of a PNG the chunks' checksums are compared, not that of the
// compressed stream within them; pixels of a palette's missing entries are black.
Tensor load_image(const std::filesystem::path& path, const ImageOptions& options = {});
// The same for a file that is in memory already; messages call it `name`.
Tensor decode_image(std::span<const std::byte> file, const std::string& name,
                    const ImageOptions& options = {});
// Decodes into `image` (H, W, C) u8 on the CPU, for instance a part of a batch, with its number of
// channels. Throws DataError for an image of another size.
void decode_image_into(std::span<const std::byte> file, const std::string& name,
                       const Tensor& image);

}  // namespace adret
