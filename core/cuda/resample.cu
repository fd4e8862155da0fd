// Images in other sizes: a thread sums for a vector of channels of one pixel, in a fixed order.
#include <adret/core/cuda/fast_divisor.h>
#include <adret/core/cuda/kernels.h>
#include <adret/core/cuda/launch.h>
#include <adret/core/kernels/resample_plan.h>

#include <type_traits>

namespace adret::cuda {
namespace {

using namespace kernels;

// Rows of pixels of x and y, in vectors of T.
template <class T, int n, class D>
struct Resampled {
  using Divisor = D;
  using Index = typename Divisor::Index;
  using Line = ResampleLine<Accumulator<T>, Divisor>;

  ResampleParams params;
  Line rows, columns;
  Index h, w, out_h, out_w, channels;
  Divisor by_channels;  // vectors of a pixel

  Resampled(const ResampleParams& params, const Shape& x, const Shape& y)
      : params(params),
        rows(params, x[1], y[1]),
        columns(params, x[2], y[2]),
        h(Index(x[1])),
        w(Index(x[2])),
        out_h(Index(y[1])),
        out_w(Index(y[2])),
        channels(Index(x[3])),
        by_channels(Index(x[3] / n)) {}
};

// f(image, row, column, channel) for the vectors that are this thread's, of images of `height` rows
// with `width` columns. Blocks lie along the rows, blockDim.y of which each works on.
template <int n, class G, class F>
__device__ void each_pixel(const G& g, int64_t all_rows, typename G::Index height,
                           typename G::Index width, F f) {
  using Index = typename G::Index;
  const Index vectors = width * g.by_channels.divisor();
  for (int64_t line = int64_t(blockIdx.x) * blockDim.y + threadIdx.y; line < all_rows;
       line += int64_t(gridDim.x) * blockDim.y) {
    const int64_t image = line / int64_t(height);
    const Index row = Index(line - image * int64_t(height));
    for (Index v = blockIdx.y * blockDim.x + threadIdx.x; v < vectors;
         v += gridDim.y * blockDim.x) {
      const Index column = g.by_channels.quotient(v);
      f(image, row, column, (v - column * g.by_channels.divisor()) * n);
    }
  }
}

template <class T, int n>
__device__ Vector<T, n> load_vector(const T* from) {
  return *reinterpret_cast<const Vector<T, n>*>(from);
}

template <class T, int n>
struct PixelSum {
  Accumulator<T> at[n] = {};

  __device__ void add(const Vector<T, n>& pixel, Accumulator<T> weight) {
#pragma unroll
    for (int i = 0; i < n; ++i) at[i] += widen(pixel.at[i]) * weight;
  }
  __device__ void store(T* to, Accumulator<T> scale) const {
    Vector<T, n> result;
#pragma unroll
    for (int i = 0; i < n; ++i) result.at[i] = narrow<T>(at[i] * scale);
    *reinterpret_cast<Vector<T, n>*>(to) = result;
  }
};

// Four pixels, loaded together; what has no weight is loaded twice and not added.
template <class T, int n, class G>
__device__ void sum_four(PixelSum<T, n>& sum, const T* from, const G& g, typename G::Index i,
                         typename G::Index j, typename G::Line::Run rows,
                         typename G::Line::Run columns) {
  using A = Accumulator<T>;
  const bool two_rows = rows.count() > 1, two_columns = columns.count() > 1;
  const int64_t below = two_rows ? int64_t(g.w) * g.channels : 0;
  const int64_t beside = two_columns ? g.channels : 0;
  const auto first = load_vector<T, n>(from), second = load_vector<T, n>(from + beside),
             third = load_vector<T, n>(from + below),
             fourth = load_vector<T, n>(from + below + beside);
  const A row = g.rows.weight(i, rows.begin), column = g.columns.weight(j, columns.begin);
  sum.add(first, row * column);
  if (two_columns) sum.add(second, row * (1 - column));
  if (two_rows) {
    sum.add(third, (1 - row) * column);
    if (two_columns) sum.add(fourth, (1 - row) * (1 - column));
  }
}

template <class T, int n, class G>
__global__ void resample_forward(const T* x, T* y, const __grid_constant__ G g, int64_t all_rows) {
  begin_kernel();
  using Index = typename G::Index;
  using A = Accumulator<T>;
  each_pixel<n>(g, all_rows, g.out_h, g.out_w, [&](int64_t image, Index i, Index j, Index channel) {
    const typename G::Line::Run rows = g.rows.sources(i), columns = g.columns.sources(j);
    const int64_t row_size = int64_t(g.w) * g.channels;
    const T* from =
        x + (image * g.h + rows.begin) * row_size + columns.begin * g.channels + channel;
    T* const to = y + ((image * g.out_h + i) * g.out_w + j) * g.channels + channel;
    if (g.params.mode == Resampling::nearest) {
      *reinterpret_cast<Vector<T, n>*>(to) = load_vector<T, n>(from);
      return;
    }
    PixelSum<T, n> sum;
    if (g.params.mode == Resampling::bilinear) {
      sum_four(sum, from, g, i, j, rows, columns);
      return sum.store(to, A(1));
    }
    for (Index row = rows.begin; row < rows.end; ++row, from += row_size) {
      const T* pixel = from;
#pragma unroll 4
      for (Index column = columns.begin; column < columns.end; ++column, pixel += g.channels) {
        sum.add(load_vector<T, n>(pixel), A(1));
      }
    }
    sum.store(to, g.rows.weight(i, rows.begin) * g.columns.weight(j, columns.begin));
  });
}

template <class T, int n, class G>
__global__ void resample_backward(const T* dy, T* dx, const __grid_constant__ G g,
                                  int64_t all_rows) {
  begin_kernel();
  using Index = typename G::Index;
  using A = Accumulator<T>;
  each_pixel<n>(g, all_rows, g.h, g.w, [&](int64_t image, Index i, Index j, Index channel) {
    const typename G::Line::Run rows = g.rows.targets(i), columns = g.columns.targets(j);
    const int64_t row_size = int64_t(g.out_w) * g.channels;
    const T* from =
        dy + (image * g.out_h + rows.begin) * row_size + columns.begin * g.channels + channel;
    PixelSum<T, n> sum;
    for (Index row = rows.begin; row < rows.end; ++row, from += row_size) {
      const A weight = g.rows.weight(row, i);
      const T* pixel = from;
#pragma unroll 4
      for (Index column = columns.begin; column < columns.end; ++column, pixel += g.channels) {
        sum.add(load_vector<T, n>(pixel), weight * g.columns.weight(column, j));
      }
    }
    sum.store(dx + ((image * g.h + i) * g.w + j) * g.channels + channel, A(1));
  });
}

// As many threads along a row as it has vectors, to a power of two, and rows beside each other; a
// row is shared by blocks where there are few rows.
Grid grid_of_rows(const Context& context, int64_t rows, int64_t vectors) {
  constexpr unsigned threads = 256;
  unsigned width = 32;
  while (width < threads && width < vectors) width *= 2;
  const int64_t most = int64_t(context.multiprocessors()) * 64;
  const int64_t blocks = std::min(divide_up(rows, threads / width), most);
  const int64_t parts =
      std::clamp<int64_t>(most / blocks, 1, std::min<int64_t>(divide_up(vectors, width), 65535));
  return {.blocks = dim3(unsigned(blocks), unsigned(parts)),
          .threads = dim3(width, threads / width)};
}

// f(Resampled) in the variant for these images.
template <class T, class F>
void with_variant(const ResampleParams& params, const TensorView& x, const TensorView& y, F f) {
  const auto row = [](const TensorView& view) { return view.shape[2] * view.shape[3]; };
  const bool narrow = ResampleLine<float, FastDivisor>::fits_31_bits(x.shape[1], y.shape[1]) &&
                      ResampleLine<float, FastDivisor>::fits_31_bits(x.shape[2], y.shape[2]) &&
                      std::max(row(x), row(y)) <= INT32_MAX / 2;
  constexpr int n = 16 / int(sizeof(T));
  if (!narrow) {
    f(std::integral_constant<int, 1>{}, Resampled<T, 1, WideDivisor>(params, x.shape, y.shape));
  } else if (x.shape[3] % n == 0 && aligned_16(x.as<T>(), y.as<T>())) {
    f(std::integral_constant<int, n>{}, Resampled<T, n, FastDivisor>(params, x.shape, y.shape));
  } else {
    f(std::integral_constant<int, 1>{}, Resampled<T, 1, FastDivisor>(params, x.shape, y.shape));
  }
}

// From x to y, or from dy to dx.
template <bool forward>
void resample(const Context& context, const ResampleParams& params, const TensorView& x,
              const TensorView& y) {
  const TensorView &from = forward ? x : y, &to = forward ? y : x;
  if (to.numel() == 0) return;
  dispatch_float(to.dtype, "resample", [&](auto zero) {
    using T = decltype(zero);
    with_variant<T>(params, x, y, [&](auto lanes, const auto& g) {
      constexpr int n = decltype(lanes)::value;
      using G = std::decay_t<decltype(g)>;
      const int64_t rows = to.shape[0] * to.shape[1];
      launch(context, forward ? resample_forward<T, n, G> : resample_backward<T, n, G>,
             grid_of_rows(context, rows, to.shape[2] * to.shape[3] / n), from.as<const T>(),
             to.as<T>(), g, rows);
    });
  });
}

}  // namespace

void run(Context& context, const kernels::ResampleForward& call) {
  resample<true>(context, call.resample, call.x, call.y);
}

void run(Context& context, const kernels::ResampleBackward& call) {
  resample<false>(context, call.resample, call.dx, call.dy);
}

}  // namespace adret::cuda
