// A band of an image in shared memory, and the weight's gradient from such bands.
#pragma once

#include <adret/core/cuda/conv_problem.h>
#include <adret/core/cuda/launch.h>

#include <cstddef>

namespace adret::cuda {

inline size_t accumulator_bytes(DType dtype) { return dtype == DType::f64 ? 8 : 4; }

// What `rows` rows of a result read of a source (n, h, w, channels): tile_h x tile_w pixels, with
// the padding, channel by channel. Planes have an odd size, so that neither neighbouring pixels nor
// neighbouring channels share a bank.
struct Band {
  int h, w, channels;
  int stride_h, stride_w, padding_h, padding_w, dilation_h, dilation_w;
  int rows, tile_h, tile_w, plane;

  // For a result of width `width` by a kernel of (kh, kw).
  void set_rows(int count, int width, int kh, int kw) {
    rows = count;
    tile_h = (rows - 1) * stride_h + (kh - 1) * dilation_h + 1;
    tile_w = (width - 1) * stride_w + (kw - 1) * dilation_w + 1;
    plane = int(std::min<int64_t>(int64_t(tile_h) * tile_w, (1 << 30)) | 1);
  }
  size_t elements(int planes) const { return size_t(plane) * size_t(planes); }
};

// The band of image n whose result begins at row first_row, channels first..first + count - 1.
template <class T>
__device__ void load_band(Accumulator<T>* tile, const T* source, const Band& band, int n,
                          int first_row, int first, int count) {
  const T* const image = source + int64_t(n) * band.h * band.w * band.channels + first;
  const int top = first_row * band.stride_h - band.padding_h;
  const int left = -band.padding_w;
  for (int i = int(threadIdx.x); i < band.tile_h * band.tile_w * count; i += int(blockDim.x)) {
    const int pixel = i / count, channel = i - pixel * count;
    const int row = pixel / band.tile_w, column = pixel - row * band.tile_w;
    const int y = top + row, x = left + column;
    const bool inside = y >= 0 && y < band.h && x >= 0 && x < band.w;
    tile[channel * band.plane + pixel] =
        inside ? widen(image[(int64_t(y) * band.w + x) * band.channels + channel])
               : Accumulator<T>(0);
  }
}

bool tiled_weight_can_run(const Context& context, const ConvProblem& problem);
size_t tiled_weight_workspace(const Context& context, const ConvProblem& problem);
void run_tiled_weight(const Context& context, const ConvProblem& problem,
                      const ConvOperands& operands, void* workspace);

}  // namespace adret::cuda
