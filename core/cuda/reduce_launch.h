// The plan of a reduction, from any set of dimensions to launches.
#pragma once

#include <adret/core/cuda/context.h>
#include <adret/core/cuda/reduce_kernels.h>
#include <adret/core/cuda/workspace.h>
#include <adret/core/kernels/reduce.h>

#include <algorithm>
#include <array>
#include <bit>
#include <limits>
#include <utility>

namespace adret::cuda {

// Note [Reductions on CUDA]
// Neighbouring dimensions that are all kept or all reduced are one. With a single reduced one, x is
// (outer, rows, inner), and a few threads, a block or several blocks share an output by the sizes
// alone; what several blocks found is reduced once more. With more reduced dimensions, the largest
// is reduced first. Sums of f32 and of 16-bit floats are kept in f32, in many partial sums that
// are added in pairs, always in the same order.

inline int power_of_two(int64_t at_least, int at_most) {
  return int(std::bit_ceil(uint64_t(std::clamp<int64_t>(at_least, 1, at_most))));
}

// Cuts the rows into about `chunks` pieces, aligned alike.
inline void cut(Extents& extents, int64_t chunks) {
  constexpr int64_t multiple = 16;
  const int64_t rows = divide_up(divide_up(extents.rows, chunks), multiple) * multiple;
  extents.chunk_rows = std::min(rows, extents.rows);
  extents.chunks = divide_up(extents.rows, extents.chunk_rows);
}

inline Grid grid_of(const Context& context, int64_t blocks, dim3 threads) {
  const int64_t wave = int64_t(context.multiprocessors()) * 8;
  return {.blocks = dim3(unsigned(std::min(blocks, 8 * wave))), .threads = threads};
}

template <class Kept, class A>
Results<Kept, A> kept_in(const Workspace& workspace) {
  return {.data = nullptr, .dtype = {}, .divisor = 1, .kept = workspace.as<Kept>()};
}

// Of elements of T, or of what was Kept of them.
template <class Kept, class T, class A>
class Reduction {
  static constexpr int n = reduce_vector<T>;

 public:
  Reduction(const Context& context, const T* x, const Extents& extents,
            const Results<Kept, A>& results)
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
    launch(context_, reduce_each<Kept, T, A>, grid_for(context_, extents_.outer * extents_.inner),
           x_, extents_, results_);
  }

  void short_rows() {
    const bool in_vectors = is_aligned(x_, n) && extents_.rows % n == 0;
    const int64_t items = in_vectors ? extents_.rows / n : extents_.rows;
    // About four loads for each lane, all on their way together.
    const int lanes = power_of_two(divide_up(items, reduce_unroll), 32);
    launch(context_,
           in_vectors ? reduce_short_rows<n, Kept, T, A> : reduce_short_rows<1, Kept, T, A>,
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
    launch_chunks([&](const Results<Kept, A>& results) {
      launch(context_, reduce_long_rows<Kept, T, A>, grid_of(context_, blocks, threads), x_,
             extents_, results);
    });
  }

  void columns() {
    const bool in_vectors = is_aligned(x_, n) && extents_.inner % n == 0;
    in_vectors ? columns_of<n>() : columns_of<1>();
  }

  template <int width>
  void columns_of() {
    const int64_t across = extents_.inner / width;
    // As large a block as 48 KiB of shared memory let be.
    constexpr int most =
        int(std::bit_floor(std::min<size_t>(1024, (48 << 10) / width / sizeof(Kept))));
    dim3 threads = column_threads(across, 256);
    const auto blocks = [&] { return extents_.outer * divide_up(across, threads.x); };
    if (blocks() < multiprocessors()) {
      // Few blocks: larger ones, and several for each column when its rows are still too many.
      constexpr int64_t loads = 32, most_chunks = 512;
      const dim3 large = column_threads(across, most);
      if (extents_.rows <= loads * large.y) {
        threads = large;
      } else {
        const int64_t wanted = divide_up(4 * multiprocessors(), blocks());
        cut(extents_,
            std::min({divide_up(extents_.rows, loads / 4 * threads.y), wanted, most_chunks}));
      }
    } else if (blocks() < 2 * multiprocessors()) {
      // One or two for each multiprocessor: twice the threads, where they have enough to read.
      const dim3 larger = column_threads(across, std::min(512, most));
      if (extents_.rows >= 4 * reduce_unroll * int64_t(larger.y)) threads = larger;
    }
    Grid grid = grid_of(context_, blocks() * extents_.chunks, threads);
    grid.shared_bytes = size_t(threads.x * threads.y) * width * sizeof(Kept);
    launch_chunks([&](const Results<Kept, A>& results) {
      launch(context_, reduce_columns<width, Kept, T, A>, grid, x_, extents_, results);
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
                            size_t(chunks.outer * chunks.rows * chunks.inner) * sizeof(Kept));
    launch(kept_in<Kept, A>(partial));
    Reduction<Kept, Kept, A>(context_, partial.as<Kept>(), chunks, results_).run();
  }

  const Context& context_;
  const T* x_;
  Extents extents_;
  Results<Kept, A> results_;
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

  // Takes the largest reduced dimension out, or one of size 1; what is left is the shape of its
  // results.
  Extents take() {
    int largest = -1;
    for (int d = 0; d < rank; ++d) {
      if (at[size_t(d)].is_reduced &&
          (largest < 0 || at[size_t(d)].size > at[size_t(largest)].size)) {
        largest = d;
      }
    }
    Extents extents{.outer = 1, .rows = largest < 0 ? 1 : at[size_t(largest)].size, .inner = 1};
    const std::array<Dimension, Shape::max_rank> before = at;
    const int before_rank = std::exchange(rank, 0);
    for (int d = 0; d < before_rank; ++d) {
      if (d == largest) continue;
      (largest < 0 || d < largest ? extents.outer : extents.inner) *= before[size_t(d)].size;
      add(before[size_t(d)]);
    }
    return extents;
  }
};

template <class Kept, class T, class A>
void reduce(const Context& context, const T* x, Dimensions dimensions,
            const Results<Kept, A>& results) {
  const Extents extents = dimensions.take();
  if (dimensions.reduced() == 0) {
    return Reduction<Kept, T, A>(context, x, extents, results).run();
  }
  const Workspace partial(context, size_t(extents.outer * extents.inner) * sizeof(Kept));
  Reduction<Kept, T, A>(context, x, extents, kept_in<Kept, A>(partial)).run();
  reduce<Kept, Kept, A>(context, partial.as<Kept>(), dimensions, results);
}

template <class Kept, class T>
void reduce(const Context& context, const kernels::Reduce& call,
            const Results<Kept, Accumulator<T>>& results) {
  reduce<Kept, T, Accumulator<T>>(context, call.x.as<T>(), Dimensions(call), results);
}

// Sums, products and extremes of integers, of one element at least.
void run_integer_reduction(Context& context, const kernels::Reduce& call);

// Norms, variances and logarithms of sums of exponentials, of one element at least.
void run_statistic(Context& context, const kernels::Reduce& call);

}  // namespace adret::cuda
