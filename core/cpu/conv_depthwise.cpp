// Depthwise convolution in its three directions, vectorised over the channels.
#include <adret/core/cpu/conv_depthwise.h>
#include <adret/core/cpu/scratch.h>
#include <adret/core/cpu/vector.h>
#include <adret/core/cpu/workspace.h>
#include <adret/core/thread_pool.h>

namespace adret::cpu {
namespace {

// (channels, taps) to (taps, channels).
template <class T>
Workspace<T> taps_first(const ConvGeometry& g, const T* weight) {
  Workspace<T> packed(g.channels * g.runs);
  T* const to = packed.data();
  for (int64_t c = 0; c < g.channels; ++c) {
    for (int64_t tap = 0; tap < g.runs; ++tap) to[tap * g.channels + c] = weight[c * g.runs + tap];
  }
  return packed;
}

// The image at `x`, or its padded copy in the thread's scratch.
template <class T>
const T* padded_image(const ConvGeometry& g, const T* x) {
  if (!g.padded()) return x;
  T* const copy = thread_scratch<T>(g.padded_size());
  pad_image(g, x, copy);
  return copy;
}

// f(first tap in the padded image, place in y) for every output pixel of an image.
template <class F>
void each_pixel(const ConvGeometry& g, F f) {
  for (int64_t row = 0; row < g.out_h; ++row) {
    for (int64_t column = 0; column < g.out_w; ++column) {
      f(g.row_offset(row) + column * g.pixel_step(), (row * g.out_w + column) * g.channels);
    }
  }
}

}  // namespace

template <class T>
void depthwise_forward(const ConvGeometry& g, const kernels::Conv2dForward& call) {
  const Workspace<T> weight = taps_first(g, call.weight.as<T>());
  const T* const w = weight.data();
  const T* const bias = call.bias.as<T>();
  const bool relu = call.activation == kernels::Activation::relu;
  const std::vector<int64_t> offsets = g.run_offsets();
  parallel_for(g.images, g.image_grain(g.products()), [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      const T* const x = padded_image(g, call.x.as<T>() + i * g.image_size());
      T* const y = call.y.as<T>() + i * g.out_size();
      each_pixel(g, [&](int64_t window, int64_t pixel) {
        each_vector<T>(g.channels, [&](int64_t c, int64_t count) {
          Vector<T> sum = bias ? load_some(bias + c, count) : Vector<T>{};
          for (int64_t tap = 0; tap < g.runs; ++tap) {
            sum += load_some(x + window + offsets[size_t(tap)] + c, count) *
                   load_some(w + tap * g.channels + c, count);
          }
          if (relu) sum = sum < T(0) ? Vector<T>{} : sum;  // NaN stays
          store_some(y + pixel + c, sum, count);
        });
      });
    }
  });
}

template <class T>
void depthwise_backward_input(const ConvGeometry& g, const kernels::Conv2dBackwardInput& call) {
  const Workspace<T> weight = taps_first(g, call.weight.as<T>());
  const T* const w = weight.data();
  const std::vector<int64_t> offsets = g.run_offsets();
  parallel_for(g.images, g.image_grain(g.products()), [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      const T* const dy = call.dy.as<T>() + i * g.out_size();
      T* const dx = call.dx.as<T>() + i * g.image_size();
      T* const padded = g.padded() ? thread_scratch<T>(g.padded_size()) : dx;
      std::fill_n(padded, g.padded_size(), T(0));
      each_pixel(g, [&](int64_t window, int64_t pixel) {
        each_vector<T>(g.channels, [&](int64_t c, int64_t count) {
          const Vector<T> gradient = load_some(dy + pixel + c, count);
          for (int64_t tap = 0; tap < g.runs; ++tap) {
            T* const to = padded + window + offsets[size_t(tap)] + c;
            const Vector<T> product = gradient * load_some(w + tap * g.channels + c, count);
            store_some(to, load_some(to, count) + product, count);
          }
        });
      });
      if (g.padded()) unpad_image(g, padded, dx);
    }
  });
}

template <class T>
void depthwise_backward_weight(const ConvGeometry& g, const kernels::Conv2dBackwardWeight& call) {
  // Partial sums of (taps, channels) and, last, the bias's; see Note [Partial weight gradients].
  const int64_t grain = std::max(g.image_grain(g.products()), chunk_count(g.images, 16));
  const int64_t parts = chunk_count(g.images, grain), size = (g.runs + 1) * g.channels;
  const Workspace<T> partial(parts * size);
  T* const sums = partial.data();
  const std::vector<int64_t> offsets = g.run_offsets();
  parallel_chunks(g.images, grain, [&](int64_t part, int64_t begin, int64_t end) {
    T* const to = sums + part * size;
    std::fill_n(to, size, T(0));
    for (int64_t i = begin; i < end; ++i) {
      const T* const x = padded_image(g, call.x.as<T>() + i * g.image_size());
      const T* const dy = call.dy.as<T>() + i * g.out_size();
      each_pixel(g, [&](int64_t window, int64_t pixel) {
        each_vector<T>(g.channels, [&](int64_t c, int64_t count) {
          const Vector<T> gradient = load_some(dy + pixel + c, count);
          T* at = to + c;
          for (int64_t tap = 0; tap < g.runs; ++tap, at += g.channels) {
            const Vector<T> image = load_some(x + window + offsets[size_t(tap)] + c, count);
            store_some(at, load_some(at, count) + gradient * image, count);
          }
          store_some(at, load_some(at, count) + gradient, count);
        });
      });
    }
  });
  for (int64_t part = 1; part < parts; ++part) {
    for (int64_t i = 0; i < size; ++i) sums[i] += sums[part * size + i];
  }
  for (int64_t c = 0; c < g.channels; ++c) {
    for (int64_t tap = 0; tap < g.runs; ++tap) {
      call.dweight.as<T>()[c * g.runs + tap] = sums[tap * g.channels + c];
    }
    if (call.dbias.defined()) call.dbias.as<T>()[c] = sums[g.runs * g.channels + c];
  }
}

template void depthwise_forward<float>(const ConvGeometry&, const kernels::Conv2dForward&);
template void depthwise_forward<double>(const ConvGeometry&, const kernels::Conv2dForward&);
template void depthwise_backward_input<float>(const ConvGeometry&,
                                              const kernels::Conv2dBackwardInput&);
template void depthwise_backward_input<double>(const ConvGeometry&,
                                               const kernels::Conv2dBackwardInput&);
template void depthwise_backward_weight<float>(const ConvGeometry&,
                                               const kernels::Conv2dBackwardWeight&);
template void depthwise_backward_weight<double>(const ConvGeometry&,
                                                const kernels::Conv2dBackwardWeight&);

}  // namespace adret::cpu
