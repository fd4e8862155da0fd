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
    plane = tile_h * tile_w | 1;
  }
  // How many rows fit `elements`, if each row of the result takes `more` beside the planes; less
  // than 1 if none does.
  int64_t most_rows(int64_t width, int64_t kh, int64_t kw, int64_t planes, int64_t more,
                    int64_t elements) const {
    const int64_t row = (width - 1) * stride_w + (kw - 1) * dilation_w + 1;
    const int64_t first = planes * (((kh - 1) * dilation_h + 1) * row + 1) + more;
    if (first > elements) return 0;
    return 1 + (elements - first) / (planes * stride_h * row + more);
  }
  size_t elements(int planes) const { return size_t(plane) * size_t(planes); }
};

// Fills shared memory: item i of `count` is item(i), a value and its place. Each thread has several
// reads under way.
template <class A>
struct Placed {
  A value;
  int at;
};
template <class A, class Item>
__device__ void fill_shared(A* shared, int count, Item&& item) {
  constexpr int in_flight = 4;
  const int step = int(blockDim.x);
  for (int first = int(threadIdx.x); first < count; first += in_flight * step) {
    Placed<A> items[in_flight];
#pragma unroll
    for (int k = 0; k < in_flight; ++k) {
      if (first + k * step < count) items[k] = item(first + k * step);
    }
#pragma unroll
    for (int k = 0; k < in_flight; ++k) {
      if (first + k * step < count) shared[items[k].at] = items[k].value;
    }
  }
}

// The band of image n whose result begins at row first_row, channels first..first + count - 1.
template <class T>
__device__ void load_band(Accumulator<T>* tile, const T* source, const Band& band, int n,
                          int first_row, int first, int count) {
  using A = Accumulator<T>;
  const T* const image = source + int64_t(n) * band.h * band.w * band.channels + first;
  const int top = first_row * band.stride_h - band.padding_h;
  fill_shared(tile, band.tile_h * band.tile_w * count, [&](int i) -> Placed<A> {
    const int pixel = i / count, channel = i - pixel * count;
    const int row = pixel / band.tile_w, column = pixel - row * band.tile_w;
    const int y = top + row, x = column - band.padding_w;
    const bool inside = y >= 0 && y < band.h && x >= 0 && x < band.w;
    return {inside ? widen(image[(int64_t(y) * band.w + x) * band.channels + channel]) : A(0),
            channel * band.plane + pixel};
  });
}

bool tiled_weight_can_run(const Context& context, const ConvProblem& problem);
size_t tiled_weight_workspace(const Context& context, const ConvProblem& problem);
void run_tiled_weight(const Context& context, const ConvProblem& problem,
                      const ConvOperands& operands, void* workspace);

}  // namespace adret::cuda
