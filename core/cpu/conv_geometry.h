// The sizes of a convolution and where its taps lie; shared by its directions.
#pragma once

#include <adret/core/cpu/grain.h>
#include <adret/core/cpu/register_tile.h>
#include <adret/core/cpu/workspace.h>
#include <adret/core/kernels/conv.h>
#include <adret/core/thread_pool.h>

#include <algorithm>
#include <cstdint>
#include <vector>

namespace adret::cpu {

// Columns of vectors in a tile: two leave room for the most products per load.
inline constexpr int conv_vectors = 2;
template <class T>
inline constexpr int64_t panel_width{conv_vectors * lanes<T>};

// Elements of weights that a chunk packs, or sums from all parts.
inline constexpr int64_t weight_grain = 4 * memory_grain;

// Taps of a window that are neighbours in memory form a run: a row of the kernel with all its
// channels, or a single pixel when dilation or groups leave gaps.
struct ConvGeometry {
  int64_t images, h, w, channels;  // x
  int64_t kernel_h, kernel_w;      // weight
  int64_t out_h, out_w, outputs;   // y
  int64_t groups, group_channels, group_outputs;
  int64_t padded_h, padded_w;
  int64_t runs, run_length;
  kernels::Conv2dParams params;

  ConvGeometry(const Shape& x, const Shape& weight, const Shape& y,
               const kernels::Conv2dParams& conv)
      : images(x[0]),
        h(x[1]),
        w(x[2]),
        channels(x[3]),
        kernel_h(weight[1]),
        kernel_w(weight[2]),
        out_h(y[1]),
        out_w(y[2]),
        outputs(y[3]),
        groups(conv.groups),
        group_channels(channels / groups),
        group_outputs(outputs / groups),
        padded_h(h + 2 * conv.padding.h),
        padded_w(w + 2 * conv.padding.w),
        params(conv) {
    const bool rows_dense = groups == 1 && conv.dilation.w == 1;
    runs = rows_dense ? kernel_h : kernel_h * kernel_w;
    run_length = rows_dense ? kernel_w * channels : group_channels;
    const bool pointwise = kernel_h * kernel_w == 1 && conv.stride == Size2(1) && !padded();
    if (pointwise) {  // the image is one long row
      out_w = w = padded_w = h * w;
      out_h = h = padded_h = 1;
    }
  }

  bool padded() const { return params.padding.h != 0 || params.padding.w != 0; }
  int64_t taps() const { return runs * run_length; }  // of one group
  int64_t out_pixels() const { return out_h * out_w; }
  int64_t image_size() const { return h * w * channels; }
  int64_t padded_size() const { return padded_h * padded_w * channels; }
  int64_t out_size() const { return out_pixels() * outputs; }
  // From an output pixel's first tap to that of its right neighbour, in the padded image.
  int64_t pixel_step() const { return params.stride.w * channels; }
  // Multiply-adds of one image.
  int64_t products() const { return out_size() * taps(); }
  // Images to a chunk, when each needs so many multiply-adds: some 20 us or more, and enough pixels
  // for a weight to be worth its way from memory.
  int64_t image_grain(int64_t products_per_image) const {
    constexpr int64_t chunk_products = 1 << 20, chunk_pixels = 128;
    return std::max(items_per_chunk(chunk_products, products_per_image),
                    items_per_chunk(chunk_pixels, out_pixels()));
  }

  // Whether a tile is one pixel of many images (Note [Small images] in conv_forward.cpp).
  bool has_small_images() const {
    constexpr int64_t few_pixels = 64;
    return padded() && groups == 1 && params.dilation.w == 1 && out_pixels() <= few_pixels &&
           images >= small_images_at_least;
  }
  static constexpr int64_t small_images_at_least = 8;
  template <class T>
  int64_t image_pitch() const {
    return image_size() + 64 / int64_t(sizeof(T));
  }

  // Where each run starts in the padded image, from the window's first tap.
  std::vector<int64_t> run_offsets() const {
    std::vector<int64_t> offsets(static_cast<size_t>(runs));
    const int64_t per_row = runs / kernel_h;
    for (int64_t r = 0; r < runs; ++r) {
      const int64_t row = r / per_row * params.dilation.h, column = r % per_row * params.dilation.w;
      offsets[size_t(r)] = (row * padded_w + column) * channels;
    }
    return offsets;
  }
  // Where output row `row` of an image has its first tap in the padded image.
  int64_t row_offset(int64_t row) const { return row * params.stride.h * padded_w * channels; }
  // The same for all rows of `count` padded images that lie one behind the other.
  std::vector<int64_t> row_offsets(int64_t count) const {
    std::vector<int64_t> offsets;
    offsets.reserve(size_t(count * out_h));
    for (int64_t i = 0; i < count; ++i) {
      for (int64_t row = 0; row < out_h; ++row) {
        offsets.push_back(i * padded_size() + row_offset(row));
      }
    }
    return offsets;
  }
};

// The outputs of one group that a tile computes: up to conv_vectors vectors of them.
struct OutputPanel {
  int64_t group, first;  // output within all outputs
  int64_t outputs;       // in use; the lanes behind are padding
  int vectors;
};

template <class T>
int64_t panels_per_group(const ConvGeometry& g) {
  return (g.group_outputs + panel_width<T> - 1) / panel_width<T>;
}

template <class T>
int64_t panel_count(const ConvGeometry& g) {
  return g.groups * panels_per_group<T>(g);
}

template <class T>
OutputPanel output_panel(const ConvGeometry& g, int64_t index) {
  const int64_t per_group = panels_per_group<T>(g), group = index / per_group;
  const int64_t within = index % per_group * panel_width<T>;
  const int64_t outputs = std::min(panel_width<T>, g.group_outputs - within);
  return {group, group * g.group_outputs + within, outputs,
          int((outputs + lanes<T> - 1) / lanes<T>)};
}

// `to` = the padded image around `from`.
template <class T>
void pad_image(const ConvGeometry& g, const T* from, T* to) {
  const int64_t row = g.w * g.channels, padded_row = g.padded_w * g.channels;
  const int64_t left = g.params.padding.w * g.channels, top = g.params.padding.h * padded_row;
  T* const end = to + g.padded_size();
  T* at = std::fill_n(to, top, T(0));
  for (int64_t i = 0; i < g.h; ++i, from += row) {
    at = std::fill_n(at, left, T(0));
    at = std::copy_n(from, row, at);
    at = std::fill_n(at, left, T(0));
  }
  std::fill(at, end, T(0));
}

// All images with their padding, x itself where there is none: made once, since every panel of
// outputs reads them.
template <class T>
class PaddedImages {
 public:
  PaddedImages(const ConvGeometry& g, const T* x)
      : storage_(g.padded() ? g.images * g.padded_size() : 0), data_(g.padded() ? nullptr : x) {
    if (data_ != nullptr) return;
    T* const to = storage_.data();
    data_ = to;
    parallel_for(g.images, items_per_chunk(memory_grain, g.padded_size()),
                 [&, to](int64_t begin, int64_t end) {
                   for (int64_t i = begin; i < end; ++i) {
                     pad_image(g, x + i * g.image_size(), to + i * g.padded_size());
                   }
                 });
  }
  const T* data() const { return data_; }

 private:
  Workspace<T> storage_;
  const T* data_;
};

// `to` = the image inside the padded one.
template <class T>
void unpad_image(const ConvGeometry& g, const T* from, T* to) {
  const int64_t row = g.w * g.channels, padded_row = g.padded_w * g.channels;
  from += g.params.padding.h * padded_row + g.params.padding.w * g.channels;
  for (int64_t i = 0; i < g.h; ++i, from += padded_row) to = std::copy_n(from, row, to);
}

}  // namespace adret::cpu
