// Convolution forward: a register tile of output pixels x outputs, straight from the image.
#include <adret/core/cpu/conv_depthwise.h>
#include <adret/core/cpu/conv_geometry.h>
#include <adret/core/cpu/dispatch.h>
#include <adret/core/cpu/kernels.h>
#include <adret/core/cpu/scratch.h>
#include <adret/core/storage.h>
#include <adret/core/thread_pool.h>

namespace adret::cpu {
namespace {

// The outputs of one group that a tile computes: up to conv_vectors vectors of them.
struct Panel {
  int64_t first;    // output within all outputs
  int64_t outputs;  // in use; the lanes behind are padding
  int64_t group;
  int vectors;
};

template <class T>
Panel panel_at(const ConvGeometry& g, int64_t index) {
  const int64_t width = conv_vectors * lanes<T>, per_group = (g.group_outputs + width - 1) / width;
  const int64_t within = index % per_group * width;
  const int64_t outputs = std::min(width, g.group_outputs - within), group = index / per_group;
  return {group * g.group_outputs + within, outputs, group,
          int((outputs + lanes<T> - 1) / lanes<T>)};
}

template <class T>
int64_t panel_count(const ConvGeometry& g) {
  const int64_t width = conv_vectors * lanes<T>;
  return g.groups * ((g.group_outputs + width - 1) / width);
}

// packed[panel][tap][lane] = weight[output][tap], zero in the lanes of padding. All panels have
// the room of a full one.
template <class T>
void pack_weight(const ConvGeometry& g, const T* weight, T* packed) {
  const int64_t taps = g.taps(), width = conv_vectors * lanes<T>;
  parallel_for(panel_count<T>(g), std::max<int64_t>(1, 65536 / (taps * width)),
               [&](int64_t begin, int64_t end) {
                 for (int64_t i = begin; i < end; ++i) {
                   const Panel panel = panel_at<T>(g, i);
                   const int64_t used = panel.vectors * lanes<T>;
                   const T* from = weight + panel.first * taps;
                   T* to = packed + i * taps * width;
                   for (int64_t tap = 0; tap < taps; ++tap, to += used) {
                     for (int64_t o = 0; o < panel.outputs; ++o) to[o] = from[o * taps + tap];
                     std::fill(to + panel.outputs, to + used, T(0));
                   }
                 }
               });
}

// A range of the taps' runs, small enough for the panel's part to stay in the cache while the
// pixels of many images go by.
struct RunBlock {
  Runs runs;
  int64_t first_tap;
  bool first, last;
};

template <class T>
struct Forward {
  const ConvGeometry& g;
  const T *x, *packed, *bias;
  T* y;
  kernels::Activation activation;
  const int64_t* offsets;

  // Tile of pixels at `window`; `out` is the first pixel's first output.
  template <int ROWS, int VECTORS>
  void tile(const Panel& panel, const RunBlock& block, const T* window, const T* weight,
            T* out) const {
    RegisterTile<T, ROWS, VECTORS> sums;
    const int64_t tail = panel.outputs - (VECTORS - 1) * lanes<T>;  // lanes in the last vector
    const bool whole = tail == lanes<T>;
    sums.each([&](Vector<T>& sum, int row, int column) {
      const bool all = whole || column + 1 < VECTORS;
      if (!block.first) {
        const T* from = out + row * g.outputs + column * lanes<T>;
        sum = all ? load(from) : load_first(from, tail);
      } else if (bias) {
        const T* from = bias + panel.first + column * lanes<T>;
        sum = all ? load(from) : load_first(from, tail);
      } else {
        sum = Vector<T>{};
      }
    });
    sums.template multiply_add<Adjacent::k>(window, g.pixel_step(), weight, VECTORS * lanes<T>,
                                            block.runs);
    const bool relu = block.last && activation == kernels::Activation::relu;
    // What the last vector holds beyond the outputs may spill into the next pixels of the tile,
    // which are written right after.
    const int64_t spill_end = panel.outputs == g.outputs ? ROWS * g.outputs : 0;
    sums.each([&](Vector<T>& sum, int row, int column) {
      if (relu) sum = sum < T(0) ? Vector<T>{} : sum;  // NaN stays
      T* to = out + row * g.outputs + column * lanes<T>;
      if (whole || column + 1 < VECTORS || row * g.outputs + VECTORS * lanes<T> <= spill_end) {
        store(to, sum);
      } else {
        store_first(to, sum, tail);
      }
    });
  }

  template <int VECTORS>
  void image(const Panel& panel, const RunBlock& block, const T* padded, const T* weight,
             T* out) const {
    for (int64_t row = 0; row < g.out_h; ++row) {
      const T* windows = padded + g.row_offset(row) + panel.group * g.group_channels;
      T* pixels = out + row * g.out_w * g.outputs + panel.first;
      for_each_tile<max_rows<VECTORS>>(g.out_w, [&](int64_t pixel, auto rows) {
        tile<rows, VECTORS>(panel, block, windows + pixel * g.pixel_step(), weight,
                            pixels + pixel * g.outputs);
      });
    }
  }

  void images(int64_t begin, int64_t end, int64_t panel_index) const {
    const T* padded = x + begin * g.image_size();
    if (g.padded()) {
      T* copy = thread_scratch<T>((end - begin) * g.padded_size());
      for (int64_t i = begin; i < end; ++i) {
        pad_image(g, x + i * g.image_size(), copy + (i - begin) * g.padded_size());
      }
      padded = copy;
    }
    const Panel panel = panel_at<T>(g, panel_index);
    const int64_t width = panel.vectors * lanes<T>;
    const T* weight = packed + panel_index * g.taps() * conv_vectors * lanes<T>;
    constexpr int64_t cached_bytes = 128 << 10;
    const int64_t block_runs =
        std::clamp<int64_t>(cached_bytes / (g.run_length * width * int64_t(sizeof(T))), 1, g.runs);
    for (int64_t run = 0; run < g.runs; run += block_runs) {
      const int64_t count = std::min(block_runs, g.runs - run);
      const RunBlock block{{offsets + run, count, g.run_length},
                           run * g.run_length,
                           run == 0,
                           run + count == g.runs};
      const T* part = weight + block.first_tap * width;
      for (int64_t i = begin; i < end; ++i) {
        with_constant<conv_vectors>(panel.vectors, [&](auto vectors) {
          image<vectors>(panel, block, padded + (i - begin) * g.padded_size(), part,
                         y + i * g.out_size());
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
  const auto packed = Storage::allocate(
      size_t(panels * g.taps() * conv_vectors * lanes<T>) * sizeof(T), Device::cpu());
  pack_weight(g, call.weight.as<T>(), static_cast<T*>(packed->data()));
  const std::vector<int64_t> offsets = g.run_offsets();
  const Forward<T> work{g,
                        call.x.as<T>(),
                        static_cast<const T*>(packed->data()),
                        call.bias.as<T>(),
                        call.y.as<T>(),
                        call.activation,
                        offsets.data()};
  const int64_t grain = g.image_grain(g.products() / panels);
  const int64_t parts = chunk_count(g.images, grain);
  parallel_for(parts * panels, 1, [&](int64_t chunk, int64_t) {
    const int64_t begin = chunk / panels * grain;
    work.images(begin, std::min(g.images, begin + grain), chunk % panels);
  });
}

}  // namespace

void run(const kernels::Conv2dForward& call) {
  dispatch_float(call.x.dtype, call.name, [&](auto zero) { forward<decltype(zero)>(call); });
}

}  // namespace adret::cpu
