// Average pooling and its gradient, both gathering.
#include <adret/core/cuda/implementation.h>
#include <adret/core/cuda/kernels.h>
#include <adret/core/cuda/pool.h>
#include <adret/core/cuda/pool_large.h>

namespace adret::cuda {
namespace {

// One over a window's elements: those inside the padded image, or those inside the image.
template <class A, class G>
__device__ A window_scale(const G& g, typename G::Index top, typename G::Index left,
                          bool count_padding) {
  using Index = typename G::Index;
  if (count_padding) {
    const Index rows = min(g.kernel_h(), g.h + g.padding_h - top);
    const Index columns = min(g.kernel_w(), g.w + g.padding_w - left);
    return A(1) / (A(rows) * A(columns));
  }
  const Span<Index> rows = g.rows(top), columns = g.columns(left);
  return A(1) / (A(rows.end - rows.begin) * A(columns.end - columns.begin));
}

template <class T, int n>
__device__ void add(Accumulator<T> (&sum)[n], const Vector<T, n>& elements, Accumulator<T> scale) {
#pragma unroll
  for (int i = 0; i < n; ++i) sum[i] += widen(elements.at[i]) * scale;
}

template <class T, int n, class G>
__global__ void average_forward(const T* x, T* y, const G g, bool count_padding) {
  begin_kernel();
  using Index = typename G::Index;
  using A = Accumulator<T>;
  for (int64_t item = first_item(); item < g.items(); item += all_threads()) {
    const typename G::Place out = g.place(Index(item));
    const Index top = g.top(out.row), left = g.left(out.column);
    const Span<Index> rows = g.rows(top), columns = g.columns(left);
    A sum[n] = {};
    for (Index row = rows.begin; row < rows.end; ++row) {
      const T* from = x + g.input(out.image, row, columns.begin, out.channel);
#pragma unroll 4
      for (Index column = columns.begin; column < columns.end; ++column) {
        add<T, n>(sum, load_vector<T, n>(from), A(1));
        from += g.channels;
      }
    }
    const A scale = window_scale<A>(g, top, left, count_padding);
    Vector<T, n> mean;
    for (int i = 0; i < n; ++i) mean.at[i] = narrow<T>(sum[i] * scale);
    store_vector(y + item * n, mean);
  }
}

template <class A>
struct MergedSum {
  A value;

  __device__ static MergedSum none() { return {A(0)}; }
  __device__ void take(A other, int32_t) { value += other; }
  __device__ void merge(const MergedSum& other) { value += other.value; }
};

template <class T, class G>
__global__ void average_forward_large(const T* x, T* y, const G g, bool count_padding) {
  begin_kernel();
  using A = Accumulator<T>;
  const int32_t channel = blockIdx.y * blockDim.x + threadIdx.x;
  const int32_t pixel = blockIdx.x, row = pixel / g.out_w;
  const int32_t image = row / g.out_h, out_row = row % g.out_h, out_column = pixel % g.out_w;
  const A sum = reduce_window<MergedSum<A>>(x, g, image, out_row, out_column, channel).value;
  if (threadIdx.y != 0 || channel >= g.channels) return;
  const A scale = window_scale<A>(g, g.top(out_row), g.left(out_column), count_padding);
  y[pixel * g.channels + channel] = narrow<T>(sum * scale);
}

template <class T, int n, class G>
__global__ void average_backward(const T* dy, T* dx, const G g, bool count_padding) {
  begin_kernel();
  using Index = typename G::Index;
  using A = Accumulator<T>;
  for (int64_t item = first_item(); item < g.items(); item += all_threads()) {
    const typename G::Place in = g.place(Index(item));
    const Span<Index> rows = g.windows_of_row(in.row), columns = g.windows_of_column(in.column);
    A sum[n] = {};
    for (Index row = rows.begin; row < rows.end; ++row) {
      for (Index column = columns.begin; column < columns.end; ++column) {
        const A scale = window_scale<A>(g, g.top(row), g.left(column), count_padding);
        add<T, n>(sum, load_vector<T, n>(dy + g.output(in.image, row, column, in.channel)), scale);
      }
    }
    Vector<T, n> result;
    for (int i = 0; i < n; ++i) result.at[i] = narrow<T>(sum[i]);
    store_vector(dx + item * n, result);
  }
}

}  // namespace

void run(Context& context, const kernels::AvgPool2dForward& call) {
  if (runs_on_cudnn(call)) return run_cudnn(context, call);
  const PoolSizes sizes(call.x.shape, call.y.shape, call.pool);
  const bool count_padding = call.pool.count_include_pad;
  if (sizes.empty()) return;
  dispatch_float(call.x.dtype, call.name, [&](auto zero) {
    using T = decltype(zero);
    const T* x = call.x.as<T>();
    T* y = call.y.as<T>();
    if (few_large_windows(context, sizes)) {
      const PoolGeometry<int32_t> g(sizes, sizes.images, PoolItems::outputs, 1);
      launch(context, average_forward_large<T, PoolGeometry<int32_t>>, large_window_grid(sizes), x,
             y, g, count_padding);
      return;
    }
    each_pool_part<T, FixedWindows::no>(
        sizes, pool_vectors<T>(sizes, x, y), [&](auto variant, int64_t first, int64_t images) {
          using G = typename decltype(variant)::Geometry;
          constexpr int n = decltype(variant)::lanes;
          const G g(sizes, images, PoolItems::outputs, n);
          launch(context, average_forward<T, n, G>, grid_for(context, g.items()),
                 x + first * sizes.x_image(), y + first * sizes.y_image(), g, count_padding);
        });
  });
}

void run(Context& context, const kernels::AvgPool2dBackward& call) {
  if (runs_on_cudnn(call)) return run_cudnn(context, call);
  const PoolSizes sizes(call.dx.shape, call.dy.shape, call.pool);
  if (sizes.empty()) return;
  dispatch_float(call.dy.dtype, call.name, [&](auto zero) {
    using T = decltype(zero);
    const T* dy = call.dy.as<T>();
    T* dx = call.dx.as<T>();
    each_pool_part<T, FixedWindows::no>(
        sizes, pool_vectors<T>(sizes, dy, dx), [&](auto variant, int64_t first, int64_t images) {
          using G = typename decltype(variant)::Geometry;
          constexpr int n = decltype(variant)::lanes;
          const G g(sizes, images, PoolItems::inputs, n);
          launch(context, average_backward<T, n, G>, grid_for(context, g.items()),
                 dy + first * sizes.y_image(), dx + first * sizes.x_image(), g,
                 call.pool.count_include_pad);
        });
  });
}

}  // namespace adret::cuda
