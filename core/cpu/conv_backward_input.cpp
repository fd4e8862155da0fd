// Convolution backward to the input: a register tile of output pixels x taps, added to where the
// taps lie in the image.
#include <adret/core/cpu/conv_depthwise.h>
#include <adret/core/cpu/conv_geometry.h>
#include <adret/core/cpu/dispatch.h>
#include <adret/core/cpu/kernels.h>
#include <adret/core/cpu/scratch.h>
#include <adret/core/cpu/workspace.h>
#include <adret/core/thread_pool.h>

namespace adret::cpu {
namespace {

// Columns of a tile: taps first_tap, ... of one run of a group, up to conv_vectors vectors.
struct Panel {
  int64_t group, run, first_tap;
  int64_t taps;  // in use; the lanes behind are padding
  int vectors;
};

template <class T>
std::vector<Panel> panels_of(const ConvGeometry& g) {
  std::vector<Panel> panels;
  for (int64_t group = 0; group < g.groups; ++group) {
    for (int64_t run = 0; run < g.runs; ++run) {
      for (int64_t tap = 0; tap < g.run_length; tap += panel_width<T>) {
        const int64_t taps = std::min(panel_width<T>, g.run_length - tap);
        panels.push_back({group, run, tap, taps, int((taps + lanes<T> - 1) / lanes<T>)});
      }
    }
  }
  return panels;
}

// packed[panel][output][lane] = weight[output][run][tap], zero in the lanes of padding. All panels
// have the room of a full one.
template <class T>
void pack_weight(const ConvGeometry& g, const std::vector<Panel>& panels, const T* weight,
                 T* packed) {
  const int64_t size = g.group_outputs * panel_width<T>;
  parallel_for(int64_t(panels.size()), items_per_chunk(weight_grain, size),
               [&](int64_t begin, int64_t end) {
                 for (int64_t i = begin; i < end; ++i) {
                   const Panel& panel = panels[size_t(i)];
                   const T* from = weight + panel.group * g.group_outputs * g.taps() +
                                   panel.run * g.run_length + panel.first_tap;
                   T* to = packed + i * size;
                   const int64_t width = panel.vectors * lanes<T>;
                   for (int64_t o = 0; o < g.group_outputs; ++o, from += g.taps(), to += width) {
                     copy_row(from, panel.taps, to, width);
                   }
                 }
               });
}

template <class T>
struct BackwardInput {
  const ConvGeometry& g;
  const T *dy, *packed;
  T* dx;
  const std::vector<Panel>& panels;
  const int64_t* offsets;

  // From one pixel of a tile to the next: in dy, and in the padded image, where the tile may
  // consist of two bands.
  struct Steps {
    int64_t gradient, window, band;
  };

  // Tile of pixels at `gradient`; `window` is where the first pixel's first tap lies.
  template <int ROWS, int VECTORS, int BANDS>
  void tile(const Panel& panel, const Steps& steps, const T* gradient, const T* weight,
            T* window) const {
    constexpr int band = ROWS / BANDS;
    RegisterTile<T, ROWS, VECTORS> sums;
    sums.each([](Vector<T>& sum, int, int) { sum = Vector<T>{}; });
    const int64_t start = 0;
    sums.template multiply_add<Adjacent::k>(gradient, steps.gradient, weight, VECTORS * lanes<T>,
                                            {&start, 1, g.group_outputs});
    // Lanes beyond the run's end are added as zeros, even where an infinite gradient met the zeros
    // of padding: the image is this thread's alone and has room for a vector behind it.
    const auto in_run = lane_numbers<T>() < T(panel.taps - (VECTORS - 1) * lanes<T>);
    sums.each([&](Vector<T>& sum, int row, int column) {
      T* const to =
          window + row / band * steps.band + row % band * steps.window + column * lanes<T>;
      if (column + 1 == VECTORS) sum = in_run ? sum : Vector<T>{};
      store(to, load(to) + sum);
    });
  }

  // One panel's taps for all pixels of an image. Neighbours whose vectors overlap must not be
  // added one right after the other, as a load waits for the store before to reach the cache:
  // tiles then go down the columns of pixels.
  template <int VECTORS>
  void image(const Panel& panel, const T* weight, const T* gradient, T* padded) const {
    constexpr int rows_at_most = max_rows<VECTORS>;
    const Steps right{g.outputs, g.pixel_step(), g.row_offset(1)};
    const Steps down{g.out_w * g.outputs, g.row_offset(1), 0};
    gradient += panel.group * g.group_outputs;
    padded += offsets[panel.run] + panel.group * g.group_channels + panel.first_tap;
    const auto add_line = [&](int64_t count, const Steps& steps, const T* from, T* to) {
      for_each_tile<rows_at_most>(count, [&](int64_t pixel, auto rows) {
        tile<rows, VECTORS, 1>(panel, steps, from + pixel * steps.gradient, weight,
                               to + pixel * steps.window);
      });
    };
    if (right.window < panel_width<T>) {
      for (int64_t column = 0; column < g.out_w; ++column) {
        add_line(g.out_h, down, gradient + column * right.gradient, padded + column * right.window);
      }
      return;
    }
    int64_t row = 0;
    for (; g.out_w <= rows_at_most / 2 && row + 1 < g.out_h; row += 2) {  // two short rows at once
      with_constant<rows_at_most / 2>(g.out_w, [&](auto width) {
        tile<2 * width, VECTORS, 2>(panel, right, gradient + row * down.gradient, weight,
                                    padded + row * down.window);
      });
    }
    for (; row < g.out_h; ++row) {
      add_line(g.out_w, right, gradient + row * down.gradient, padded + row * down.window);
    }
  }

  void images(int64_t begin, int64_t end) const {
    const bool in_place = !g.padded() && g.run_length % lanes<T> == 0;
    const int64_t count = end - begin, size = g.padded_size();
    T* const to = dx + begin * g.image_size();
    T* const padded = in_place ? to : thread_scratch<T>(count * size + lanes<T>);
    std::fill_n(padded, count * size, T(0));
    const T* weight = packed;
    for (const Panel& panel : panels) {
      with_constant<conv_vectors>(panel.vectors, [&](auto vectors) {
        for (int64_t i = 0; i < count; ++i) {
          image<vectors>(panel, weight, dy + (begin + i) * g.out_size(), padded + i * size);
        }
      });
      weight += g.group_outputs * panel_width<T>;
    }
    for (int64_t i = 0; i < count && !in_place; ++i) {
      unpad_image(g, padded + i * size, to + i * g.image_size());
    }
  }
};

template <class T>
void backward_input(const kernels::Conv2dBackwardInput& call) {
  const ConvGeometry g(call.dx.shape, call.weight.shape, call.dy.shape, call.conv);
  if (is_depthwise(g)) {
    depthwise_backward_input<T>(g, call);
    return;
  }
  const std::vector<Panel> panels = panels_of<T>(g);
  const Workspace<T> packed(int64_t(panels.size()) * g.group_outputs * panel_width<T>);
  pack_weight(g, panels, call.weight.as<T>(), packed.data());
  const std::vector<int64_t> offsets = g.run_offsets();
  const BackwardInput<T> work{g,      call.dy.as<T>(), packed.data(), call.dx.as<T>(),
                              panels, offsets.data()};
  parallel_for(g.images, g.image_grain(g.products()),
               [&](int64_t begin, int64_t end) { work.images(begin, end); });
}

}  // namespace

void run(const kernels::Conv2dBackwardInput& call) {
  dispatch_float(call.dy.dtype, call.name,
                 [&](auto zero) { backward_input<decltype(zero)>(call); });
}

}  // namespace adret::cpu
