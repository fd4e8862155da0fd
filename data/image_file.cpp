// Reading a file whole, and decoding it into a new or a given tensor.
#include <adret/core/error.h>
#include <adret/core/tensor_view.h>
#include <adret/data/image_codec.h>
#include <adret/data/image_file.h>
#include <adret/data/input_file.h>
#include <fmt/core.h>

#include <memory>

namespace adret {
namespace {

void check_channels(const char* function, int64_t channels) {
  if (channels < 0 || channels > 4 || channels == 2) {
    throw Error(
        fmt::format("[{}] channels may be 0 (the file's), 1, 3 or 4, got {}", function, channels));
  }
}

Tensor decode(const ImageSource& source, const ImageOptions& options) {
  Tensor image;
  decode_any(source, options.channels, [&](const ImageSize& size) {
    image = Tensor::empty({size.height, size.width, size.channels}, {.dtype = DType::u8});
    return image.span<uint8_t>().data();
  });
  return image;
}

}  // namespace

Tensor load_image(const std::filesystem::path& path, const ImageOptions& options) {
  check_channels("load_image", options.channels);
  const InputFile file("load_image", path);
  const auto bytes = std::make_unique_for_overwrite<std::byte[]>(file.size());
  const std::span content(bytes.get(), file.size());
  file.read(0, content);
  return decode({"load_image", content, path.string()}, options);
}

Tensor decode_image(std::span<const std::byte> file, const std::string& name,
                    const ImageOptions& options) {
  check_channels("decode_image", options.channels);
  return decode({"decode_image", file, name}, options);
}

void decode_image_into(std::span<const std::byte> file, const std::string& name,
                       const Tensor& image) {
  if (image.rank() != 3 || image.dtype() != DType::u8 || !image.device().is_cpu()) {
    throw ShapeError(
        "[decode_image_into] wants an image (H, W, C) u8 on the CPU to write to, got " +
        to_string(TensorView(image)));
  }
  check_channels("decode_image_into", image.size(2));
  const ImageSource source{"decode_image_into", file, name};
  decode_any(source, int(image.size(2)), [&](const ImageSize& size) {
    if (size.height != image.size(0) || size.width != image.size(1)) {
      source.fail(fmt::format("expected an image of {} x {}, found {} x {}", image.size(0),
                              image.size(1), size.height, size.width));
    }
    return image.span<uint8_t>().data();
  });
}

}  // namespace adret
