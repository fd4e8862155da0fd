// PNG and BMP by stb_image, which gets only files whose parts are complete.
#include <adret/data/image_codec.h>
#include <fmt/core.h>
#include <zlib.h>

#include <algorithm>
#include <cstdlib>
#include <limits>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

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

constexpr uint64_t around = 12;  // a PNG chunk's length, type and checksum

// Every chunk up to the last is there, with the checksum it carries (https://www.w3.org/TR/png).
// Gives the offset of the palette, or 0.
uint64_t check_png_chunks(const ImageSource& source) {
  uint64_t palette = 0;
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
    const std::string_view type(reinterpret_cast<const char*>(chunk) + 4, 4);
    if (type == "IEND") return palette;
    if (type == "PLTE" && palette == 0) palette = offset;
    offset += length + around;
  }
  source.fail(
      fmt::format("the PNG image is cut off: its {} bytes end before its last chunk", size));
}

// The file with a black palette of all 256 entries before its own: stb_image leaves entries that a
// palette lacks uninitialised, and pixels may name them. It compares no checksums.
std::vector<std::byte> with_black_palette(std::span<const std::byte> file, uint64_t palette) {
  constexpr uint64_t bytes = 3 * 256;
  std::vector<std::byte> black(around + bytes);
  black[2] = std::byte(bytes >> 8);  // the length, big-endian
  std::copy_n(file.data() + palette + 4, 4, black.data() + 4);
  std::vector<std::byte> padded(file.begin(), file.end());
  padded.insert(padded.begin() + int64_t(palette), black.begin(), black.end());
  return padded;
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
  const uint64_t palette = check_png_chunks(source);
  if (palette == 0) return decode_by_stb(source, "PNG", channels, place);
  const std::vector<std::byte> padded = with_black_palette(source.bytes, palette);
  decode_by_stb({source.function, padded, source.name}, "PNG", channels, place);
}

void decode_bmp(const ImageSource& source, int channels, PixelPlace place) {
  check_bmp_rows(source);
  decode_by_stb(source, "BMP", channels, place);
}

}  // namespace adret
