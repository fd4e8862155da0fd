// JPEG by libjpeg(-turbo).
#include <adret/data/image_codec.h>
#include <fmt/core.h>

#include <csetjmp>
#include <cstdio>
#include <vector>
// Wants the above.
#include <jpeglib.h>
// Wants jpeglib.h.
#include <jerror.h>

namespace adret {
namespace {

// Huffman codes take a bit or more for each block of 8 x 8; eight times that leaves room for
// arithmetic coding.
constexpr int64_t pixels_per_byte = 4096;

// Where libjpeg goes instead of printing and exiting.
struct ErrorManager {
  jpeg_error_mgr base;  // first: libjpeg knows no more of this
  std::jmp_buf jump;
  char message[JMSG_LENGTH_MAX];
};

extern "C" {
void jpeg_fail(j_common_ptr info) {
  auto* const errors = reinterpret_cast<ErrorManager*>(info->err);
  errors->base.format_message(info, errors->message);
  std::longjmp(errors->jump, 1);
}
// Below 0: a warning, that is, damage which libjpeg would fill with what came before; else a trace.
// An unknown revision of JFIF and bytes between the segments of the header cost no pixel.
void jpeg_message(j_common_ptr info, int level) {
  const int code = info->err->msg_code;
  const bool before_scan = reinterpret_cast<j_decompress_ptr>(info)->input_scan_number == 0;
  const bool harmless = code == JWRN_JFIF_MAJOR || (code == JWRN_EXTRANEOUS_DATA && before_scan);
  if (level < 0 && !harmless) jpeg_fail(info);
}
void jpeg_print(j_common_ptr) {}
}

// Note [libjpeg's errors]
// Errors jump out of libjpeg into `attempt`. Between the two are only libjpeg's own frames and
// callables without anything to destroy; C++ exceptions are thrown after that.
class Decompressor {
 public:
  explicit Decompressor(const ImageSource& source) : source_(source) {
    info_.err = jpeg_std_error(&errors_.base);
    errors_.base.error_exit = jpeg_fail;
    errors_.base.emit_message = jpeg_message;
    errors_.base.output_message = jpeg_print;
    attempt([this] {
      jpeg_create_decompress(&info_);
      jpeg_mem_src(&info_, source_.data(), source_.bytes.size());
      jpeg_read_header(&info_, TRUE);
    });
    if (failed_) {
      jpeg_destroy_decompress(&info_);  // there is no destructor to come
      fail();
    }
  }
  ~Decompressor() { jpeg_destroy_decompress(&info_); }
  Decompressor(const Decompressor&) = delete;
  Decompressor& operator=(const Decompressor&) = delete;

  jpeg_decompress_struct& info() { return info_; }

  // Row by row, `channels` as libjpeg writes them.
  void read(uint8_t* to, int64_t row_bytes) {
    attempt([=, this] {
      jpeg_start_decompress(&info_);
      while (info_.output_scanline < info_.output_height) {
        JSAMPROW row = to + int64_t(info_.output_scanline) * row_bytes;
        jpeg_read_scanlines(&info_, &row, 1);
      }
      jpeg_finish_decompress(&info_);
    });
    if (failed_) fail();
  }

 private:
  template <class Call>
  void attempt(Call call) {
    if (setjmp(errors_.jump) == 0) {
      call();
    } else {
      failed_ = true;
    }
  }
  [[noreturn]] void fail() const {
    source_.fail(fmt::format("the JPEG image cannot be decoded ({} bytes): {}",
                             source_.bytes.size(), errors_.message));
  }

  const ImageSource& source_;
  jpeg_decompress_struct info_{};
  ErrorManager errors_{};
  bool failed_ = false;
};

J_COLOR_SPACE colour_space(int channels) {
  switch (channels) {
    case 1: return JCS_GRAYSCALE;
    case 3: return JCS_RGB;
    default: return JCS_EXT_RGBA;
  }
}

// In place of CMYK, from the inverted values that files with four components hold (Adobe's
// convention): what the inks leave of white, rounded as Pillow does.
void rgb_from_inverted_cmyk(const uint8_t* cmyk, uint8_t* rgb, int64_t pixels) {
  for (int64_t i = 0; i < pixels; ++i, cmyk += 4, rgb += 3) {
    const int white = cmyk[3];
    for (int c = 0; c < 3; ++c) {
      const int product = (255 - cmyk[c]) * white + 128;
      rgb[c] = uint8_t(white - ((product >> 8) + product) / 256);
    }
  }
}

}  // namespace

void decode_jpeg(const ImageSource& source, int channels, PixelPlace place) {
  Decompressor decompressor(source);
  jpeg_decompress_struct& info = decompressor.info();
  const bool cmyk = info.jpeg_color_space == JCS_CMYK || info.jpeg_color_space == JCS_YCCK;
  if (info.jpeg_color_space == JCS_UNKNOWN) {
    source.fail(fmt::format("the JPEG image has {} components of an unknown colour space",
                            info.num_components));
  }
  if (channels == 0) channels = info.num_components == 1 ? 1 : 3;
  const ImageSize size = {info.image_height, info.image_width, channels};
  if (size.pixels() > int64_t(source.bytes.size()) * pixels_per_byte) {
    source.fail(fmt::format("its header promises {} x {} pixels, more than its {} bytes can hold",
                            size.height, size.width, source.bytes.size()));
  }
  uint8_t* const to = place(size);
  if (!cmyk) {
    info.out_color_space = colour_space(channels);
    decompressor.read(to, size.width * channels);
    return;
  }
  info.out_color_space = JCS_CMYK;
  std::vector<uint8_t> inks(size_t(4 * size.pixels()));
  decompressor.read(inks.data(), 4 * size.width);
  rgb_from_inverted_cmyk(inks.data(), inks.data(), size.pixels());
  convert_channels(inks.data(), 3, to, channels, size.pixels());
}

}  // namespace adret
