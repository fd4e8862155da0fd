// Writers of the formats under test, small and independent of the library's readers.
#pragma once

#include <zlib.h>

#include <cstdint>
#include <stdexcept>
#include <string>
#include <vector>

namespace adret::test {

inline std::string big_endian(uint32_t value) {
  return {char(value >> 24), char(value >> 16), char(value >> 8), char(value)};
}

// Header and body of an IDX file (http://yann.lecun.com/exdb/mnist).
inline std::string idx(uint8_t type, const std::vector<uint32_t>& sizes, const std::string& body) {
  std::string file = {0, 0, char(type), char(sizes.size())};
  for (const uint32_t size : sizes) file += big_endian(size);
  return file + body;
}

// window_bits: 31 gzip, 15 zlib.
inline std::string deflated(const std::string& content, int window_bits) {
  z_stream stream{};
  if (deflateInit2(&stream, 6, Z_DEFLATED, window_bits, 8, Z_DEFAULT_STRATEGY) != Z_OK) {
    throw std::runtime_error("deflateInit2");
  }
  std::string out(deflateBound(&stream, content.size()) + 64, '\0');
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(content.data()));
  stream.avail_in = uInt(content.size());
  stream.next_out = reinterpret_cast<Bytef*>(out.data());
  stream.avail_out = uInt(out.size());
  if (deflate(&stream, Z_FINISH) != Z_STREAM_END) throw std::runtime_error("deflate");
  out.resize(stream.total_out);
  deflateEnd(&stream);
  return out;
}
inline std::string gzipped(const std::string& content) { return deflated(content, 31); }

// A chunk of a PNG, with its length and checksum.
inline std::string png_chunk(const std::string& type, const std::string& data) {
  const std::string body = type + data;
  const auto crc =
      uint32_t(crc32(0, reinterpret_cast<const Bytef*>(body.data()), uInt(body.size())));
  return big_endian(uint32_t(data.size())) + body + big_endian(crc);
}

// A PNG (https://www.w3.org/TR/png); color_type 0 gray, 2 RGB, 3 palette, 6 RGBA. `pixels` row by
// row; `palette` RGB triples.
inline std::string png(uint32_t width, uint32_t height, uint8_t color_type,
                       const std::string& pixels, const std::string& palette = {},
                       uint8_t bits = 8) {
  std::string rows;
  const size_t row = pixels.size() / height;
  for (uint32_t y = 0; y < height; ++y) rows += '\0' + pixels.substr(y * row, row);
  std::string file = "\x89PNG\r\n\x1a\n";
  file += png_chunk("IHDR", big_endian(width) + big_endian(height) +
                                std::string{char(bits), char(color_type), 0, 0, 0});
  if (!palette.empty()) file += png_chunk("PLTE", palette);
  return file + png_chunk("IDAT", deflated(rows, 15)) + png_chunk("IEND", "");
}

}  // namespace adret::test
