// Reductions: the plan of a call, from any set of dimensions to launches.
#include <adret/core/cuda/kernels.h>
#include <adret/core/cuda/reduce_kernels.h>
#include <adret/core/cuda/workspace.h>

#include <bit>
#include <limits>

namespace adret::cuda {

using kernels::ReduceOp;

namespace {

// Note [Reductions on CUDA]
// Neighbouring dimensions that are all kept or all reduced are one. With a single reduced one, x is
// (outer, rows, inner), and a few threads, a block or several blocks share an output by the sizes
// alone; what several blocks found is reduced once more. With more reduced dimensions, the largest
// is reduced first. Sums of f32 and of 16-bit floats are kept in f32, in many partial sums that
// are added in pairs, always in the same order.

int power_of_two(int64_t at_least, int at_most) {
  return int(std::bit_ceil(uint64_t(std::clamp<int64_t>(at_least, 1, at_most))));
}

// Cuts the rows into about `chunks` pieces, aligned alike.
void cut(Extents& extents, int64_t chunks) {
  constexpr int64_t multiple = 16;
  const int64_t rows = divide_up(divide_up(extents.rows, chunks), multiple) * multiple;
  extents.chunk_rows = std::min(rows, extents.rows);
  extents.chunks = divide_up(extents.rows, extents.chunk_rows);
}

Grid grid_of(const Context& context, int64_t blocks, dim3 threads) {
  const int64_t wave = int64_t(context.multiprocessors()) * 8;
  return {.blocks = dim3(unsigned(std::min(blocks, 8 * wave))), .threads = threads};
}

template <class Kept, class T>
class Reduction {
  using A = Accumulator<T>;
  static constexpr int n = vector_size<T, T>;

 public:
  Reduction(const Context& context, const T* x, const Extents& extents, const Results<A>& results)
      : context_(context), x_(x), extents_(extents), results_(results) {
    extents_.chunk_rows = extents_.rows;
    extents_.chunks = 1;
  }

  void run() {
    const bool is_few =
        extents_.inner == 1 ? extents_.rows <= 4 : extents_.inner < 32 && extents_.rows <= 16;
    if (is_few && extents_.outer * extents_.inner >= 4096) return each();
    if (extents_.inner > 1) return columns();
    extents_.rows <= 1024 ? short_rows() : long_rows();
  }

 private:
  int64_t multiprocessors() const { return context_.multiprocessors(); }

  void each() {
    launch(context_, reduce_each<Kept, T>, grid_for(context_, extents_.outer * extents_.inner), x_,
           extents_, results_);
  }

  void short_rows() {
    const bool in_vectors = is_aligned(x_, n) && extents_.rows % n == 0;
    const int64_t items = in_vectors ? extents_.rows / n : extents_.rows;
    // About four loads for each lane, all on their way together.
    const int lanes = power_of_two(divide_up(items, reduce_unroll), 32);
    launch(context_, in_vectors ? reduce_short_rows<Kept, T, n> : reduce_short_rows<Kept, T, 1>,
           grid_for(context_, extents_.outer * lanes), x_, extents_, results_, lanes);
  }

  void long_rows() {
    constexpr int64_t whole_bytes = 64 << 10;  // what a large block reads in 2 us or so
    constexpr int64_t chunk_bytes = whole_bytes / 4, most_chunks = 1024;
    const int64_t bytes = extents_.rows * int64_t(sizeof(T));
    const int64_t outer = extents_.outer;
    if (bytes > whole_bytes && outer < 2 * multiprocessors()) {
      const int64_t wanted = divide_up(8 * multiprocessors(), outer);
      cut(extents_, std::min({divide_up(bytes, chunk_bytes), wanted, most_chunks}));
    }
    const int64_t blocks = outer * extents_.chunks;
    const int threads = blocks <= multiprocessors() && bytes > chunk_bytes ? 1024 : 256;
    launch_chunks([&](const Results<A>& results) {
      launch(context_, reduce_long_rows<Kept, T>, grid_of(context_, blocks, threads), x_, extents_,
             results);
    });
  }

  void columns() {
    const bool in_vectors = is_aligned(x_, n) && extents_.inner % n == 0;
    in_vectors ? columns_of<n>() : columns_of<1>();
  }

  template <int width>
  void columns_of() {
    const int64_t across = extents_.inner / width;
    dim3 threads = column_threads(across, 256);
    const auto blocks = [&] { return extents_.outer * divide_up(across, threads.x); };
    if (blocks() < multiprocessors()) {
      // Few blocks: larger ones, and several for each column when its rows are still too many.
      constexpr int64_t loads = 32, most_chunks = 512;
      const dim3 large = column_threads(across, 1024);
      if (extents_.rows <= loads * large.y) {
        threads = large;
      } else {
        const int64_t wanted = divide_up(4 * multiprocessors(), blocks());
        cut(extents_,
            std::min({divide_up(extents_.rows, loads / 4 * threads.y), wanted, most_chunks}));
      }
    }
    Grid grid = grid_of(context_, blocks() * extents_.chunks, threads);
    grid.shared_bytes = size_t(threads.x * threads.y) * width * sizeof(Kept);
    launch_chunks([&](const Results<A>& results) {
      launch(context_, reduce_columns<Kept, T, width>, grid, x_, extents_, results);
    });
  }

  // At most 32 side by side, as long as there are rows for the others.
  dim3 column_threads(int64_t across, int count) const {
    int width = power_of_two(across, 32);
    const int height = power_of_two(extents_.rows, count / width);
    while (width * height < count && width < across) width *= 2;
    return dim3(unsigned(width), unsigned(height));
  }

  // Launches with the results' place, and reduces the chunks' results when there are several.
  template <class Launch>
  void launch_chunks(Launch launch) {
    if (extents_.chunks == 1) return launch(results_);
    const Extents chunks{.outer = extents_.outer, .rows = extents_.chunks, .inner = extents_.inner};
    const Workspace partial(context_,
                            size_t(chunks.outer * chunks.rows * chunks.inner) * sizeof(A));
    launch({.data = partial.data(), .dtype = dtype_of<A>, .divisor = 1});
    Reduction<Kept, A>(context_, partial.as<A>(), chunks, results_).run();
  }

  const Context& context_;
  const T* x_;
  Extents extents_;
  Results<A> results_;
};

// The dimensions of x, those of size 1 left out and neighbours of one kind merged.
struct Dimensions {
  struct Dimension {
    int64_t size;
    bool is_reduced;
  };
  int rank = 0;
  std::array<Dimension, Shape::max_rank> at;

  explicit Dimensions(const kernels::Reduce& call) {
    for (int d = 0; d < call.x.shape.rank(); ++d) {
      add({.size = call.x.shape[d], .is_reduced = (call.dims >> d & 1) != 0});
    }
  }
  void add(const Dimension& dimension) {
    if (dimension.size == 1) return;
    if (rank > 0 && at[size_t(rank - 1)].is_reduced == dimension.is_reduced) {
      at[size_t(rank - 1)].size *= dimension.size;
    } else {
      at[size_t(rank++)] = dimension;
    }
  }
  int reduced() const {
    return int(std::count_if(at.begin(), at.begin() + rank,
                             [](const Dimension& dimension) { return dimension.is_reduced; }));
  }

  // Takes the largest reduced dimension out; what is left is the shape of its results.
  Extents take() {
    int largest = -1;
    for (int d = 0; d < rank; ++d) {
      if (at[size_t(d)].is_reduced &&
          (largest < 0 || at[size_t(d)].size > at[size_t(largest)].size)) {
        largest = d;
      }
    }
    Extents extents{.outer = 1, .rows = at[size_t(largest)].size, .inner = 1};
    const std::array<Dimension, Shape::max_rank> before = at;
    const int before_rank = std::exchange(rank, 0);
    for (int d = 0; d < before_rank; ++d) {
      if (d == largest) continue;
      (d < largest ? extents.outer : extents.inner) *= before[size_t(d)].size;
      add(before[size_t(d)]);
    }
    return extents;
  }
};

template <class Kept, class T>
void reduce(const Context& context, const T* x, Dimensions dimensions,
            const Results<Accumulator<T>>& results) {
  using A = Accumulator<T>;
  const Extents extents = dimensions.take();
  if (dimensions.reduced() == 0) return Reduction<Kept, T>(context, x, extents, results).run();
  const Workspace partial(context, size_t(extents.outer * extents.inner) * sizeof(A));
  Reduction<Kept, T>(context, x, extents,
                     {.data = partial.data(), .dtype = dtype_of<A>, .divisor = 1})
      .run();
  reduce<Kept, A>(context, partial.as<A>(), dimensions, results);
}

// What the reduction of no elements gives.
double of_nothing(ReduceOp op) {
  constexpr double infinity = std::numeric_limits<double>::infinity();
  switch (op) {
    case ReduceOp::sum: return 0;
    case ReduceOp::mean: return std::numeric_limits<double>::quiet_NaN();
    case ReduceOp::max: return -infinity;
    case ReduceOp::min: return infinity;
    case ReduceOp::prod: return 1;
  }
  return 0;
}

}  // namespace

void run(Context& context, const kernels::Reduce& call) {
  const int64_t outputs = call.y.numel(), elements = call.x.numel();
  if (outputs == 0) return;
  dispatch_float(call.x.dtype, call.name, [&](auto zero) {
    using T = decltype(zero);
    using A = Accumulator<T>;
    if (elements == 0)
      return run(context, kernels::Fill{.y = call.y, .value = of_nothing(call.op)});
    if (elements == outputs) return run(context, kernels::Copy{.x = call.x, .y = call.y});
    const A divisor = call.op == ReduceOp::mean ? A(elements / outputs) : A(1);
    const Results<A> results{.data = call.y.data, .dtype = call.y.dtype, .divisor = divisor};
    const T* const x = call.x.as<T>();
    switch (call.op) {
      case ReduceOp::sum:
      case ReduceOp::mean: return reduce<Total<A>, T>(context, x, Dimensions(call), results);
      case ReduceOp::max: return reduce<Largest<A>, T>(context, x, Dimensions(call), results);
      case ReduceOp::min: return reduce<Smallest<A>, T>(context, x, Dimensions(call), results);
      case ReduceOp::prod: return reduce<ProductOf<A>, T>(context, x, Dimensions(call), results);
    }
  });
}

}  // namespace adret::cuda
