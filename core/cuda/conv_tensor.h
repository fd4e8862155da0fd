// What convolutions on tensor cores share: the instructions by dtype, and bands of images in shared
// memory.
#pragma once

#include <adret/core/cuda/conv_tiling.h>
#include <adret/core/cuda/fast_divisor.h>
#include <adret/core/cuda/launch.h>
#include <adret/core/cuda/tensor_core.h>

#include <algorithm>
#include <cstdint>
#include <type_traits>

namespace adret::cuda {

// -- instructions --------------------------------------------------------------------------------

// Tensor cores take 32-bit words: one f32 rounded to TF32, or two neighbours of 16 bits. The
// multiply-add is the same in words for all: sum (16 x 8) += a (16 x 8 words) b (8 words x 8). With
// g = lane / 4 and t = lane % 4 a lane has
//   a: (g, t), (g + 8, t), (g, t + 4), (g + 8, t + 4)    b: (t, g), (t + 4, g)
//   sum: (g, 2t), (g, 2t + 1), (g + 8, 2t), (g + 8, 2t + 1)
// Only devices from sm_80 on have them.
template <class T>
struct TensorCore {
  static constexpr bool is_f32 = std::is_same_v<T, float>;
  using Bits = std::conditional_t<is_f32, uint32_t, uint16_t>;
  static constexpr int elements = is_f32 ? 1 : 2;  // of a word

  template <class Word>
  static __device__ Word rounded(Word bits) {
#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 800
    if constexpr (is_f32) return round_to_tf32(bits);
#endif
    return bits;
  }
  static __device__ void multiply_add(float (&sum)[4], const uint32_t (&a)[4],
                                      const uint32_t (&b)[2]) {
#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 800
    cuda::multiply_add<T>(sum, a, b[0], b[1]);
#else
    __trap();
#endif
  }
};

// f gets a value of the dtype's C++ type, for those that tensor cores take.
template <class F>
void dispatch_tensor_cores(DType dtype, F&& f) {
  switch (dtype) {
    case DType::bf16: return f(__nv_bfloat16{});
    case DType::f16: return f(__half{});
    default: return f(float{});
  }
}

inline bool has_tensor_cores(const Context& context, const ConvProblem& p) {
  const bool is_taken = p.dtype == DType::bf16 || p.dtype == DType::f16 ||
                        (p.dtype == DType::f32 && p.math == MathMode::tf32);
  return is_taken && context.properties.major >= 8;
}

// -- bands ---------------------------------------------------------------------------------------

// What a band of result pixels reads of a source (n, h, w, channels), with the padding, pixel by
// pixel. A band is `rows` rows of one image, or all of `images` images, so its result pixels are
// neighbours in memory. Lengths in shared memory are in the kernel's units.
struct ImageBand {
  int n, h, w, channels;
  int stride_h, stride_w, padding_h, padding_w;
  int rh, rw;               // the result
  int rows, images, bands;  // of an image
  int tile_h, tile_w;
  int step, row, plane;  // from pixel to pixel, row to row, image to image
  FastDivisor by_bands, by_rows, by_rw, by_tile_h, by_tile_w;

  // Of a result of (rh, rw) by a kernel of (kh, kw), the other sizes being set.
  void divide(int64_t rows_of_band, int64_t images_of_band, int64_t kh, int64_t kw) {
    rows = int(rows_of_band);
    images = int(images_of_band);
    bands = int(divide_up(rh, rows));
    tile_h = int((rows - 1) * stride_h + kh);
    tile_w = int((rw - 1) * stride_w + kw);
    row = tile_w * step;
    plane = tile_h * row;
    by_bands = FastDivisor(uint32_t(bands));
    by_rows = FastDivisor(uint32_t(rows));
    by_rw = FastDivisor(uint32_t(rw));
    by_tile_h = FastDivisor(uint32_t(tile_h));
    by_tile_w = FastDivisor(uint32_t(tile_w));
  }
  int64_t total() const { return divide_up(n, images) * bands; }
  int64_t units() const { return int64_t(plane) * images; }

  __device__ int first_image(int band) const { return int(by_bands.quotient(band)) * images; }
  __device__ int first_row(int band) const {
    return (band - int(by_bands.quotient(band)) * bands) * rows;
  }
  // How many result pixels a band has, and the number of its first one.
  __device__ int pixels(int band) const {
    return min(images, n - first_image(band)) * min(rows, rh - first_row(band)) * rw;
  }
  __device__ int64_t first_pixel(int band) const {
    return (int64_t(first_image(band)) * rh + first_row(band)) * rw;
  }
  // Where the window of the band's result pixel begins.
  __device__ int corner(int pixel) const {
    const int line = int(by_rw.quotient(pixel)), x = pixel - line * rw;
    const int image = int(by_rows.quotient(line)), y = line - image * rows;
    return image * plane + y * stride_h * row + x * stride_w * step;
  }
};

// Brings in a band, `by.divisor()` vectors of each pixel: read(offset of the pixel's elements,
// number of the vector).
template <class V, class Unit, class Read>
__device__ void load_image_band(Unit* tile, const ImageBand& b, int band, FastDivisor by,
                                Read&& read) {
  const int first_image = b.first_image(band), left = -b.padding_w;
  const int top = b.first_row(band) * b.stride_h - b.padding_h;
  const int a_vector = int(sizeof(V) / sizeof(Unit)), vectors = int(by.divisor());
  const int count = b.images * b.tile_h * b.tile_w * vectors;
  fill_shared(reinterpret_cast<V*>(tile), count, [&](int i) -> Placed<V> {
    const int pixel = int(by.quotient(i)), v = i - pixel * vectors;
    const int line = int(b.by_tile_w.quotient(pixel)), column = pixel - line * b.tile_w;
    const int image = int(b.by_tile_h.quotient(line)), row = line - image * b.tile_h;
    const int n = first_image + image, y = top + row, x = left + column;
    const bool inside = n < b.n && y >= 0 && y < b.h && x >= 0 && x < b.w;
    const int at = (image * b.plane + row * b.row + column * b.step) / a_vector + v;
    return {inside ? read(((int64_t(n) * b.h + y) * b.w + x) * b.channels, v) : V{}, at};
  });
}

// Divides the result into bands of about `pixels` and at most `most` units, at least `wanted` of
// them where there are enough images. False when not even one row fits.
inline bool fit(ImageBand& band, int64_t kh, int64_t kw, int64_t pixels, int64_t most,
                int64_t wanted) {
  const int64_t row = (int64_t(band.rw - 1) * band.stride_w + kw) * band.step;
  const int64_t tile_rows = most / row;
  if (tile_rows < kh) return false;
  const int64_t most_rows =
      std::min((tile_rows - kh) / band.stride_h + 1, std::max<int64_t>(1, pixels / band.rw));
  const int64_t bands = divide_up(band.rh, most_rows), rows = divide_up(band.rh, bands);
  int64_t images = 1;
  if (bands == 1) {
    const int64_t image = (int64_t(band.rh - 1) * band.stride_h + kh) * row;
    images = std::min({pixels / (rows * band.rw), most / image, band.n / wanted});
  }
  band.divide(rows, std::max<int64_t>(1, images), kh, kw);
  return true;
}

}  // namespace adret::cuda
