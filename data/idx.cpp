// Reading IDX files through zlib, which passes files that are not compressed through.
#include <adret/core/error.h>
#include <adret/core/kernels/kernel.h>
#include <adret/data/file_kind.h>
#include <adret/data/idx.h>
#include <fmt/core.h>
#include <zlib.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cerrno>
#include <cstring>
#include <limits>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace adret {
namespace {

namespace fs = std::filesystem;

// Deflate cannot do better than 1032 bytes from one (zlib's technical details, zlib.net).
constexpr uint64_t best_compression = 1032;

// A file that may be compressed: counts what it gave, and takes its checksum.
class ByteSource {
 public:
  explicit ByteSource(const fs::path& path) : path_(path) {
    if (const char* reason = why_no_file(path)) fail(reason);
    size_on_disk_ = fs::file_size(path);
    file_.reset(gzopen(path.c_str(), "rb"));
    if (!file_) fail(fmt::format("it cannot be opened: {}", std::strerror(errno)));
    gzbuffer(file_.get(), 1 << 17);
  }

  // Reads up to `bytes` bytes; fewer at the end of the file. A gzip stream that is damaged throws;
  // one that is cut off ends early.
  size_t read(void* to, size_t bytes) {
    size_t total = 0;
    while (total < bytes) {
      const auto wanted = unsigned(std::min<size_t>(bytes - total, 1 << 24));
      auto* const place = static_cast<Bytef*>(to) + total;
      const int got = gzread(file_.get(), place, wanted);
      if (got <= 0) {
        check_stream();
        break;
      }
      checksum_ = uint32_t(crc32(checksum_, place, unsigned(got)));
      total += size_t(got);
      offset_ += size_t(got);
    }
    return total;
  }

  bool compressed() const { return gzdirect(file_.get()) == 0; }
  // What the file holds at most, decompressed.
  uint64_t capacity() const {
    return compressed() ? size_on_disk_ * best_compression : size_on_disk_;
  }
  // Whether the compressed data ended before it was complete.
  bool cut_off() const { return cut_off_; }
  uint64_t offset() const { return offset_; }
  uint32_t checksum() const { return checksum_; }

  [[noreturn]] void fail(const std::string& problem) const {
    throw DataError(fmt::format("[read_idx] {}: {}", path_.string(), problem));
  }
  [[noreturn]] void fail_size(const std::string& layout, uint64_t expected, uint64_t found,
                              const char* advice) const {
    fail(fmt::format("expected {} bytes{} ({}), found {}, offset of the difference {}: {}",
                     expected, compressed() ? " after decompression" : "", layout, found,
                     std::min(expected, found), advice));
  }

 private:
  void check_stream() {
    int status = Z_OK;
    const char* text = gzerror(file_.get(), &status);
    if (status == Z_OK || status == Z_STREAM_END) return;
    if (status == Z_BUF_ERROR) {
      cut_off_ = true;  // the caller says what is missing
      return;
    }
    fail(fmt::format(
        "the gzip data is damaged after {} decompressed bytes ({}); fetch the file again", offset_,
        text));
  }

  struct Close {
    void operator()(gzFile file) const { gzclose(file); }
  };
  fs::path path_;
  std::unique_ptr<gzFile_s, Close> file_;
  uint64_t size_on_disk_ = 0;
  uint64_t offset_ = 0;
  uint32_t checksum_ = 0;
  bool cut_off_ = false;
};

uint32_t big_endian(const uint8_t* bytes) {
  return uint32_t(bytes[0]) << 24 | uint32_t(bytes[1]) << 16 | uint32_t(bytes[2]) << 8 | bytes[3];
}

std::optional<DType> idx_dtype(uint8_t code) {
  switch (code) {
    case 0x08: return DType::u8;
    case 0x0c: return DType::i32;
    case 0x0d: return DType::f32;
    case 0x0e: return DType::f64;
    default: return std::nullopt;  // 0x09 i8 and 0x0b i16 have no dtype here
  }
}

struct Header {
  DType dtype = DType::u8;
  std::vector<int64_t> sizes;
  uint64_t file_bytes = 0;  // header and elements
  std::string layout;       // "60000 x 28 x 28 u8 and a header of 16"
};

uint64_t saturating_multiply(uint64_t a, uint64_t b) {
  uint64_t product = 0;
  return __builtin_mul_overflow(a, b, &product) ? std::numeric_limits<uint64_t>::max() : product;
}

// Fails for a header that promises more than the file can hold, before memory is taken for it.
Header read_header(ByteSource& source) {
  std::array<uint8_t, 4 + 4 * Shape::max_rank> raw{};
  if (source.read(raw.data(), 4) < 4) {
    source.fail_size("the magic number alone", 4, source.offset(),
                     source.offset() == 0 ? "the file is empty" : "the file is cut off");
  }
  const std::optional<DType> dtype = idx_dtype(raw[2]);
  const size_t rank = raw[3];
  if (raw[0] != 0 || raw[1] != 0 || !dtype || rank == 0 || rank > Shape::max_rank) {
    const size_t known = 4 + source.read(raw.data() + 4, raw.size() - 4);
    source.fail("this is not an IDX file of u8, i32, f32 or f64 in 1 to 6 dimensions but " +
                describe_content(std::as_bytes(std::span(raw.data(), known))));
  }
  const uint64_t header_bytes = 4 + 4 * rank;
  if (source.read(raw.data() + 4, 4 * rank) < 4 * rank) {
    source.fail_size("the header alone", header_bytes, source.offset(), "the file is cut off");
  }
  Header header{.dtype = *dtype};
  uint64_t bytes = size_of(*dtype);
  for (size_t i = 0; i < rank; ++i) {
    const uint32_t size = big_endian(raw.data() + 4 + 4 * i);
    header.sizes.push_back(size);
    header.layout += (i ? " x " : "") + std::to_string(size);
    bytes = saturating_multiply(bytes, size);
  }
  header.layout += fmt::format(" {} and a header of {}", name(*dtype), header_bytes);
  if (bytes > source.capacity() - header_bytes) {
    source.fail_size(header.layout, bytes + std::min(header_bytes, ~bytes), source.capacity(),
                     source.compressed()
                         ? "that is more than its gzip data can hold: it is cut off or "
                           "damaged; fetch it again"
                         : "the file is cut off or damaged; fetch it again");
  }
  header.file_bytes = header_bytes + bytes;
  return header;
}

void from_big_endian(std::span<std::byte> bytes, size_t element) {
  if (element == 1 || std::endian::native == std::endian::big) return;
  for (size_t i = 0; i < bytes.size(); i += element) {
    std::reverse(bytes.begin() + std::ptrdiff_t(i), bytes.begin() + std::ptrdiff_t(i + element));
  }
}

IdxFile read_kind(const fs::path& path, int rank, const char* wanted, const char* other) {
  IdxFile file = read_idx(path);
  if (file.values.dtype() != DType::u8 || file.values.rank() != rank) {
    const bool swapped =
        file.values.dtype() == DType::u8 && (file.values.rank() == 1 || file.values.rank() == 3);
    throw DataError(fmt::format(
        "[read_idx] {}: expected {} ({} dimension{} of u8, magic 0x0000080{}), found {} {}; {}",
        path.string(), wanted, rank, rank == 1 ? "" : "s", rank, swapped ? other : "values of",
        to_string(TensorView(file.values)),
        swapped ? "the two files may be swapped" : "this is another data set"));
  }
  return file;
}

}  // namespace

IdxFile read_idx(const fs::path& path) {
  ByteSource source(path);
  const Header header = read_header(source);
  IdxFile file{.values = Tensor::empty(Shape(header.sizes), {.dtype = header.dtype})};
  file.bytes = header.file_bytes;
  const size_t expected = file.values.bytes();
  if (source.read(file.values.data(), expected) != expected) {
    source.fail_size(header.layout, header.file_bytes, source.offset(),
                     "the file is cut off; fetch it again");
  }
  file.checksum = source.checksum();
  std::array<uint8_t, 4096> rest;
  while (source.read(rest.data(), rest.size()) == rest.size()) {
  }
  if (source.cut_off()) {
    source.fail(
        fmt::format("the gzip data is cut off before its checksum (offset {}); fetch it again",
                    source.offset()));
  }
  if (source.offset() != header.file_bytes) {
    source.fail_size(header.layout, header.file_bytes, source.offset(),
                     "bytes follow the last element; the header or the file is wrong");
  }
  from_big_endian({static_cast<std::byte*>(file.values.data()), expected}, size_of(header.dtype));
  return file;
}

IdxFile read_idx_images(const fs::path& path) {
  IdxFile file = read_kind(path, 3, "images", "labels");
  file.values = file.values.alias(file.values.shape().inserted(3, 1));
  return file;
}

IdxFile read_idx_labels(const fs::path& path) {
  IdxFile file = read_kind(path, 1, "labels", "images");
  const Tensor labels = Tensor::empty(file.values.shape(), {.dtype = DType::i32});
  run(kernels::Cast{.x = file.values, .y = labels});
  file.values = labels;
  return file;
}

}  // namespace adret
