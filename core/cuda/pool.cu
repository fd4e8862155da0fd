// Max pooling: the winners of windows, and their elements of another tensor.
#include <adret/core/cuda/implementation.h>
#include <adret/core/cuda/kernels.h>
#include <adret/core/cuda/pool.h>
#include <adret/core/cuda/pool_best.h>
#include <adret/core/cuda/pool_large.h>

namespace adret::cuda {
namespace {

template <class T, class Position, int n, class G>
__global__ void max_forward(const T* x, T* y, Position* position, const G g, bool relu) {
  begin_kernel();
  using Index = typename G::Index;
  for (int64_t item = first_item(); item < g.items(); item += all_threads()) {
    const typename G::Place out = g.place(Index(item));
    const Index top = g.top(out.row), left = g.left(out.column);
    const Span<Index> rows = g.rows(top), columns = g.columns(left);
    Best<T, n> best(int32_t((rows.begin - top) * g.kernel_w() + columns.begin - left));
    if constexpr (G::fixed) {
      // All loads before the first comparison. Taps in the padding take the nearest element of the
      // window instead, which changes nothing.
      constexpr int size = G::fixed_window;
      Vector<T, n> elements[size * size];
#pragma unroll
      for (int i = 0; i < size * size; ++i) {
        const Index row = min(max(top + i / size, Index(0)), g.h - 1);
        const Index column = min(max(left + i % size, Index(0)), g.w - 1);
        elements[i] = load_vector<T, n>(x + g.input(out.image, row, column, out.channel));
      }
#pragma unroll
      for (int i = 0; i < size * size; ++i) {
        const Index row = min(max(top + i / size, Index(0)), g.h - 1);
        const Index column = min(max(left + i % size, Index(0)), g.w - 1);
        best.take(elements[i], int32_t((row - top) * size + column - left));
      }
    } else {
      for (Index row = rows.begin; row < rows.end; ++row) {
        const T* from = x + g.input(out.image, row, columns.begin, out.channel);
        int32_t tap = int32_t((row - top) * g.kernel_w() + columns.begin - left);
#pragma unroll 4
        for (Index column = columns.begin; column < columns.end; ++column, ++tap) {
          best.take(load_vector<T, n>(from), tap);
          from += g.channels;
        }
      }
    }
    if (relu) best.rectify(int32_t(g.kernel_h() * g.kernel_w()));
    store_vector(y + item * n, best.values());
    if (position) store_vector(position + item * n, best.template taps<Position>());
  }
}

template <class T, class Position, class G>
__global__ void max_forward_large(const T* x, T* y, Position* position, const G g, bool relu) {
  begin_kernel();
  const int32_t channel = blockIdx.y * blockDim.x + threadIdx.x;
  const int32_t pixel = blockIdx.x, row = pixel / g.out_w;
  const int32_t image = row / g.out_h, out_row = row % g.out_h, out_column = pixel % g.out_w;
  auto best = reduce_window<MergedBest<Accumulator<T>>>(x, g, image, out_row, out_column, channel);
  if (threadIdx.y != 0 || channel >= g.channels) return;
  if (relu && best.value <= 0) best = {0, int32_t(g.kernel_h() * g.kernel_w())};
  const int32_t at = pixel * g.channels + channel;
  y[at] = narrow<T>(best.value);
  if (position) position[at] = Position(best.tap);
}

// Scalars: neighbouring channels have winners in different pixels.
template <class T, class Position, class G>
__global__ void max_gather(const T* x, const Position* position, T* y, const G g) {
  begin_kernel();
  using Index = typename G::Index;
  for (int64_t item = first_item(); item < g.items(); item += all_threads()) {
    const typename G::Place out = g.place(Index(item));
    const Index tap = position[item];
    y[item] = x[g.input(out.image, g.top(out.row) + tap / g.kernel_w(),
                        g.left(out.column) + tap % g.kernel_w(), out.channel)];
  }
}

template <class T, class Position>
void run_forward(Context& context, const kernels::MaxPool2dForward& call) {
  const PoolSizes sizes(call.x.shape, call.y.shape, call.pool);
  if (sizes.empty()) return;
  const T* x = call.x.as<T>();
  T* y = call.y.as<T>();
  Position* position = call.position.as<Position>();
  const bool relu = call.activation == kernels::Activation::relu;
  if (few_large_windows(context, sizes)) {
    const PoolGeometry<int32_t> g(sizes, sizes.images, PoolItems::outputs, 1);
    launch(context, max_forward_large<T, Position, PoolGeometry<int32_t>>, large_window_grid(sizes),
           x, y, position, g, relu);
    return;
  }
  constexpr int lanes = 16 / int(sizeof(T));
  const bool vectors = pool_vectors<T>(sizes, x, y) && aligned_for<lanes>(position) &&
                       sizes.pool.kernel.area() < (1 << 16);
  constexpr FixedWindows fixed = sizeof(Position) == 1 ? FixedWindows::yes : FixedWindows::no;
  each_pool_part<T, fixed>(sizes, vectors, [&](auto variant, int64_t first, int64_t images) {
    using G = typename decltype(variant)::Geometry;
    constexpr int n = decltype(variant)::lanes;
    const G g(sizes, images, PoolItems::outputs, n);
    const int64_t out = first * sizes.y_image();
    launch(context, max_forward<T, Position, n, G>, grid_for(context, g.items()),
           x + first * sizes.x_image(), y + out, position ? position + out : nullptr, g, relu);
  });
}

template <class T, class Position>
void run_gather(Context& context, const kernels::MaxPool2dGather& call) {
  const PoolSizes sizes(call.x.shape, call.y.shape, call.pool);
  if (sizes.empty()) return;
  each_pool_part<T, FixedWindows::no>(
      sizes, false, [&](auto variant, int64_t first, int64_t images) {
        using G = typename decltype(variant)::Geometry;
        if constexpr (decltype(variant)::lanes == 1) {
          const G g(sizes, images, PoolItems::outputs, 1);
          const int64_t out = first * sizes.y_image();
          launch(context, max_gather<T, Position, G>, grid_for(context, g.items()),
                 call.x.as<T>() + first * sizes.x_image(), call.position.as<Position>() + out,
                 call.y.as<T>() + out, g);
        }
      });
}

}  // namespace

void run(Context& context, const kernels::MaxPool2dForward& call) {
  if (runs_on_cudnn(call)) return run_cudnn(context, call);
  dispatch_float(call.x.dtype, call.name, [&](auto zero) {
    dispatch_position(call.position, [&](auto position) {
      run_forward<decltype(zero), decltype(position)>(context, call);
    });
  });
}

// Elements are only moved: their size is enough.
void run(Context& context, const kernels::MaxPool2dGather& call) {
  dispatch_size(call.x.dtype, [&](auto zero) {
    dispatch_position(call.position, [&](auto position) {
      run_gather<decltype(zero), decltype(position)>(context, call);
    });
  });
}

}  // namespace adret::cuda
