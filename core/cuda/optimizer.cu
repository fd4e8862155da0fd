// Optimizer steps and gradient clipping: one launch over the arenas, whatever the segments.
#include <adret/core/cuda/group.h>
#include <adret/core/cuda/kernels.h>
#include <adret/core/cuda/launch.h>
#include <adret/core/cuda/team.h>
#include <adret/core/cuda/workspace.h>

#include <algorithm>
#include <limits>

namespace adret::cuda {

using kernels::AdamGroup;
using kernels::Segment;
using kernels::SgdGroup;

namespace {

// Note [Stretches]
// The arenas are cut into stretches of equally many bytes of values, a block each, so that the work
// is balanced for any lengths of segments. A block searches the table for its first segment, reads
// the rows of the next few at once, and then every thread takes 16 bytes of values at a time, which
// are of one segment because offsets are multiples of 16.

__device__ unsigned blocks_done;  // one launch at a time uses it: all are on one stream

constexpr int threads = 256;
constexpr int vector_bytes = 16;
constexpr int batch = 32;  // rows read at once

struct Table {
  const Segment* segments;
  int count;
  int64_t bytes;    // of the value arena
  int64_t stretch;  // bytes of a block, a multiple of 16
};

// A row of the table in shared memory.
template <class Rates>
struct Row {
  int64_t begin, end, next;  // bytes in the arena; `next` is where the segment behind begins
  int64_t state_offset;
  DType dtype;
  Rates rates;
};

// The last segment that begins at or before `byte`, found by all threads together.
__device__ int find_segment(const Table& table, int64_t byte) {
  int low = 0, high = table.count;
  while (high - low > 1) {
    const int step = (high - low + threads - 1) / threads;
    const int64_t at = low + int64_t(threadIdx.x) * step;
    const bool before = at < high && table.segments[at].value_offset <= byte;
    low += max(__syncthreads_count(before) - 1, 0) * step;
    high = min(high, low + step);
  }
  return low;
}

// visit(row, place) for the 16-byte pieces of active segments in this block's stretch, `place`
// being the piece's byte in its segment; prepare(segment, index) makes a row's rates.
template <class Rates, class Prepare, class Visit>
__device__ void for_pieces(const Table& table, Prepare prepare, Visit visit) {
  __shared__ Row<Rates> rows[batch];
  const int64_t begin = int64_t(blockIdx.x) * table.stretch;
  const int64_t end = min(begin + table.stretch, table.bytes);
  for (int first = find_segment(table, begin); first < table.count; first += batch) {
    if (table.segments[first].value_offset >= end) break;
    const int count = min(batch, table.count - first);
    if (threadIdx.x < count) {
      const int index = first + int(threadIdx.x);
      const Segment segment = table.segments[index];
      const int64_t bytes = segment.active ? segment.length * size_of(DType(segment.dtype)) : 0;
      rows[threadIdx.x] = {.begin = segment.value_offset,
                           .end = segment.value_offset + bytes,
                           .next = index + 1 < table.count ? table.segments[index + 1].value_offset
                                                           : std::numeric_limits<int64_t>::max(),
                           .state_offset = segment.state_offset,
                           .dtype = DType(segment.dtype),
                           .rates = prepare(segment, index)};
    }
    __syncthreads();
    const int64_t from = max(begin, rows[0].begin), to = min(end, rows[count - 1].next);
    int row = 0;
    for (int64_t at = from + threadIdx.x * vector_bytes; at < to; at += threads * vector_bytes) {
      while (rows[row].next <= at) ++row;
      if (at < rows[row].end) visit(rows[row], at - rows[row].begin);
    }
    __syncthreads();  // before the rows are overwritten
  }
}

// A piece of a segment, and where it lies in the arenas.
template <class T>
struct Piece {
  static constexpr int n = vector_bytes / int(sizeof(T));

  template <class Rates>
  __device__ Piece(const Row<Rates>& row, int64_t place)
      : count((row.end - row.begin - place) / int64_t(sizeof(T))),
        whole(count >= n),
        value_offset(row.begin + place),
        state_offset(row.state_offset + place / int64_t(sizeof(T)) * int64_t(sizeof(A))) {}

  using A = Accumulator<T>;
  __device__ Group<T, n> load_value(const std::byte* arena) const {
    Group<T, n> group;
    group.load(reinterpret_cast<const T*>(arena + value_offset), count, whole);
    return group;
  }
  __device__ void store_value(std::byte* arena, Group<T, n>& group) const {
    group.store(reinterpret_cast<T*>(arena + value_offset), count, whole);
  }
  __device__ Group<A, n> load_state(const std::byte* arena) const {
    Group<A, n> group;
    group.load(reinterpret_cast<const A*>(arena + state_offset), count, whole);
    return group;
  }
  __device__ void store_state(std::byte* arena, Group<A, n>& group) const {
    group.store(reinterpret_cast<A*>(arena + state_offset), count, whole);
  }

  int64_t count;  // elements to the end of the segment
  bool whole;
  int64_t value_offset, state_offset;  // bytes in the arenas
};

// f(piece) with the piece in its dtype.
template <class Rates, class F>
__device__ void dispatch_piece(const Row<Rates>& row, int64_t place, F f) {
  switch (row.dtype) {
    case DType::f32: return f(Piece<float>(row, place));
    case DType::f64: return f(Piece<double>(row, place));
    case DType::bf16: return f(Piece<__nv_bfloat16>(row, place));
    default: return f(Piece<__half>(row, place));
  }
}

// The weights that a step updates: the values, or for 16-bit ones their masters if there are any.
template <class T>
struct Weights {
  using A = Accumulator<T>;
  static constexpr int n = Piece<T>::n;
  static constexpr bool may_have_masters = sizeof(T) == 2;

  __device__ Weights(const Piece<T>& piece, std::byte* values, std::byte* masters)
      : piece(piece), values(values), masters(masters) {
    if (may_have_masters && masters) {
      weights = piece.load_state(masters);
      return;
    }
    Group<T, n> loaded = piece.load_value(values);
#pragma unroll
    for (int i = 0; i < n; ++i) weights[i] = widen(loaded[i]);
  }
  __device__ A& operator[](int i) { return weights[i]; }
  __device__ void store() {
    Group<T, n> rounded;
#pragma unroll
    for (int i = 0; i < n; ++i) rounded[i] = narrow<T>(weights[i]);
    piece.store_value(values, rounded);
    if (may_have_masters && masters) piece.store_state(masters, weights);
  }

  const Piece<T>& piece;
  std::byte* values;
  std::byte* masters;
  Group<A, n> weights;
};

// What a step multiplies with, in both dtypes that it may be computed in.
template <template <class> class Rates>
struct InBoth {
  Rates<float> f32;
  Rates<double> f64;

  __device__ const Rates<float>& in(float) const { return f32; }
  __device__ const Rates<double>& in(double) const { return f64; }
};

// -- SGD ------------------------------------------------------------------------------------------

template <class A>
struct SgdRates {
  A lr, momentum, decay;
  bool has_momentum, nesterov;

  static __device__ SgdRates of(const SgdGroup& group) {
    return {A(group.lr), A(group.momentum), A(group.weight_decay), group.momentum != 0,
            group.nesterov != 0};
  }
};

struct SgdArenas {
  std::byte* values;
  const std::byte* grads;
  std::byte* momentum;
  std::byte* masters;
};

template <class T>
__device__ void sgd(const Piece<T>& piece, const SgdArenas& arenas,
                    const SgdRates<Accumulator<T>>& rates) {
  using A = Accumulator<T>;
  Weights<T> weights(piece, arenas.values, arenas.masters);
  Group<T, Piece<T>::n> grads = piece.load_value(arenas.grads);
  Group<A, Piece<T>::n> momentum{};
  if (rates.has_momentum) momentum = piece.load_state(arenas.momentum);
#pragma unroll
  for (int i = 0; i < Piece<T>::n; ++i) {
    const A g = fma(rates.decay, weights[i], widen(grads[i]));
    A direction = g;
    if (rates.has_momentum) {
      momentum[i] = fma(rates.momentum, momentum[i], g);
      direction = rates.nesterov ? fma(rates.momentum, momentum[i], g) : momentum[i];
    }
    weights[i] = fma(-rates.lr, direction, weights[i]);
  }
  if (rates.has_momentum) piece.store_state(arenas.momentum, momentum);
  weights.store();
}

__global__ void __launch_bounds__(threads)
    sgd_step(Table table, SgdArenas arenas, const SgdGroup* groups) {
  using Rates = InBoth<SgdRates>;
  for_pieces<Rates>(
      table,
      [=](const Segment& segment, int) -> Rates {
        const SgdGroup group = groups[segment.group];
        return {SgdRates<float>::of(group), SgdRates<double>::of(group)};
      },
      [=](const Row<Rates>& row, int64_t place) {
        dispatch_piece(row, place, [&]<class T>(const Piece<T>& piece) {
          sgd(piece, arenas, row.rates.in(Accumulator<T>()));
        });
      });
}

// -- Adam -----------------------------------------------------------------------------------------

template <class A>
struct AdamRates {
  A beta1, beta2, rest1, rest2, rate, second_scale, epsilon, keep, decay;

  static __device__ AdamRates of(const AdamGroup& group, double power1, double power2) {
    const bool decoupled = group.decoupled != 0;
    return {.beta1 = A(group.beta1),
            .beta2 = A(group.beta2),
            .rest1 = A(1 - group.beta1),
            .rest2 = A(1 - group.beta2),
            .rate = A(group.lr / (1 - power1)),
            .second_scale = A(1 / sqrt(1 - power2)),
            .epsilon = A(group.epsilon),
            .keep = A(decoupled ? 1 - group.lr * group.weight_decay : 1),
            .decay = A(decoupled ? 0 : group.weight_decay)};
  }
};

struct AdamArenas {
  std::byte* values;
  const std::byte* grads;
  std::byte* first;
  std::byte* second;
  std::byte* masters;
};

template <class T>
__device__ void adam(const Piece<T>& piece, const AdamArenas& arenas,
                     const AdamRates<Accumulator<T>>& rates) {
  using A = Accumulator<T>;
  Weights<T> weights(piece, arenas.values, arenas.masters);
  Group<T, Piece<T>::n> grads = piece.load_value(arenas.grads);
  Group<A, Piece<T>::n> first = piece.load_state(arenas.first);
  Group<A, Piece<T>::n> second = piece.load_state(arenas.second);
#pragma unroll
  for (int i = 0; i < Piece<T>::n; ++i) {
    const A g = fma(rates.decay, weights[i], widen(grads[i]));
    first[i] = fma(rates.beta1, first[i], rates.rest1 * g);
    second[i] = fma(rates.beta2, second[i], rates.rest2 * g * g);
    const A divisor = fma(sqrt(second[i]), rates.second_scale, rates.epsilon);
    weights[i] = fma(-rates.rate, first[i] / divisor, rates.keep * weights[i]);
  }
  piece.store_state(arenas.first, first);
  piece.store_state(arenas.second, second);
  weights.store();
}

// All blocks compute with the count of steps raised by one; the last one to finish writes it.
__global__ void __launch_bounds__(threads)
    adam_step(Table table, AdamArenas arenas, int64_t* steps, const AdamGroup* groups) {
  using Rates = InBoth<AdamRates>;
  for_pieces<Rates>(
      table,
      [=](const Segment& segment, int index) -> Rates {
        const AdamGroup group = groups[segment.group];
        const double step = double(steps[index] + 1);
        const double power1 = pow(group.beta1, step), power2 = pow(group.beta2, step);
        return {AdamRates<float>::of(group, power1, power2),
                AdamRates<double>::of(group, power1, power2)};
      },
      [=](const Row<Rates>& row, int64_t place) {
        dispatch_piece(row, place, [&]<class T>(const Piece<T>& piece) {
          adam(piece, arenas, row.rates.in(Accumulator<T>()));
        });
      });
  if (!is_last_block(&blocks_done, gridDim.x)) return;
  for (int s = int(threadIdx.x); s < table.count; s += threads) {
    steps[s] += table.segments[s].active != 0;
  }
}

// -- gradients ------------------------------------------------------------------------------------

struct NoRates {};

__device__ NoRates no_rates(const Segment&, int) { return {}; }

// Each block leaves a sum of squares; the last one adds them up, always in the same order.
__global__ void __launch_bounds__(threads)
    gradient_norm(Table table, const std::byte* grads, double* partials, double* norm) {
  double sum = 0;
  for_pieces<NoRates>(table, no_rates, [&](const Row<NoRates>& row, int64_t place) {
    dispatch_piece(row, place, [&]<class T>(const Piece<T>& piece) {
      Group<T, Piece<T>::n> group = piece.load_value(grads);  // 0 beyond the end
#pragma unroll
      for (int i = 0; i < Piece<T>::n; ++i) {
        const double g = double(widen(group[i]));
        sum = fma(g, g, sum);
      }
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

// grads = f(grad, its accumulator's zero) over all active segments.
template <class F>
__device__ void map_grads(const Table& table, std::byte* grads, F f) {
  for_pieces<NoRates>(table, no_rates, [=](const Row<NoRates>& row, int64_t place) {
    dispatch_piece(row, place, [=]<class T>(const Piece<T>& piece) {
      Group<T, Piece<T>::n> group = piece.load_value(grads);
#pragma unroll
      for (int i = 0; i < Piece<T>::n; ++i) group[i] = narrow<T>(f(widen(group[i])));
      piece.store_value(grads, group);
    });
  });
}

__global__ void __launch_bounds__(threads)
    clip_by_norm(Table table, std::byte* grads, const double* total, double max_norm) {
  const double norm = *total;
  if (!isfinite(norm) || norm <= max_norm) return;
  const double scale = max_norm / norm;
  map_grads(table, grads, [=]<class A>(A grad) { return grad * A(scale); });
}

__global__ void __launch_bounds__(threads)
    clip_by_value(Table table, std::byte* grads, double limit) {
  map_grads(table, grads, [=]<class A>(A grad) {
    const A bound = A(limit);
    return grad > bound ? bound : (grad < -bound ? -bound : grad);  // keeps NaN
  });
}

// -- launching ------------------------------------------------------------------------------------

// A stretch is what a block's threads take in 1 to 16 turns.
Table table_of(const Context& context, const TensorView& arena, const TensorView& segments) {
  constexpr int64_t turn = threads * vector_bytes;
  const int64_t bytes = int64_t(arena.bytes());
  const int64_t turns = divide_up(bytes, turn * 8 * context.multiprocessors());
  return {.segments = segments.as<Segment>(),
          .count = int(segments.shape[0]),
          .bytes = bytes,
          .stretch = turn * std::clamp<int64_t>(turns, 1, 16)};
}

// At least one block, for what the last one does.
Grid grid_of(const Table& table) {
  return {.blocks = dim3(unsigned(std::max<int64_t>(1, divide_up(table.bytes, table.stretch)))),
          .threads = threads};
}

std::byte* start(const TensorView& arena) { return arena.as<std::byte>(); }

}  // namespace

void run(Context& context, const kernels::SgdStep& call) {
  const Table table = table_of(context, call.values, call.segments);
  launch(context, sgd_step, grid_of(table), table,
         SgdArenas{.values = start(call.values),
                   .grads = start(call.grads),
                   .momentum = start(call.momentum),
                   .masters = start(call.masters)},
         call.groups.as<SgdGroup>());
}

void run(Context& context, const kernels::AdamStep& call) {
  const Table table = table_of(context, call.values, call.segments);
  launch(context, adam_step, grid_of(table), table,
         AdamArenas{.values = start(call.values),
                    .grads = start(call.grads),
                    .first = start(call.first),
                    .second = start(call.second),
                    .masters = start(call.masters)},
         call.steps.as<int64_t>(), call.groups.as<AdamGroup>());
}

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

}  // namespace adret::cuda
