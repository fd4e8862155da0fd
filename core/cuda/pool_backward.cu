// Gradient of max pooling: each element gathers from the windows that hold it, in their order, so
// that the sums are the same every time.
#include <adret/core/cuda/kernels.h>
#include <adret/core/cuda/pool.h>

namespace adret::cuda {
namespace {

// Adds the gradients of the channels whose winner is `tap`.
template <class T, class Position, int n>
__device__ void add_won(Accumulator<T> (&sum)[n], const Vector<T, n>& dy,
                        const Vector<Position, n>& position, int32_t tap) {
#pragma unroll
  for (int i = 0; i < n; ++i) {
    if (int32_t(position.at[i]) == tap) sum[i] += widen(dy.at[i]);
  }
}

template <class T, class Position, int n, class G>
__global__ void max_backward(const T* dy, const Position* position, T* dx, const G g) {
  begin_kernel();
  using Index = typename G::Index;
  for (int64_t item = first_item(); item < g.items(); item += all_threads()) {
    const typename G::Place in = g.place(Index(item));
    const Span<Index> rows = g.windows_of_row(in.row), columns = g.windows_of_column(in.column);
    const auto tap_in = [&](Index row, Index column) {
      return int32_t((in.row - g.top(row)) * g.kernel_w() + in.column - g.left(column));
    };
    Accumulator<T> sum[n] = {};
    if constexpr (G::fixed) {
      // All loads before the first comparison; a window that is not there has a tap that no winner
      // has.
      constexpr int most = G::most_windows;
      Vector<T, n> gradient[most * most] = {};
      Vector<Position, n> winner[most * most] = {};
      int32_t tap[most * most];
#pragma unroll
      for (int i = 0; i < most * most; ++i) {
        const Index row = rows.begin + i / most, column = columns.begin + i % most;
        tap[i] = -1;
        if (row < rows.end && column < columns.end) {
          const Index at = g.output(in.image, row, column, in.channel);
          gradient[i] = load_vector<T, n>(dy + at);
          winner[i] = load_vector<Position, n>(position + at);
          tap[i] = tap_in(row, column);
        }
      }
#pragma unroll
      for (int i = 0; i < most * most; ++i) add_won<T>(sum, gradient[i], winner[i], tap[i]);
    } else {
      for (Index row = rows.begin; row < rows.end; ++row) {
        for (Index column = columns.begin; column < columns.end; ++column) {
          const Index at = g.output(in.image, row, column, in.channel);
          add_won<T>(sum, load_vector<T, n>(dy + at), load_vector<Position, n>(position + at),
                     tap_in(row, column));
        }
      }
    }
    Vector<T, n> result;
    for (int i = 0; i < n; ++i) result.at[i] = narrow<T>(sum[i]);
    store_vector(dx + item * n, result);
  }
}

// Where no element is in two windows: a thread for each tile reads its window's gradient once.
template <class T, class Position, int n, class G>
__global__ void max_backward_tiles(const T* dy, const Position* position, T* dx, const G g) {
  begin_kernel();
  using Index = typename G::Index;
  for (int64_t item = first_item(); item < g.items(); item += all_threads()) {
    const typename G::Place tile = g.place(Index(item));
    const bool has_window = tile.row < g.out_h && tile.column < g.out_w;
    Vector<T, n> gradient = {};
    Vector<Position, n> winner = {};
    if (has_window) {
      const Index at = g.output(tile.image, tile.row, tile.column, tile.channel);
      gradient = load_vector<T, n>(dy + at);
      winner = load_vector<Position, n>(position + at);
    }
    const Index top = g.top(tile.row), left = g.left(tile.column);
#pragma unroll(G::fixed ? G::fixed_window : 1)
    for (Index i = 0; i < g.stride_h(); ++i) {
      const Index row = top + i;
      if (row < 0 || row >= g.h) continue;
#pragma unroll(G::fixed ? G::fixed_window : 1)
      for (Index j = 0; j < g.stride_w(); ++j) {
        const Index column = left + j;
        if (column < 0 || column >= g.w) continue;
        const bool in_window = has_window && i < g.kernel_h() && j < g.kernel_w();
        const int32_t tap = in_window ? int32_t(i * g.kernel_w() + j) : -1;
        Vector<T, n> result;
        for (int c = 0; c < n; ++c) {
          result.at[c] = int32_t(winner.at[c]) == tap ? gradient.at[c] : narrow<T>(0);
        }
        store_vector(dx + g.input(tile.image, row, column, tile.channel), result);
      }
    }
  }
}

template <class T, class Position>
void run_backward(Context& context, const kernels::MaxPool2dBackward& call) {
  const PoolSizes sizes(call.dx.shape, call.dy.shape, call.pool);
  if (sizes.empty()) return;
  const T* dy = call.dy.as<T>();
  const Position* position = call.position.as<Position>();
  T* dx = call.dx.as<T>();
  const bool vectors = pool_vectors<T>(sizes, dy, dx) && aligned_for<16 / int(sizeof(T))>(position);
  // Larger tiles are work for more than one thread each.
  const bool tiles = sizes.disjoint() && sizes.pool.stride.area() <= 16;
  constexpr FixedWindows fixed = sizeof(Position) == 1 ? FixedWindows::yes : FixedWindows::no;
  each_pool_part<T, fixed>(sizes, vectors, [&](auto variant, int64_t first, int64_t images) {
    using G = typename decltype(variant)::Geometry;
    constexpr int n = decltype(variant)::lanes;
    const auto launch_over = [&](PoolItems items, auto kernel) {
      const G g(sizes, images, items, n);
      launch(context, kernel, grid_for(context, g.items()), dy + first * sizes.y_image(),
             position + first * sizes.y_image(), dx + first * sizes.x_image(), g);
    };
    if constexpr (!G::fixed || G::most_windows == 1) {
      if (tiles) return launch_over(PoolItems::tiles, max_backward_tiles<T, Position, n, G>);
    }
    if constexpr (!G::fixed || G::most_windows > 1) {
      launch_over(PoolItems::inputs, max_backward<T, Position, n, G>);
    }
  });
}

}  // namespace

void run(Context& context, const kernels::MaxPool2dBackward& call) {
  dispatch_float(call.dy.dtype, call.name, [&](auto zero) {
    dispatch_position(call.position, [&](auto position) {
      run_backward<decltype(zero), decltype(position)>(context, call);
    });
  });
}

}  // namespace adret::cuda
