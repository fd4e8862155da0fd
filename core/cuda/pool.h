// Where the windows of a pooling call lie, and the kernels' variants: index type, vectors, windows
// whose size is known to the compiler.
#pragma once

#include <adret/core/cuda/fast_divisor.h>
#include <adret/core/cuda/launch.h>
#include <adret/core/kernels/pool.h>
#include <adret/core/shape.h>

#include <algorithm>
#include <cstdint>
#include <type_traits>

namespace adret::cuda {

// -- on the host ---------------------------------------------------------------------------------

struct PoolSizes {
  int64_t images, h, w, channels, out_h, out_w;
  kernels::Pool2dParams pool;

  PoolSizes(const Shape& x, const Shape& y, const kernels::Pool2dParams& params)
      : images(x[0]), h(x[1]), w(x[2]), channels(x[3]), out_h(y[1]), out_w(y[2]), pool(params) {}

  int64_t x_image() const { return h * w * channels; }  // elements
  int64_t y_image() const { return out_h * out_w * channels; }
  bool empty() const { return images * x_image() == 0 || images * y_image() == 0; }
  // Whether no element is in two windows.
  bool disjoint() const { return pool.kernel.h <= pool.stride.h && pool.kernel.w <= pool.stride.w; }
  // Images that 32-bit indices reach at once: 0 when they do not reach over one.
  int64_t images_at_once() const {
    constexpr int64_t most = int64_t(1) << 30;
    if (std::max({pool.kernel.area(), pool.stride.h, pool.stride.w}) >= most) return 0;
    return most / std::max<int64_t>({1, x_image(), y_image()});
  }
};

// -- geometry ------------------------------------------------------------------------------------

template <class Index>
struct Span {
  Index begin, end;
};

// What a kernel's items are, a thread each: vectors of outputs or inputs, or of tiles. Tile (i, j)
// reaches from window (i, j) to the next ones, and beyond the last window over the image's rest.
enum class PoolItems { outputs, inputs, tiles };

// `window` and `step`, if not 0, are the height and width of all windows, and their stride.
template <class I, int window = 0, int step = 0>
class PoolGeometry {
 public:
  using Index = I;
  using Divisor = std::conditional_t<sizeof(Index) == 4, FastDivisor, WideDivisor>;
  static constexpr bool fixed = window != 0;
  static constexpr int fixed_window = window;
  // Windows along one dimension that an element may be in, if fixed.
  static constexpr int most_windows = fixed ? (window + step - 1) / step : 0;

  struct Place {
    Index image, row, column, channel;
  };

  PoolGeometry(const PoolSizes& sizes, int64_t image_count, PoolItems items, int lanes)
      : h(Index(sizes.h)),
        w(Index(sizes.w)),
        channels(Index(sizes.channels)),
        out_h(Index(sizes.out_h)),
        out_w(Index(sizes.out_w)),
        padding_h(Index(sizes.pool.padding.h)),
        padding_w(Index(sizes.pool.padding.w)),
        kernel_h_(Index(sizes.pool.kernel.h)),
        kernel_w_(Index(sizes.pool.kernel.w)),
        stride_h_(Index(sizes.pool.stride.h)),
        stride_w_(Index(sizes.pool.stride.w)),
        by_stride_h_(sizes.pool.stride.h),
        by_stride_w_(sizes.pool.stride.w),
        by_rows_(item_rows(sizes, items)),
        by_columns_(item_columns(sizes, items)),
        by_vectors_(sizes.channels / lanes),
        items_(Index(image_count * item_rows(sizes, items) * item_columns(sizes, items) *
                     (sizes.channels / lanes))),
        lanes_(lanes) {}

  __host__ __device__ Index items() const { return items_; }
  __device__ Place place(Index item) const {
    const auto split = [&](const Divisor& divisor) {
      const Index quotient = Index(divisor.quotient(item)), size = Index(divisor.divisor());
      const Index remainder = item - quotient * size;
      item = quotient;
      return remainder;
    };
    Place place;
    place.channel = split(by_vectors_) * Index(lanes_);
    place.column = split(by_columns_);
    place.row = split(by_rows_);
    place.image = item;
    return place;
  }

  __device__ Index kernel_h() const { return fixed ? Index(window) : kernel_h_; }
  __device__ Index kernel_w() const { return fixed ? Index(window) : kernel_w_; }
  __device__ Index stride_h() const { return fixed ? Index(step) : stride_h_; }
  __device__ Index stride_w() const { return fixed ? Index(step) : stride_w_; }

  // Where window row or column `out` begins in the image, padding being negative.
  __device__ Index top(Index out_row) const { return out_row * stride_h() - padding_h; }
  __device__ Index left(Index out_column) const { return out_column * stride_w() - padding_w; }
  // The image's rows or columns in a window.
  __device__ Span<Index> rows(Index top) const {
    return {max(top, Index(0)), min(top + kernel_h(), h)};
  }
  __device__ Span<Index> columns(Index left) const {
    return {max(left, Index(0)), min(left + kernel_w(), w)};
  }
  // The windows that hold an image's row or column.
  __device__ Span<Index> windows_of_row(Index row) const {
    return windows_of(row + padding_h, kernel_h(), by_stride_h_, out_h);
  }
  __device__ Span<Index> windows_of_column(Index column) const {
    return windows_of(column + padding_w, kernel_w(), by_stride_w_, out_w);
  }

  // Offsets of elements.
  __device__ Index input(Index image, Index row, Index column, Index channel) const {
    return ((image * h + row) * w + column) * channels + channel;
  }
  __device__ Index output(Index image, Index row, Index column, Index channel) const {
    return ((image * out_h + row) * out_w + column) * channels + channel;
  }

  Index h, w, channels, out_h, out_w, padding_h, padding_w;

 private:
  static int64_t item_rows(const PoolSizes& sizes, PoolItems items) {
    if (items == PoolItems::outputs) return sizes.out_h;
    if (items == PoolItems::inputs) return sizes.h;
    return divide_up(sizes.h + sizes.pool.padding.h, sizes.pool.stride.h);
  }
  static int64_t item_columns(const PoolSizes& sizes, PoolItems items) {
    if (items == PoolItems::outputs) return sizes.out_w;
    if (items == PoolItems::inputs) return sizes.w;
    return divide_up(sizes.w + sizes.pool.padding.w, sizes.pool.stride.w);
  }
  // `at` counts from the beginning of the padding.
  __device__ static Span<Index> windows_of(Index at, Index kernel, const Divisor& by_stride,
                                           Index count) {
    const auto window_at = [&](Index i) {
      return fixed ? i / Index(fixed ? step : 1) : Index(by_stride.quotient(i));
    };
    return {at < kernel ? Index(0) : window_at(at - kernel) + 1, min(count, window_at(at) + 1)};
  }

  Index kernel_h_, kernel_w_, stride_h_, stride_w_;
  Divisor by_stride_h_, by_stride_w_, by_rows_, by_columns_, by_vectors_;
  Index items_;
  int lanes_;
};

// -- variants ------------------------------------------------------------------------------------

template <class G, int n>
struct PoolVariant {
  using Geometry = G;
  static constexpr int lanes = n;
};

// Whether a window's size is compiled in where that helps: halving, and ResNet's first pooling.
enum class FixedWindows { no, yes };

// f(PoolVariant, first image, images) for the parts of the batch that one launch each takes.
template <class T, FixedWindows fixed, class F>
void each_pool_part(const PoolSizes& sizes, bool vectors, F f) {
  const int64_t at_once = sizes.images_at_once();
  if (at_once == 0) return f(PoolVariant<PoolGeometry<int64_t>, 1>{}, 0, sizes.images);
  const auto launch_parts = [&](auto variant) {
    for (int64_t first = 0; first < sizes.images; first += at_once) {
      f(variant, first, std::min(at_once, sizes.images - first));
    }
  };
  const auto choose_vectors = [&]<class G>(std::type_identity<G>) {
    if (vectors) return launch_parts(PoolVariant<G, 16 / int(sizeof(T))>{});
    launch_parts(PoolVariant<G, 1>{});
  };
  if constexpr (fixed == FixedWindows::yes) {
    const auto is = [&](int64_t kernel, int64_t stride) {
      return sizes.pool.kernel == Size2(kernel) && sizes.pool.stride == Size2(stride);
    };
    if (is(2, 2)) return choose_vectors(std::type_identity<PoolGeometry<int32_t, 2, 2>>{});
    if (is(3, 2)) return choose_vectors(std::type_identity<PoolGeometry<int32_t, 3, 2>>{});
  }
  choose_vectors(std::type_identity<PoolGeometry<int32_t>>{});
}

// Whether all channels of a pixel are whole vectors of T, in memory that allows them.
template <class T, class... Pointers>
bool pool_vectors(const PoolSizes& sizes, const Pointers*... pointers) {
  return sizes.channels % (16 / int64_t(sizeof(T))) == 0 && aligned_16(pointers...);
}

// Whether `count` elements are loaded at once from there.
template <int count, class T>
bool aligned_for(const T* pointer) {
  return reinterpret_cast<uintptr_t>(pointer) % (count * sizeof(T)) == 0;
}

// f gets a value of the positions' type.
template <class F>
void dispatch_position(const TensorView& position, F f) {
  if (position.defined() && position.dtype == DType::i32) {
    f(int32_t{});
  } else {
    f(uint8_t{});
  }
}

template <class T, int n>
__device__ Vector<T, n> load_vector(const T* from) {
  return *reinterpret_cast<const Vector<T, n>*>(from);
}
template <class T, int n>
__device__ void store_vector(T* to, const Vector<T, n>& vector) {
  *reinterpret_cast<Vector<T, n>*>(to) = vector;
}

}  // namespace adret::cuda
