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

  // Tile of pixels, in BANDS rows of the image, the first at `window`; `out` is its first output.
  template <int ROWS, int VECTORS, int BANDS>
  void tile(const Pass<T>& pass, const T* window, T* out) const {
    RegisterTile<T, ROWS, VECTORS> sums;
    const int64_t tail = pass.panel.outputs - (VECTORS - 1) * lanes<T>;  // lanes in the last vector
    const auto complete = [&](int column) { return column + 1 < VECTORS || tail == lanes<T>; };
    sums.each([&](Vector<T>& sum, int row, int column) {
      const T* from = out + row * g.outputs + column * lanes<T>;
      sum = pass.first         ? load(pass.bias + column * lanes<T>)
            : complete(column) ? load(from)
                               : load_first(from, tail);
    });
    sums.template multiply_add<Adjacent::k, BANDS>(window, g.pixel_step(), pass.weight,
                                                   VECTORS * lanes<T>, pass.runs, g.row_offset(1));
    const bool relu = pass.last && activation == kernels::Activation::relu;
    sums.each([&](Vector<T>& sum, int row, int column) {
      if (relu) sum = sum < T(0) ? Vector<T>{} : sum;  // NaN stays
      T* const to = out + row * g.outputs + column * lanes<T>;
      if (complete(column) || to + lanes<T> <= pass.spill_end) {
        store(to, sum);
      } else {
        store_first(to, sum, tail);
      }
    });
  }

  template <int VECTORS>
  void image(const Pass<T>& pass, const T* padded, T* out) const {
    constexpr int rows_at_most = max_rows<VECTORS>;
    padded += pass.panel.group * g.group_channels;
    out += pass.panel.first;
    int64_t row = 0;
    for (; g.out_w <= rows_at_most / 2 && row + 1 < g.out_h; row += 2) {  // two short rows at once
      with_constant<rows_at_most / 2>(g.out_w, [&](auto width) {
        tile<2 * width, VECTORS, 2>(pass, padded + g.row_offset(row),
                                    out + row * g.out_w * g.outputs);
      });
    }
    for (; row < g.out_h; ++row) {
      for_each_tile<rows_at_most>(g.out_w, [&](int64_t pixel, auto rows) {
        tile<rows, VECTORS, 1>(pass, padded + g.row_offset(row) + pixel * g.pixel_step(),
                               out + (row * g.out_w + pixel) * g.outputs);
      });
    }
  }

  // Some images and some of the panels.
  void images(int64_t begin, int64_t end, int64_t first_panel, int64_t end_panel) const {
    const T* padded = x + begin * g.image_size();
    if (g.padded()) {
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
      Pass<T> pass{panel,    {offsets + run, count, g.run_length},
                   bias,     bias + (1 + run * g.run_length) * width,
                   run == 0, run + count == g.runs,
                   nullptr};
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
  const int64_t grain = g.image_grain(g.products() / panels);
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
