// What is done to all gradients together: their norm, clipping, and loss scaling.
#include <adret/core/cuda/kernels.h>
#include <adret/core/cuda/optimizer_table.h>
#include <adret/core/cuda/team.h>
#include <adret/core/cuda/workspace.h>

namespace adret::cuda {

using namespace arena;

namespace {

__device__ unsigned blocks_done;  // one launch at a time uses it: all are on one stream

// -- norm and clipping ----------------------------------------------------------------------------

struct Unscale {
  double factor;
};

// Each block leaves a sum of squares; the last one adds them up, always in the same order.
__global__ void __launch_bounds__(threads)
    gradient_norm(Table table, const std::byte* grads, double* partials, double* norm) {
  begin_kernel();
  double sum = 0;
  for_pieces<Unscale>(
      table, [=](const Segment& segment, int) -> Unscale { return {segment.unscale}; },
      [&](const Row<Unscale>& row, int64_t place) {
        dispatch_piece(row, place, [&]<class T>(const Piece<T>& piece) {
          Group<T, Piece<T>::n> group = piece.load_value(grads);  // 0 beyond the end
          double squares = 0;
#pragma unroll
          for (int i = 0; i < Piece<T>::n; ++i) {
            const double g = double(widen(group[i]));
            squares = fma(g, g, squares);
          }
          sum = fma(squares, row.rates.factor * row.rates.factor, sum);
        });
      });
  sum = Block().reduce(Total<double>{sum}).value;
  if (threadIdx.x == 0) partials[blockIdx.x] = sum;
  if (!is_last_block(&blocks_done, gridDim.x)) return;
  sum = 0;
  for (unsigned block = threadIdx.x; block < gridDim.x; block += threads) {
    sum += __ldcg(partials + block);
  }
  sum = Block().reduce(Total<double>{sum}).value;
  if (threadIdx.x == 0) *norm = sqrt(sum);
}

// grads = f(grad, rates in its accumulator's type) over all active segments.
template <template <class> class Rates, class Prepare, class F>
__device__ void map_grads(const Table& table, std::byte* grads, Prepare prepare, F f) {
  for_pieces<InBoth<Rates>>(table, prepare, [=](const Row<InBoth<Rates>>& row, int64_t place) {
    dispatch_piece(row, place, [&]<class T>(const Piece<T>& piece) {
      const auto& rates = row.rates.in(Accumulator<T>());
      Group<T, Piece<T>::n> group = piece.load_value(grads);
#pragma unroll
      for (int i = 0; i < Piece<T>::n; ++i) group[i] = narrow<T>(f(widen(group[i]), rates));
      piece.store_value(grads, group);
    });
  });
}

template <class A>
struct Factor {
  A factor;
};

__global__ void __launch_bounds__(threads)
    clip_by_norm(Table table, std::byte* grads, const double* total, double max_norm) {
  begin_kernel();
  const double norm = *total;
  if (!isfinite(norm) || norm <= max_norm) return;
  const double scale = max_norm / norm;
  map_grads<Factor>(
      table, grads,
      [=](const Segment&, int) -> InBoth<Factor> {
        return {{float(scale)}, {scale}};
      },
      [=]<class A>(A grad, const Factor<A>& rates) { return grad * rates.factor; });
}

template <class A>
struct Limit {
  A bound;  // of what the arena holds
};

__global__ void __launch_bounds__(threads)
    clip_by_value(Table table, std::byte* grads, double limit) {
  begin_kernel();
  map_grads<Limit>(
      table, grads,
      [=](const Segment& segment, int) -> InBoth<Limit> {
        return {{float(limit) / float(segment.unscale)}, {limit / segment.unscale}};
      },
      [=]<class A>(A grad, const Limit<A>& rates) {
        // Keeps NaN.
        return grad > rates.bound ? rates.bound : (grad < -rates.bound ? -rates.bound : grad);
      });
}

// -- loss scaling ---------------------------------------------------------------------------------

__device__ unsigned not_finite;  // whether a block of this launch met such a gradient; 0 between

struct LossScale {
  float* scale;
  int64_t* counts;
  float lowest, largest;
  int64_t growth_interval;

  __device__ void update(bool finite) const {
    if (!finite) {
      *scale = max(*scale / 2, lowest);
      counts[0] = 0;
      counts[1] += 1;
    } else if (++counts[0] >= growth_interval) {
      *scale = min(*scale * 2, largest);
      counts[0] = 0;
    }
  }
};

// The last block to finish decides for all segments.
__global__ void __launch_bounds__(threads)
    update_loss_scale(Table table, Segment* segments, const std::byte* grads, LossScale loss) {
  begin_kernel();
  bool bad = false;
  for_pieces<NoRates, Takes::with_gradient>(
      table, MakeNoRates(), [&](const Row<NoRates>& row, int64_t place) {
        dispatch_piece(row, place, [&]<class T>(const Piece<T>& piece) {
          Group<T, Piece<T>::n> group = piece.load_value(grads);  // 0 beyond the end
#pragma unroll
          for (int i = 0; i < Piece<T>::n; ++i) bad |= !isfinite(widen(group[i]));
        });
      });
  if (__syncthreads_or(bad) && threadIdx.x == 0) atomicExch(&not_finite, 1u);
  if (!is_last_block(&blocks_done, gridDim.x)) return;
  const bool finite = __ldcg(&not_finite) == 0;
  const double unscale = 1 / double(*loss.scale);
  __syncthreads();  // every thread has read both
  for (int s = int(threadIdx.x); s < table.count; s += threads) {
    segments[s].active = finite && segments[s].has_gradient;
    segments[s].unscale = unscale;
  }
  if (threadIdx.x > 0) return;
  not_finite = 0;
  loss.update(finite);
}

}  // namespace

void run(Context& context, const kernels::GradientNorm& call) {
  const Table table = table_of(context, call.grads, call.segments);
  const Grid grid = grid_of(table);
  const Workspace partials(context, grid.blocks.x * sizeof(double));
  launch(context, gradient_norm, grid, table, start(call.grads), partials.as<double>(),
         call.norm.as<double>());
}

void run(Context& context, const kernels::ClipByNorm& call) {
  const Table table = table_of(context, call.grads, call.segments);
  launch(context, clip_by_norm, grid_of(table), table, start(call.grads), call.norm.as<double>(),
         call.max_norm);
}

void run(Context& context, const kernels::ClipByValue& call) {
  const Table table = table_of(context, call.grads, call.segments);
  launch(context, clip_by_value, grid_of(table), table, start(call.grads), call.limit);
}

void run(Context& context, const kernels::UpdateLossScale& call) {
  const Table table = table_of(context, call.grads, call.segments);
  launch(context, update_loss_scale, grid_of(table), table, call.segments.as<Segment>(),
         start(call.grads),
         LossScale{.scale = call.scale.as<float>(),
                   .counts = call.counts.as<int64_t>(),
                   .lowest = float(call.lowest),
                   .largest = float(call.largest),
                   .growth_interval = call.growth_interval});
}

}  // namespace adret::cuda
