// Convolution forward: a register tile of output pixels x outputs, straight from the image.
#include <adret/core/cpu/conv_depthwise.h>
#include <adret/core/cpu/conv_geometry.h>
#include <adret/core/cpu/dispatch.h>
#include <adret/core/cpu/kernels.h>
#include <adret/core/cpu/scratch.h>
#include <adret/core/cpu/workspace.h>
#include <adret/core/thread_pool.h>

namespace adret::cpu {
namespace {

// Elements of a packed panel, with room for all its vectors.
template <class T>
int64_t panel_size(const ConvGeometry& g) {
  return (g.taps() + 1) * panel_width<T>;
}

// Packs the bias and then the taps as rows of the panel's outputs, zero in the lanes of padding.
template <class T>
void pack_panel(const ConvGeometry& g, const OutputPanel& panel, const T* weight, const T* bias,
                T* to) {
  const int64_t taps = g.taps(), width = panel.vectors * lanes<T>;
  std::fill_n(to, width, T(0));
  if (bias) std::copy_n(bias + panel.first, panel.outputs, to);
  weight += panel.first * taps;
  to += width;
  // A cache line of each output at a time: their distance may map them all to few sets of the
  // cache.
  constexpr int64_t block = 64 / int64_t(sizeof(T));
  for (int64_t tap = 0; tap < taps; tap += block) {
    const int64_t count = std::min(block, taps - tap);
    for (int64_t o = 0; o < width; ++o) {
      const T* const from = weight + o * taps + tap;
      const bool used = o < panel.outputs;
      for (int64_t i = 0; i < count; ++i) to[i * width + o] = used ? from[i] : T(0);
    }
    to += count * width;
  }
}

// Note [Spilling]
// A pixel's last vector may have lanes beyond its outputs. It is stored whole nevertheless where
// what lies behind belongs to pixels that the same thread writes later.

// One pass of a panel over some images. The taps are taken in as many passes as make the panel's
// part small enough to stay in the cache while the pixels go by.
template <class T>
struct Pass {
  OutputPanel panel;
  int64_t first_run;
  Runs runs;
  const T *bias, *weight;  // packed
  bool first, last;        // whether y starts from the bias, and whether it is complete afterwards
  const T* spill_end;
};

template <class T>
struct Forward {
  const ConvGeometry& g;
  const T *x, *packed;
  T* y;
  kernels::Activation activation;
  const int64_t* offsets;

  // Tile of pixels, the outputs of which are `out_step` apart, the first at `out`; add(sums) adds
  // the products.
  template <int ROWS, int VECTORS, class Add>
  [[gnu::always_inline]] void tile(const Pass<T>& pass, T* out, int64_t out_step, Add add) const {
    RegisterTile<T, ROWS, VECTORS> sums;
    const int64_t tail = pass.panel.outputs - (VECTORS - 1) * lanes<T>;  // lanes in the last vector
    const auto complete = [&](int column) { return column + 1 < VECTORS || tail == lanes<T>; };
    sums.each([&](Vector<T>& sum, int row, int column) {
      const T* from = out + row * out_step + column * lanes<T>;
      sum = pass.first         ? load(pass.bias + column * lanes<T>)
            : complete(column) ? load(from)
                               : load_first(from, tail);
    });
    add(sums);
    const bool relu = pass.last && activation == kernels::Activation::relu;
    sums.each([&](Vector<T>& sum, int row, int column) {
      if (relu) sum = sum < T(0) ? Vector<T>{} : sum;  // NaN stays
      T* const to = out + row * out_step + column * lanes<T>;
      if (complete(column) || to + lanes<T> <= pass.spill_end) {
        store(to, sum);
      } else {
        store_first(to, sum, tail);
      }
    });
  }

  // Neighbours in BANDS rows of an image, the first at `window`.
  template <int ROWS, int VECTORS, int BANDS>
  void neighbours(const Pass<T>& pass, const T* window, T* out) const {
    tile<ROWS, VECTORS>(pass, out, g.outputs, [&](auto& sums) {
      sums.template multiply_add<Adjacent::k, BANDS>(
          window, g.pixel_step(), pass.weight, VECTORS * lanes<T>, pass.runs, g.row_offset(1));
    });
  }

  // Note [Small images]
  // In images of a few pixels many taps fall on the padding: of a 3x3 kernel on 4x4 pixels three in
  // ten. A tile of one pixel in many images leaves them out. The images are copied without padding,
  // a cache line more than their size apart, as the same pixel of images whose size is a power of
  // two would share few sets of the cache.
  template <int IMAGES, int VECTORS>
  void same_pixel(const Pass<T>& pass, const T* from, int64_t row, int64_t column, T* out) const {
    const int64_t left = column * g.params.stride.w - g.params.padding.w;
    const int64_t begin = std::max<int64_t>(0, -left), end = std::min(g.kernel_w, g.w - left);
    const int64_t top = row * g.params.stride.h - g.params.padding.h, none = 0;
    const Runs run{&none, 1, (end - begin) * g.channels};
    tile<IMAGES, VECTORS>(pass, out, g.out_size(), [&](auto& sums) {
      for (int64_t i = 0; i < pass.runs.count; ++i) {
        const int64_t h = top + (pass.first_run + i) * g.params.dilation.h;
        if (h < 0 || h >= g.h) continue;
        const T* const weight =
            pass.weight + (i * g.run_length + begin * g.channels) * VECTORS * lanes<T>;
        sums.template multiply_add<Adjacent::k>(from + (h * g.w + left + begin) * g.channels,
                                                g.image_pitch<T>(), weight, VECTORS * lanes<T>,
                                                run);
      }
    });
  }

  // A pass of a panel over small images.
  template <int VECTORS>
  void small_images(const Pass<T>& pass, const T* from, int64_t count, T* out) const {
    out += pass.panel.first;
    for (int64_t row = 0; row < g.out_h; ++row) {
      for (int64_t column = 0; column < g.out_w; ++column, out += g.outputs) {
        for_each_tile<max_rows<VECTORS>>(count, [&](int64_t first, auto images) {
          same_pixel<images, VECTORS>(pass, from + first * g.image_pitch<T>(), row, column,
                                      out + first * g.out_size());
        });
      }
    }
  }

  template <int VECTORS>
  void image(const Pass<T>& pass, const T* padded, T* out) const {
    constexpr int rows_at_most = max_rows<VECTORS>;
    padded += pass.panel.group * g.group_channels;
    out += pass.panel.first;
    int64_t row = 0;
    for (; g.out_w <= rows_at_most / 2 && row + 1 < g.out_h; row += 2) {  // two short rows at once
      with_constant<rows_at_most / 2>(g.out_w, [&](auto width) {
        neighbours<2 * width, VECTORS, 2>(pass, padded + g.row_offset(row),
                                          out + row * g.out_w * g.outputs);
      });
    }
    for (; row < g.out_h; ++row) {
      for_each_tile<rows_at_most>(g.out_w, [&](int64_t pixel, auto rows) {
        neighbours<rows, VECTORS, 1>(pass, padded + g.row_offset(row) + pixel * g.pixel_step(),
                                     out + (row * g.out_w + pixel) * g.outputs);
      });
    }
  }

  // Some images and some of the panels.
  void images(int64_t begin, int64_t end, int64_t first_panel, int64_t end_panel) const {
    const T* padded = x + begin * g.image_size();
    if (g.has_small_images()) {
      T* copy = thread_scratch<T>((end - begin) * g.image_pitch<T>());
      for (int64_t i = begin; i < end; ++i) {
        std::copy_n(x + i * g.image_size(), g.image_size(),
                    copy + (i - begin) * g.image_pitch<T>());
      }
      padded = copy;
    } else if (g.padded()) {
      T* copy = thread_scratch<T>((end - begin) * g.padded_size());
      for (int64_t i = begin; i < end; ++i) {
        pad_image(g, x + i * g.image_size(), copy + (i - begin) * g.padded_size());
      }
      padded = copy;
    }
    for (int64_t i = first_panel; i < end_panel; ++i) panel(begin, end, i, padded);
  }

  void panel(int64_t begin, int64_t end, int64_t panel_index, const T* padded) const {
    const OutputPanel panel = output_panel<T>(g, panel_index);
    const int64_t width = panel.vectors * lanes<T>;
    const T* bias = packed + panel_index * panel_size<T>(g);
    constexpr int64_t cached_bytes = 128 << 10;
    const int64_t pass_runs =
        std::clamp<int64_t>(cached_bytes / (g.run_length * width * int64_t(sizeof(T))), 1, g.runs);
    for (int64_t run = 0; run < g.runs; run += pass_runs) {
      const int64_t count = std::min(pass_runs, g.runs - run);
      Pass<T> pass{.panel = panel,
                   .first_run = run,
                   .runs = {offsets + run, count, g.run_length},
                   .bias = bias,
                   .weight = bias + (1 + run * g.run_length) * width,
                   .first = run == 0,
                   .last = run + count == g.runs,
                   .spill_end = nullptr};
      if (g.has_small_images()) {
        with_constant<conv_vectors>(panel.vectors, [&](auto vectors) {
          small_images<vectors>(pass, padded, end - begin, y + begin * g.out_size());
        });
        continue;
      }
      if (panel.outputs == g.outputs && count == g.runs) pass.spill_end = y + end * g.out_size();
      for (int64_t i = begin; i < end; ++i) {
        const T* image_x = padded + (i - begin) * g.padded_size();
        with_constant<conv_vectors>(panel.vectors, [&](auto vectors) {
          image<vectors>(pass, image_x, y + i * g.out_size());
        });
      }
    }
  }
};

template <class T>
void forward(const kernels::Conv2dForward& call) {
  const ConvGeometry g(call.x.shape, call.weight.shape, call.y.shape, call.conv);
  if (g.images == 0 || g.out_size() == 0) return;
  if (is_depthwise(g)) {
    depthwise_forward<T>(g, call);
    return;
  }
  const int64_t panels = panel_count<T>(g);
  const Workspace<T> packed(panels * panel_size<T>(g));
  parallel_for(panels, items_per_chunk(weight_grain, panel_size<T>(g)),
               [&](int64_t begin, int64_t end) {
                 for (int64_t i = begin; i < end; ++i) {
                   pack_panel(g, output_panel<T>(g, i), call.weight.as<T>(), call.bias.as<T>(),
                              packed.data() + i * panel_size<T>(g));
                 }
               });
  const std::vector<int64_t> offsets = g.run_offsets();
  const Forward<T> work{
      g, call.x.as<T>(), packed.data(), call.y.as<T>(), call.activation, offsets.data()};
  const int64_t least = g.has_small_images() ? ConvGeometry::small_images_at_least : 1;
  const int64_t grain = std::max(least, g.image_grain(g.products() / panels));
  const int64_t parts = chunk_count(g.images, grain);
  // Panels share their images' padding, unless there are too few images for many threads.
  constexpr int64_t wanted_chunks = 16;
  const int64_t groups = std::min(panels, chunk_count(wanted_chunks, parts));
  parallel_for(parts * groups, 1, [&](int64_t chunk, int64_t) {
    const int64_t begin = chunk / groups * grain, group = chunk % groups;
    work.images(begin, std::min(g.images, begin + grain), group * panels / groups,
                (group + 1) * panels / groups);
  });
}

}  // namespace

void run(const kernels::Conv2dForward& call) {
  dispatch_float(call.x.dtype, call.name, [&](auto zero) { forward<decltype(zero)>(call); });
}

}  // namespace adret::cpu
