// The decoders behind data/image_file.h, one for each family of formats.
#pragma once

#include <adret/core/thread_pool.h>

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

namespace adret {

// A whole file in memory, and how messages about it begin.
struct ImageSource {
  const char* function;
  std::span<const std::byte> bytes;
  const std::string& name;

  const uint8_t* data() const { return reinterpret_cast<const uint8_t*>(bytes.data()); }
  // Throws a DataError with the name.
  [[noreturn]] void fail(const std::string& problem) const;
};

struct ImageSize {
  int64_t height = 0, width = 0;
  int channels = 0;  // of the result

  int64_t pixels() const { return height * width; }
};

// Asked once, when the size of the result is known: where its bytes go, row by row. May throw.
using PixelPlace = FunctionRef<uint8_t*(const ImageSize&)>;

// Each gives `channels` (1, 3 or 4; 0 for the file's own) and throws DataError for a damaged file,
// in which case what was written is of no use.
void decode_jpeg(const ImageSource& source, int channels, PixelPlace place);
void decode_png(const ImageSource& source, int channels, PixelPlace place);
void decode_bmp(const ImageSource& source, int channels, PixelPlace place);
void decode_pnm(const ImageSource& source, int channels, PixelPlace place);

// The decoder for the file's kind. Throws DataError naming the kind when there is none.
void decode_any(const ImageSource& source, int channels, PixelPlace place);

// Pixels with 1 to 4 channels (gray, gray and alpha, RGB, RGBA) as pixels with 1, 3 or 4.
// Transparency is dropped; gray is (19595 R + 38470 G + 7471 B) / 65536, rounded, as Pillow's.
void convert_channels(const uint8_t* from, int from_channels, uint8_t* to, int to_channels,
                      int64_t pixels);

}  // namespace adret
