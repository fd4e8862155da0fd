// PNG and BMP by stb_image, which gets only files whose parts are complete.
#include <adret/data/image_codec.h>
#include <fmt/core.h>
#include <zlib.h>

#include <cstdlib>
#include <limits>
#include <memory>
#include <string_view>

// Only these two: version 2.27, which distributions ship, reads or writes out of bounds on
// malformed JPEG, GIF, TGA, HDR, PIC and PNM files.
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"  // of a reader that is not used here
#define STBI_ONLY_PNG
#define STBI_ONLY_BMP
#define STBI_NO_STDIO
#define STBI_FAILURE_USERMSG
#define STBI_MAX_DIMENSIONS 32768
#define STB_IMAGE_STATIC
#define STB_IMAGE_IMPLEMENTATION
#include <stb/stb_image.h>
#pragma GCC diagnostic pop

namespace adret {
namespace {

void decode_by_stb(const ImageSource& source, const char* kind, int channels, PixelPlace place) {
  if (source.bytes.size() > size_t(std::numeric_limits<int>::max())) {
    source.fail("it is larger than 2 GiB");
  }
  int width = 0, height = 0, own_channels = 0;
  const std::unique_ptr<stbi_uc, void (*)(void*)> pixels(
      stbi_load_from_memory(source.data(), int(source.bytes.size()), &width, &height, &own_channels,
                            0),
      stbi_image_free);
  if (!pixels) {
    source.fail(fmt::format("the {} image cannot be decoded ({} bytes): {}", kind,
                            source.bytes.size(), stbi_failure_reason()));
  }
  const ImageSize size = {height, width, channels ? channels : own_channels};
  convert_channels(pixels.get(), own_channels, place(size), size.channels, size.pixels());
}

uint32_t big_endian(const uint8_t* bytes) {
  return uint32_t(bytes[0]) << 24 | uint32_t(bytes[1]) << 16 | uint32_t(bytes[2]) << 8 | bytes[3];
}

uint32_t little_endian(const uint8_t* bytes, int count) {
  uint32_t value = 0;
  for (int i = count - 1; i >= 0; --i) value = value << 8 | bytes[i];
  return value;
}

// Every chunk up to the last is there, with the checksum it carries (https://www.w3.org/TR/png).
void check_png_chunks(const ImageSource& source) {
  constexpr uint64_t around = 12;  // length, type and checksum
  const uint64_t size = source.bytes.size();
  for (uint64_t offset = 8; offset + around <= size;) {
    const uint8_t* const chunk = source.data() + offset;
    const uint64_t length = big_endian(chunk);
    if (length > size - offset - around) break;
    const auto checksum = uint32_t(crc32(0, chunk + 4, unsigned(length + 4)));
    if (checksum != big_endian(chunk + 8 + length)) {
      source.fail(
          fmt::format("the PNG image is damaged: the chunk at offset {} has another "
                      "checksum than it should",
                      offset));
    }
    if (std::string_view(reinterpret_cast<const char*>(chunk) + 4, 4) == "IEND") return;
    offset += length + around;
  }
  source.fail(
      fmt::format("the PNG image is cut off: its {} bytes end before its last chunk", size));
}

// The rows that the header promises are there: stb_image takes bytes beyond the end for zeros.
void check_bmp_rows(const ImageSource& source) {
  const uint8_t* const file = source.data();
  const uint64_t size = source.bytes.size();
  const auto need = [&](uint64_t needed) {
    if (size >= needed) return;
    source.fail(fmt::format("the BMP image is cut off: expected at least {} bytes, found {}",
                            needed, size));
  };
  need(26);
  // The header of OS/2 has sizes of 16 bits.
  const bool short_header = little_endian(file + 14, 4) == 12;
  if (!short_header) need(34);
  const uint64_t offset = little_endian(file + 10, 4);
  const int size_bytes = short_header ? 2 : 4;
  const uint64_t width = little_endian(file + 18, size_bytes);
  // Below 0 for rows from the top.
  const auto rows = int32_t(little_endian(file + 18 + size_bytes, size_bytes));
  const uint64_t bits = little_endian(file + (short_header ? 24 : 28), 2);
  if (bits > 32) source.fail(fmt::format("the BMP image is damaged: it has {} bits a pixel", bits));
  need(offset + (width * bits + 31) / 32 * 4 * uint64_t(std::abs(int64_t(rows))));
}

}  // namespace

void decode_png(const ImageSource& source, int channels, PixelPlace place) {
  check_png_chunks(source);
  decode_by_stb(source, "PNG", channels, place);
}

void decode_bmp(const ImageSource& source, int channels, PixelPlace place) {
  check_bmp_rows(source);
  decode_by_stb(source, "BMP", channels, place);
}

}  // namespace adret
