// Max and average pooling, vectorised over the channels of a window.
#include <adret/core/cpu/dispatch.h>
#include <adret/core/cpu/grain.h>
#include <adret/core/cpu/kernels.h>
#include <adret/core/cpu/vector.h>
#include <adret/core/thread_pool.h>

#include <algorithm>

namespace adret::cpu {
namespace {

using kernels::Pool2dParams;

// The part of a window inside the image, along one dimension: taps begin..end, the first at
// `start` in the image.
struct Span {
  int64_t begin, end, start;
};

Span window_span(int64_t out, int64_t size, int64_t kernel, int64_t stride, int64_t padding) {
  const int64_t origin = out * stride - padding;
  const int64_t begin = std::max<int64_t>(0, -origin);
  return {begin, std::min(kernel, size - origin), origin + begin};
}

struct PoolGeometry {
  int64_t images, h, w, channels, out_h, out_w;
  Pool2dParams pool;

  PoolGeometry(const Shape& x, const Shape& y, const Pool2dParams& params)
      : images(x[0]), h(x[1]), w(x[2]), channels(x[3]), out_h(y[1]), out_w(y[2]), pool(params) {}

  int64_t image_size() const { return h * w * channels; }
  int64_t out_row_size() const { return out_w * channels; }
  int64_t out_rows() const { return images * out_h; }
  // Output rows, or images, to a chunk of some ten thousand elements.
  int64_t row_grain() const { return items_per_chunk(1 << 14, out_row_size()); }
  int64_t image_grain() const { return items_per_chunk(1 << 15, image_size()); }
  Span rows(int64_t out) const {
    return window_span(out, h, pool.kernel.h, pool.stride.h, pool.padding.h);
  }
  Span columns(int64_t out) const {
    return window_span(out, w, pool.kernel.w, pool.stride.w, pool.padding.w);
  }
  // Of the element at tap (row, column) of a window, in its image.
  int64_t offset(const Span& r, const Span& c, int64_t row, int64_t column) const {
    return ((r.start + row - r.begin) * w + c.start + column - c.begin) * channels;
  }
  // Whether every element is in one window at most, and the windows start at the image's corner.
  bool tiled() const { return pool.kernel == pool.stride && pool.padding == Size2(0); }
};

// f(rows, columns, offset of the output in its image) for every window of image row `out_row`.
template <class F>
void each_window(const PoolGeometry& g, int64_t out_row, F f) {
  const Span rows = g.rows(out_row);
  for (int64_t column = 0; column < g.out_w; ++column) {
    f(rows, g.columns(column), (out_row * g.out_w + column) * g.channels);
  }
}

// Calls f with a value of the positions' type.
template <class F>
void dispatch_position(const TensorView& position, F f) {
  if (position.defined() && position.dtype == DType::i32) {
    f(int32_t{});
  } else {
    f(uint8_t{});
  }
}

// What comparisons of vectors of T give.
template <class T>
using LaneInt = typename SignedOf<sizeof(T)>::type;

template <class T, class Position>
class MaxPool {
 public:
  MaxPool(const PoolGeometry& g, const kernels::MaxPool2dForward& call)
      : g_(g),
        x_(call.x.as<T>()),
        x_end_(x_ + call.x.numel()),
        y_(call.y.as<T>()),
        position_(call.position.as<Position>()),
        relu_(call.activation == kernels::Activation::relu) {}

  // Output rows begin..end of all images.
  void rows(int64_t begin, int64_t end) const {
    const int64_t y_end = end * g_.out_row_size();
    for (int64_t row = begin; row < end; ++row) {
      const int64_t image = row / g_.out_h;
      const T* x = x_ + image * g_.image_size();
      const int64_t out = image * g_.out_h * g_.out_row_size();
      each_window(g_, row % g_.out_h, [&](const Span& r, const Span& c, int64_t at) {
        for (int64_t channel = 0; channel < g_.channels; channel += lanes<T>) {
          window(r, c, x + channel, out + at + channel,
                 std::min<int64_t>(lanes<T>, g_.channels - channel), y_end);
        }
      });
    }
  }

 private:
  using Index = Vector<LaneInt<T>>;

  // The lanes behind the last channel compute the next pixels' first values in vain. They may be
  // stored, as those pixels come after, but not beyond `y_end`, nor read beyond x.
  void window(const Span& r, const Span& c, const T* x, int64_t at, int64_t count,
              int64_t y_end) const {
    const int64_t row_size = g_.w * g_.channels;
    const T* row_start = x + r.start * row_size + c.start * g_.channels;
    const T* last =
        row_start + (r.end - r.begin - 1) * row_size + (c.end - c.begin - 1) * g_.channels;
    const bool inside = last + lanes<T> <= x_end_;
    const auto element = [&](const T* from) {
      return inside ? load(from) : load_some(from, count);
    };
    Vector<T> best = element(row_start);
    Index winner = Index{} + LaneInt<T>(r.begin * g_.pool.kernel.w + c.begin);
    for (int64_t row = r.begin; row < r.end; ++row, row_start += row_size) {
      const T* from = row_start;
      auto tap = LaneInt<T>(row * g_.pool.kernel.w + c.begin);
      for (int64_t column = c.begin; column < c.end; ++column, ++tap, from += g_.channels) {
        const Vector<T> value = element(from);
        // Larger, or the first NaN.
        const Index wins = ~(value <= best) & (best == best);
        best = wins ? value : best;
        winner = wins ? Index{} + tap : winner;
      }
    }
    if (relu_) {
      const Index zero = best <= T(0);
      best = zero ? Vector<T>{} : best;
      winner = zero ? Index{} + LaneInt<T>(g_.pool.kernel.area()) : winner;
    }
    const bool whole = at + lanes<T> <= y_end;
    store_some(y_ + at, best, whole ? lanes<T> : count);
    if (!position_) return;
    const auto narrow = convert_lanes<Position, lanes<T>, LaneInt<T>>(winner);
    if (whole) {
      std::memcpy(position_ + at, &narrow, sizeof narrow);
    } else {
      for (int64_t i = 0; i < count; ++i) position_[at + i] = narrow[i];
    }
  }

  const PoolGeometry& g_;
  const T *const x_, *const x_end_;
  T* const y_;
  Position* const position_;
  const bool relu_;
};

// dx where windows tile the image: every element is written once, in order.
template <class T, class Position>
class TiledMaxBackward {
 public:
  TiledMaxBackward(const PoolGeometry& g, const T* dy, const Position* position, T* dx)
      : g_(g), dy_(dy), position_(position), dx_(dx), out_end_(g.out_rows() * g.out_row_size()) {}

  // Rows begin..end of all images' dx.
  void rows(int64_t begin, int64_t end) const {
    const int64_t row_size = g_.w * g_.channels;
    for (int64_t row = begin; row < end; ++row) {
      const int64_t in_row = row % g_.h, out_row = in_row / g_.pool.kernel.h;
      const auto first_tap = LaneInt<T>(in_row % g_.pool.kernel.h * g_.pool.kernel.w);
      const int64_t out = (row / g_.h * g_.out_h + out_row) * g_.out_row_size();
      const int64_t windows = out_row < g_.out_h ? g_.out_w : 0;
      for (int64_t i = 0; i < windows; ++i) {
        const int64_t column = i * g_.pool.kernel.w;
        window(out + i * g_.channels, row * row_size + column * g_.channels, first_tap,
               std::min(g_.pool.kernel.w, g_.w - column), end * row_size);
      }
      const int64_t covered = std::min(g_.w, windows * g_.pool.kernel.w);
      std::fill(dx_ + row * row_size + covered * g_.channels, dx_ + (row + 1) * row_size, T(0));
    }
  }

 private:
  // A window's `taps` pixels in one row of dx, the first at `to`. With few channels, lanes behind
  // the last one are stored too and overwritten by the pixel that follows.
  void window(int64_t out, int64_t to, LaneInt<T> first_tap, int64_t taps, int64_t to_end) const {
    const int64_t channels = g_.channels;
    const bool may_spill = channels < lanes<T> && out + lanes<T> <= out_end_;
    for (int64_t c = 0; c < channels; c += lanes<T>) {
      if (channels < c + lanes<T> &&
          !(may_spill && to + (taps - 1) * channels + lanes<T> <= to_end)) {
        single_channels(out, to, c, first_tap, taps);
        return;
      }
      typename VectorOfLanes<Position, lanes<T>>::type narrow;
      std::memcpy(&narrow, position_ + out + c, sizeof narrow);
      const auto winner = convert_lanes<LaneInt<T>, lanes<T>, Position>(narrow);
      const Vector<T> gradient = load(dy_ + out + c);
      T* at = dx_ + to + c;
      for (int64_t tap = 0; tap < taps; ++tap, at += channels) {
        store(at, winner == first_tap + LaneInt<T>(tap) ? gradient : Vector<T>{});
      }
    }
  }
  void single_channels(int64_t out, int64_t to, int64_t first, LaneInt<T> first_tap,
                       int64_t taps) const {
    for (int64_t tap = 0; tap < taps; ++tap) {
      for (int64_t c = first; c < g_.channels; ++c) {
        const bool wins = position_[out + c] == first_tap + tap;
        dx_[to + tap * g_.channels + c] = wins ? dy_[out + c] : T(0);
      }
    }
  }

  const PoolGeometry& g_;
  const T* const dy_;
  const Position* const position_;
  T* const dx_;
  const int64_t out_end_;
};

// Windows first..first + count - 1 hold a place, along one dimension; it is tap `tap` of the first.
struct Holders {
  int64_t first, count, tap;
};

Holders holders(int64_t place, int64_t windows, int64_t kernel, int64_t stride, int64_t padding) {
  const int64_t at = place + padding;
  const int64_t first = at < kernel ? 0 : (at - kernel) / stride + 1;
  const int64_t end = std::min(windows, at / stride + 1);
  return {first, std::max<int64_t>(0, end - first), at - first * stride};
}

// dx where windows are small and overlap: every element is the sum of what its windows give it.
template <class T, class Position>
class GatheredMaxBackward {
 public:
  GatheredMaxBackward(const PoolGeometry& g, const T* dy, const Position* position, T* dx)
      : g_(g), dy_(dy), position_(position), dx_(dx) {}

  static bool suits(const PoolGeometry& g) {
    return g.pool.kernel.area() <= most_taps && g.channels % lanes<T> == 0;
  }

  // Rows begin..end of all images' dx.
  void rows(int64_t begin, int64_t end) const {
    const Pool2dParams& pool = g_.pool;
    for (int64_t row = begin; row < end; ++row) {
      const Holders r = holders(row % g_.h, g_.out_h, pool.kernel.h, pool.stride.h, pool.padding.h);
      const int64_t out = (row / g_.h * g_.out_h + r.first) * g_.out_row_size();
      T* to = dx_ + row * g_.w * g_.channels;
      for (int64_t column = 0; column < g_.w; ++column, to += g_.channels) {
        pixel(r, holders(column, g_.out_w, pool.kernel.w, pool.stride.w, pool.padding.w), out, to);
      }
    }
  }

 private:
  static constexpr int64_t most_taps = 25;

  void pixel(const Holders& r, const Holders& c, int64_t out, T* to) const {
    int64_t offset[most_taps], count = 0;
    LaneInt<T> tap[most_taps];
    for (int64_t i = 0; i < r.count; ++i) {
      for (int64_t j = 0; j < c.count; ++j, ++count) {
        offset[count] = out + i * g_.out_row_size() + (c.first + j) * g_.channels;
        tap[count] = LaneInt<T>((r.tap - i * g_.pool.stride.h) * g_.pool.kernel.w + c.tap -
                                j * g_.pool.stride.w);
      }
    }
    for (int64_t channel = 0; channel < g_.channels; channel += lanes<T>) {
      Vector<T> sum{};
      for (int64_t i = 0; i < count; ++i) {
        const int64_t at = offset[i] + channel;
        typename VectorOfLanes<Position, lanes<T>>::type narrow;
        std::memcpy(&narrow, position_ + at, sizeof narrow);
        const auto winner = convert_lanes<LaneInt<T>, lanes<T>, Position>(narrow);
        sum += winner == tap[i] ? load(dy_ + at) : Vector<T>{};
      }
      store(to + channel, sum);
    }
  }

  const PoolGeometry& g_;
  const T* const dy_;
  const Position* const position_;
  T* const dx_;
};

// f(offset of the output, offset of its winner) for every element of an image's output.
template <class Position, class F>
void each_winner(const PoolGeometry& g, const Position* position, F f) {
  const int64_t kernel_w = g.pool.kernel.w;
  for (int64_t row = 0; row < g.out_h; ++row) {
    each_window(g, row, [&](const Span& r, const Span& c, int64_t at) {
      for (int64_t channel = 0; channel < g.channels; ++channel) {
        const int64_t winner = position[at + channel];
        if (winner == g.pool.kernel.area()) continue;  // none: see MaxPool2dForward
        f(at + channel, g.offset(r, c, winner / kernel_w, winner % kernel_w) + channel);
      }
    });
  }
}

template <class T, class Position>
void max_backward(const PoolGeometry& g, const T* dy, const Position* position, T* dx) {
  const auto by_rows = [&](const auto& work) {
    parallel_for(g.images * g.h, items_per_chunk(memory_grain, g.w * g.channels),
                 [&](int64_t begin, int64_t end) { work.rows(begin, end); });
  };
  if (g.tiled()) return by_rows(TiledMaxBackward<T, Position>(g, dy, position, dx));
  using Gathered = GatheredMaxBackward<T, Position>;
  if (Gathered::suits(g)) return by_rows(Gathered(g, dy, position, dx));
  parallel_for(g.images, g.image_grain(), [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      const int64_t out = i * g.out_h * g.out_row_size();
      T* const image = dx + i * g.image_size();
      std::fill_n(image, g.image_size(), T(0));
      each_winner(g, position + out,
                  [&](int64_t at, int64_t winner) { image[winner] += dy[out + at]; });
    }
  });
}

// What the sum of a window is divided by.
template <class T>
T divisor(const PoolGeometry& g, const Span& r, const Span& c) {
  const auto padded = [](const Span& span, int64_t size, int64_t kernel, int64_t padding) {
    return std::min(kernel, size + padding - (span.start - span.begin));
  };
  if (!g.pool.count_include_pad) return T((r.end - r.begin) * (c.end - c.begin));
  return T(padded(r, g.h, g.pool.kernel.h, g.pool.padding.h) *
           padded(c, g.w, g.pool.kernel.w, g.pool.padding.w));
}

template <class T>
void average_forward(const PoolGeometry& g, const T* x, T* y) {
  parallel_for(g.out_rows(), g.row_grain(), [&](int64_t begin, int64_t end) {
    for (int64_t row = begin; row < end; ++row) {
      const T* image = x + row / g.out_h * g.image_size();
      T* out = y + row / g.out_h * g.out_h * g.out_row_size();
      each_window(g, row % g.out_h, [&](const Span& r, const Span& c, int64_t at) {
        const T over = divisor<T>(g, r, c);
        each_vector<T>(g.channels, [&](int64_t channel, int64_t count) {
          Vector<T> sum{};
          for (int64_t i = r.begin; i < r.end; ++i) {
            for (int64_t j = c.begin; j < c.end; ++j) {
              sum += load_some(image + g.offset(r, c, i, j) + channel, count);
            }
          }
          store_some(out + at + channel, sum / over, count);
        });
      });
    }
  });
}

template <class T>
void average_backward(const PoolGeometry& g, const T* dy, T* dx) {
  parallel_for(g.images, g.image_grain(), [&](int64_t begin, int64_t end) {
    for (int64_t image = begin; image < end; ++image) {
      const T* const from = dy + image * g.out_h * g.out_row_size();
      T* const to = dx + image * g.image_size();
      std::fill_n(to, g.image_size(), T(0));
      for (int64_t row = 0; row < g.out_h; ++row) {
        each_window(g, row, [&](const Span& r, const Span& c, int64_t at) {
          const T over = divisor<T>(g, r, c);
          each_vector<T>(g.channels, [&](int64_t channel, int64_t count) {
            const Vector<T> share = load_some(from + at + channel, count) / over;
            for (int64_t i = r.begin; i < r.end; ++i) {
              for (int64_t j = c.begin; j < c.end; ++j) {
                T* const element = to + g.offset(r, c, i, j) + channel;
                store_some(element, load_some(element, count) + share, count);
              }
            }
          });
        });
      }
    }
  });
}

}  // namespace

void run(const kernels::MaxPool2dForward& call) {
  dispatch_float(call.x.dtype, call.name, [&](auto zero) {
    dispatch_position(call.position, [&](auto position) {
      const PoolGeometry g(call.x.shape, call.y.shape, call.pool);
      const MaxPool<decltype(zero), decltype(position)> work(g, call);
      parallel_for(g.out_rows(), g.row_grain(),
                   [&](int64_t begin, int64_t end) { work.rows(begin, end); });
    });
  });
}

void run(const kernels::MaxPool2dBackward& call) {
  dispatch_float(call.dy.dtype, call.name, [&](auto zero) {
    dispatch_position(call.position, [&](auto position) {
      using T = decltype(zero);
      max_backward(PoolGeometry(call.dx.shape, call.dy.shape, call.pool), call.dy.as<T>(),
                   call.position.as<decltype(position)>(), call.dx.as<T>());
    });
  });
}

void run(const kernels::MaxPool2dGather& call) {
  dispatch_float(call.x.dtype, call.name, [&](auto zero) {
    dispatch_position(call.position, [&](auto type) {
      using T = decltype(zero);
      const PoolGeometry g(call.x.shape, call.y.shape, call.pool);
      parallel_for(g.images, g.image_grain(), [&](int64_t begin, int64_t end) {
        for (int64_t i = begin; i < end; ++i) {
          const int64_t out = i * g.out_h * g.out_row_size();
          const T* const x = call.x.as<T>() + i * g.image_size();
          T* const y = call.y.as<T>() + out;
          each_winner(g, call.position.as<decltype(type)>() + out,
                      [&](int64_t at, int64_t winner) { y[at] = x[winner]; });
        }
      });
    });
  });
}

void run(const kernels::AvgPool2dForward& call) {
  dispatch_float(call.x.dtype, call.name, [&](auto zero) {
    using T = decltype(zero);
    average_forward(PoolGeometry(call.x.shape, call.y.shape, call.pool), call.x.as<T>(),
                    call.y.as<T>());
  });
}

void run(const kernels::AvgPool2dBackward& call) {
  dispatch_float(call.dy.dtype, call.name, [&](auto zero) {
    using T = decltype(zero);
    average_backward(PoolGeometry(call.dx.shape, call.dy.shape, call.pool), call.dy.as<T>(),
                     call.dx.as<T>());
  });
}

}  // namespace adret::cpu
