// Looking at paths, and the known beginnings of files.
#include <adret/data/file_kind.h>
#include <fmt/core.h>

#include <algorithm>
#include <string_view>

namespace adret {
namespace {

struct Beginning {
  std::string_view bytes;
  const char* kind;
};

constexpr Beginning beginnings[] = {
    {"\x1f\x8b", "a gzip file"},
    {"PK\x03\x04", "a zip archive"},
    {"\x80\x02", "a Python pickle"},
    {"\x80\x03", "a Python pickle"},
    {"\x80\x04", "a Python pickle"},
    {"\x80\x05", "a Python pickle"},
    {"\x89PNG", "a PNG image"},
    {"BM", "a BMP image"},
    {"\xff\xd8\xff", "a JPEG image"},
    {"GIF8", "a GIF image"},
    {std::string_view("II*\0", 4), "a TIFF image"},
    {std::string_view("MM\0*", 4), "a TIFF image"},
    {"8BPS", "a Photoshop document"},
    {std::string_view("\0\0\0\x0cjP  ", 8), "a JPEG 2000 image"},
    {std::string_view("\0\0\0\x0cJXL ", 8), "a JPEG XL image"},
    {"P1\n", "a PBM image in text"},
    {"P2\n", "a PGM image in text"},
    {"P3\n", "a PPM image in text"},
    {"P4\n", "a PBM image"},
    {"\x89HDF", "an HDF5 file"},
    {"\x93NUMPY", "a NumPy array file"},
    {"GGUF", "a GGUF file"},
    {"version https://git-lfs", "a pointer of Git LFS, not the file itself"},
    {"<!DOCTYPE", "a web page (HTML)"},
    {"<!doctype", "a web page (HTML)"},
    {"<html", "a web page (HTML)"},
    {std::string_view("\0\0\x08\x01", 4), "an IDX file of labels"},
    {std::string_view("\0\0\x08\x03", 4), "an IDX file of images"},
};

}  // namespace

const char* why_no_file(const std::filesystem::path& path) {
  std::error_code status;
  if (std::filesystem::is_regular_file(path, status)) return nullptr;
  return std::filesystem::exists(path, status) ? "this is not a file" : "there is no such file";
}

std::string describe_content(std::span<const std::byte> first_bytes) {
  if (first_bytes.empty()) return "empty";
  const std::string_view text(reinterpret_cast<const char*>(first_bytes.data()),
                              first_bytes.size());
  for (const Beginning& beginning : beginnings) {
    if (text.starts_with(beginning.bytes)) return beginning.kind;
  }
  if (text.starts_with("RIFF") &&
      text.substr(std::min<size_t>(8, text.size())).starts_with("WEBP")) {
    return "a WebP image";
  }
  // Of the ISO media family: HEIC and AVIF images, but also videos.
  if (text.substr(std::min<size_t>(4, text.size())).starts_with("ftyp")) {
    return "a HEIC, AVIF or video file";
  }
  std::string hex = "a file that begins with the bytes";
  for (const std::byte byte : first_bytes.first(std::min<size_t>(8, first_bytes.size()))) {
    hex += fmt::format(" {:02x}", unsigned(byte));
  }
  return hex;
}

}  // namespace adret
