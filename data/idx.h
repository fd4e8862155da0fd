// IDX files, the format of MNIST (http://yann.lecun.com/exdb/mnist): a big-endian header with the
// element type and the sizes, then the elements.
#pragma once

#include <adret/core/tensor.h>

#include <cstdint>
#include <filesystem>

namespace adret {

struct IdxFile {
  Tensor values;          // with the header's sizes; u8, i32, f32 or f64
  uint64_t bytes = 0;     // of the file, decompressed
  uint32_t checksum = 0;  // CRC-32 of these bytes
};

// Reads a file, gzipped or not: its content decides, not its name. Throws DataError with the path,
// and with the bytes expected and found and the offset where they disagree: for a missing, empty
// or cut-off file, for bytes after the last element, for another kind of file, and for a header
// that promises more than the file can hold (before memory is taken for it).
IdxFile read_idx(const std::filesystem::path& path);

// The same for a file of images (N, H, W) u8, which become (N, H, W, 1), and for one of labels (N)
// u8, which become i32. Throws DataError saying so when the file holds the other kind.
IdxFile read_idx_images(const std::filesystem::path& path);
IdxFile read_idx_labels(const std::filesystem::path& path);

}  // namespace adret
