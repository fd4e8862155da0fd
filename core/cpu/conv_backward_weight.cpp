// Convolution backward to weight and bias: a register tile of taps x outputs over all pixels.
#include <adret/core/cpu/column_sums.h>
#include <adret/core/cpu/conv_depthwise.h>
#include <adret/core/cpu/conv_geometry.h>
#include <adret/core/cpu/dispatch.h>
#include <adret/core/cpu/kernels.h>
#include <adret/core/cpu/scratch.h>
#include <adret/core/cpu/workspace.h>
#include <adret/core/thread_pool.h>

namespace adret::cpu {
namespace {

// Note [Partial weight gradients]
// The images are split into parts; each part sums its own gradients (taps + 1) x padded outputs,
// the last row being the bias's, and the parts are then added in order. Their number depends on
// the shapes alone, so the bits do not depend on the threads. Outputs are split as well, so that
// large weights need few parts, and so little memory.
struct Split {
  int64_t parts, part_images;
  int64_t panels;          // of outputs; see OutputPanel
  int64_t padded_outputs;  // of all panels
};

template <class T>
Split split_of(const ConvGeometry& g) {
  constexpr int64_t wanted_chunks = 16;
  Split split;
  split.panels = panel_count<T>(g);
  split.padded_outputs = split.panels * panel_width<T>;
  const int64_t parts = chunk_count(wanted_chunks, split.panels);
  split.part_images =
      std::max(g.image_grain(g.products() / split.panels), chunk_count(g.images, parts));
  split.parts = chunk_count(g.images, split.part_images);
  return split;
}

template <class T>
struct BackwardWeight {
  const ConvGeometry& g;
  const Split& split;
  const T *x, *dy;                       // x with its padding
  T* partial;                            // (parts, taps + 1, padded outputs)
  const int64_t *offsets, *row_offsets;  // of the runs; of the rows of a part's images

  struct Panel : OutputPanel {
    T* sums;  // this panel's column of the part's gradients
  };

  // Some rows of output pixels: the first window of each as runs, and the gradients.
  struct Block {
    const T* x;
    Runs rows;
    const T* dy;
    int64_t ldb;
    bool first;
  };

  // Tile of BANDS * HEIGHT taps: those from `window` on, and as many band_step behind.
  template <int BANDS, int HEIGHT, int VECTORS>
  void tile(const Block& block, const T* window, int64_t band_step, T* to) const {
    RegisterTile<T, BANDS * HEIGHT, VECTORS> sums;
    const int64_t ld = split.padded_outputs;
    const auto place = [&](int row, int column) {
      return to + (row / HEIGHT * g.run_length + row % HEIGHT) * ld + column * lanes<T>;
    };
    sums.each([&](Vector<T>& sum, int row, int column) {
      sum = block.first ? Vector<T>{} : load(place(row, column));
    });
    sums.template multiply_add<Adjacent::rows, BANDS>(window, g.pixel_step(), block.dy, block.ldb,
                                                      block.rows, band_step);
    sums.each([&](Vector<T>& sum, int row, int column) { store(place(row, column), sum); });
  }

  // The taps of one run, or of two that are short: a few rows alone would leave the arithmetic
  // units waiting for the sums before.
  template <int BANDS, int VECTORS>
  void tap_runs(const Panel& panel, const Block& block, int64_t run) const {
    const T* window = block.x + offsets[run] + panel.group * g.group_channels;
    const int64_t band_step = BANDS > 1 ? offsets[run + 1] - offsets[run] : 0;
    T* to = panel.sums + run * g.run_length * split.padded_outputs;
    for_each_tile<max_rows<VECTORS> / BANDS>(g.run_length, [&](int64_t tap, auto height) {
      tile<BANDS, height, VECTORS>(block, window + tap, band_step, to + tap * split.padded_outputs);
    });
  }

  template <int VECTORS>
  void taps(const Panel& panel, const Block& block) const {
    const bool pairs = g.run_length <= max_rows<VECTORS> / 2;
    int64_t run = 0;
    for (; pairs && run + 1 < g.runs; run += 2) tap_runs<2, VECTORS>(panel, block, run);
    for (; run < g.runs; ++run) tap_runs<1, VECTORS>(panel, block, run);
    T* to = panel.sums + g.taps() * split.padded_outputs;
    for (int column = 0; column < VECTORS; ++column, to += lanes<T>) {
      const Vector<T> sum =
          sum_rows(block.dy + column * lanes<T>, block.rows.count * block.rows.length, block.ldb);
      store(to, block.first ? sum : load(to) + sum);
    }
  }

  Panel panel_at(int64_t part, int64_t index) const {
    return {output_panel<T>(g, index),
            partial + part * (g.taps() + 1) * split.padded_outputs + index * panel_width<T>};
  }

  void sum_part(int64_t part, int64_t panel_index) const {
    const Panel panel = panel_at(part, panel_index);
    const int64_t begin = part * split.part_images;
    const int64_t images = std::min(g.images - begin, split.part_images);
    const int64_t width = panel.vectors * lanes<T>;
    // Rows of pixels that stay in the innermost cache with their gradients.
    constexpr int64_t block_pixels = 128;
    const int64_t block_rows = std::max<int64_t>(1, block_pixels / g.out_w);
    const int64_t dy_size = block_rows * g.out_w * width;
    T* const dy_copy = thread_scratch<T>(dy_size);
    const T* const padded = x + begin * g.padded_size();
    for (int64_t row = 0; row < images * g.out_h; row += block_rows) {
      const int64_t rows = std::min(block_rows, images * g.out_h - row);
      const int64_t pixels = rows * g.out_w;
      const T* gradient = dy + begin * g.out_size() + row * g.out_w * g.outputs + panel.first;
      Block block{padded, {row_offsets + row, rows, g.out_w}, gradient, g.outputs, row == 0};
      // Rows far apart fall on few sets of the cache. Lanes of padding may read the next pixel's
      // gradients, which nobody uses, but never beyond dy.
      if (g.outputs > panel_width<T> ||
          gradient + (pixels - 1) * g.outputs + width > dy + g.images * g.out_size()) {
        copy_rows(gradient, pixels, panel.outputs, width, dy_copy);
        block.dy = dy_copy;
        block.ldb = width;
      }
      with_constant<conv_vectors>(panel.vectors,
                                  [&](auto vectors) { taps<vectors>(panel, block); });
    }
  }

  // Rows of gradients, filled up with zeros to whole vectors.
  void copy_rows(const T* from, int64_t rows, int64_t outputs, int64_t width, T* to) const {
    for (int64_t row = 0; row < rows; ++row, from += g.outputs, to += width) {
      copy_row(from, outputs, to, width);
    }
  }

  // dweight (outputs, taps) and dbias from all parts, for some taps of every panel; the row behind
  // the last tap is the bias's.
  void finish(int64_t first_tap, int64_t end_tap, T* dweight, T* dbias) const {
    const int64_t part_size = (g.taps() + 1) * split.padded_outputs;
    T totals[finish_taps][panel_width<T>];
    for (int64_t index = 0; index < split.panels; ++index) {
      const Panel panel = panel_at(0, index);
      for (int64_t tap = first_tap; tap < end_tap; ++tap) {
        for (int v = 0; v < panel.vectors; ++v) {
          const T* from = panel.sums + tap * split.padded_outputs + v * lanes<T>;
          Vector<T> total = load(from);
          for (int64_t part = 1; part < split.parts; ++part) total += load(from + part * part_size);
          store(totals[tap - first_tap] + v * lanes<T>, total);
        }
      }
      for (int64_t o = 0; o < panel.outputs; ++o) {
        T* const to = dweight + (panel.first + o) * g.taps();
        for (int64_t tap = first_tap; tap < std::min(end_tap, g.taps()); ++tap) {
          to[tap] = totals[tap - first_tap][o];
        }
        if (end_tap > g.taps() && dbias) dbias[panel.first + o] = totals[g.taps() - first_tap][o];
      }
    }
  }
  static constexpr int64_t finish_taps = 32;
};

template <class T>
void backward_weight(const kernels::Conv2dBackwardWeight& call) {
  T* const dweight = call.dweight.as<T>();
  T* const dbias = call.dbias.as<T>();
  const int64_t outputs = call.dy.shape[3];
  if (!dweight || call.dy.numel() == 0) {
    if (dweight) std::fill_n(dweight, call.dweight.numel(), T(0));
    if (dbias) column_sums(call.dy.as<T>(), call.dy.numel() / outputs, outputs, dbias);
    return;
  }
  const ConvGeometry g(call.x.shape, call.dweight.shape, call.dy.shape, call.conv);
  if (is_depthwise(g)) {
    depthwise_backward_weight<T>(g, call);
    return;
  }
  const Split split = split_of<T>(g);
  const Workspace<T> partial(split.parts * (g.taps() + 1) * split.padded_outputs);
  const std::vector<int64_t> offsets = g.run_offsets();
  const std::vector<int64_t> row_offsets = g.row_offsets(std::min(g.images, split.part_images));
  const PaddedImages<T> padded(g, call.x.as<T>());
  const BackwardWeight<T> work{
      g, split, padded.data(), call.dy.as<T>(), partial.data(), offsets.data(), row_offsets.data()};
  parallel_for(split.parts * split.panels, 1, [&](int64_t chunk, int64_t) {
    work.sum_part(chunk / split.panels, chunk % split.panels);
  });
  const int64_t tap_blocks = chunk_count(g.taps() + 1, work.finish_taps);
  const int64_t block_size = split.parts * work.finish_taps * split.padded_outputs;
  parallel_for(tap_blocks, items_per_chunk(weight_grain, block_size),
               [&](int64_t begin, int64_t end) {
                 for (int64_t block = begin; block < end; ++block) {
                   const int64_t tap = block * work.finish_taps;
                   work.finish(tap, std::min(tap + work.finish_taps, g.taps() + 1), dweight, dbias);
                 }
               });
}

}  // namespace

void run(const kernels::Conv2dBackwardWeight& call) {
  dispatch_float(call.x.dtype, call.name,
                 [&](auto zero) { backward_weight<decltype(zero)>(call); });
}

}  // namespace adret::cpu
