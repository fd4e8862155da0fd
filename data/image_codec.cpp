// Choosing the decoder by a file's first bytes, and converting between channels.
#include <adret/core/error.h>
#include <adret/data/file_kind.h>
#include <adret/data/image_codec.h>
#include <fmt/core.h>

#include <algorithm>
#include <string_view>

namespace adret {
namespace {

uint8_t gray_of(const uint8_t* rgb) {
  return uint8_t((19595u * rgb[0] + 38470u * rgb[1] + 7471u * rgb[2] + 32768u) >> 16);
}

}  // namespace

void ImageSource::fail(const std::string& problem) const {
  throw DataError(fmt::format("[{}] {}: {}", function, name, problem));
}

void convert_channels(const uint8_t* from, int from_channels, uint8_t* to, int to_channels,
                      int64_t pixels) {
  if (from_channels == to_channels) {
    std::copy_n(from, pixels * from_channels, to);
    return;
  }
  const bool colour = from_channels >= 3;
  const int alpha = from_channels == 2 ? 1 : from_channels == 4 ? 3 : -1;
  for (int64_t i = 0; i < pixels; ++i, from += from_channels, to += to_channels) {
    if (to_channels == 1) {
      to[0] = colour ? gray_of(from) : from[0];
      continue;
    }
    for (int c = 0; c < 3; ++c) to[c] = from[colour ? c : 0];
    if (to_channels == 4) to[3] = alpha < 0 ? 255 : from[alpha];
  }
}

void decode_any(const ImageSource& source, int channels, PixelPlace place) {
  const std::string_view text(reinterpret_cast<const char*>(source.bytes.data()),
                              source.bytes.size());
  if (text.starts_with("\xff\xd8\xff")) return decode_jpeg(source, channels, place);
  if (text.starts_with("\x89PNG\r\n\x1a\n")) return decode_png(source, channels, place);
  if (text.starts_with("BM")) return decode_bmp(source, channels, place);
  if (text.starts_with("P5") || text.starts_with("P6")) return decode_pnm(source, channels, place);
  if (text.empty()) source.fail("expected an image, found 0 bytes: the file is empty");
  source.fail(fmt::format("expected a JPEG, PNG, BMP, PGM or PPM image, found {} of {} bytes",
                          describe_content(source.bytes), text.size()));
}

}  // namespace adret
