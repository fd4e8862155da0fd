// Binary PGM and PPM images (https://netpbm.sourceforge.net/doc/ppm.html).
#include <adret/data/image_codec.h>
#include <fmt/core.h>

#include <algorithm>
#include <vector>

namespace adret {
namespace {

// The header: the magic number, then width, height and the largest value, with white space and
// comments between them.
class Header {
 public:
  explicit Header(const ImageSource& source) : source_(source) {
    channels = source.data()[1] == '5' ? 1 : 3;
    width = number("width");
    height = number("height");
    largest = number("largest value");
    ++offset_;  // a single white space
  }

  int64_t width = 0, height = 0, largest = 0;
  int channels = 0;

  // Of the first value.
  size_t offset() const { return offset_; }

 private:
  // The byte at the offset; 0, which no header has, at the end.
  uint8_t byte() const { return offset_ < source_.bytes.size() ? source_.data()[offset_] : 0; }

  void skip_space() {
    for (;; ++offset_) {
      if (byte() == '#') {
        while (byte() != '\n' && byte() != 0) ++offset_;
      }
      if (byte() != ' ' && (byte() < '\t' || byte() > '\r')) return;
    }
  }

  int64_t number(const char* what) {
    skip_space();
    int64_t value = 0;
    while (byte() >= '0' && byte() <= '9' && value <= 65535) {
      value = 10 * value + (byte() - '0');
      ++offset_;
    }
    if (value < 1 || value > 65535) {
      source_.fail(
          fmt::format("the header of the PGM or PPM image wants a {} of 1..65535 before offset {}",
                      what, offset_));
    }
    return value;
  }

  const ImageSource& source_;
  size_t offset_ = 2;
};

}  // namespace

void decode_pnm(const ImageSource& source, int channels, PixelPlace place) {
  const Header header(source);
  const ImageSize size = {header.height, header.width, channels ? channels : header.channels};
  const int64_t values = size.pixels() * header.channels;
  const int bytes = header.largest < 256 ? 1 : 2;
  if (source.bytes.size() < header.offset() + size_t(values * bytes)) {
    source.fail(fmt::format("the PGM or PPM image is cut off: expected {} bytes, found {}",
                            header.offset() + size_t(values * bytes), source.bytes.size()));
  }
  uint8_t* const to = place(size);
  const uint8_t* from = source.data() + header.offset();
  std::vector<uint8_t> scaled;
  if (header.largest != 255) {
    scaled.reserve(size_t(values));
    for (int64_t i = 0; i < values; ++i, from += bytes) {
      const int64_t value = bytes == 1 ? from[0] : from[0] * 256 + from[1];
      scaled.push_back(
          uint8_t(std::min<int64_t>(255, (value * 255 + header.largest / 2) / header.largest)));
    }
    from = scaled.data();
  }
  convert_channels(from, header.channels, to, size.channels, size.pixels());
}

}  // namespace adret
