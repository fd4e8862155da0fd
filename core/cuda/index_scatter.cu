// Elements moved or added to the places that indices name, in a fixed order.
#include <adret/core/cuda/elementwise.h>
#include <adret/core/cuda/index_order.h>
#include <adret/core/cuda/index_places.h>
#include <adret/core/cuda/index_scatter_rows.h>
#include <adret/core/cuda/index_strided.h>
#include <adret/core/cuda/index_sum.h>
#include <adret/core/cuda/kernels.h>
#include <adret/core/cuda/memory.h>

#include <bit>
#include <cmath>
#include <optional>
#include <type_traits>

namespace adret::cuda {

using kernels::ScatterMode;

namespace {

// Note [Scattering in order]
// The places of x are sorted by the rows of y that they go to, stably, so that each row finds its
// own side by side and in the order they have in x: no atomics, and the same bits in every run.
// Rows are of `inner` elements when all share their indices; else each element is a row by itself.
// A row with many sources would keep one thread busy for long. So the sorted places are cut into
// parts of fixed size, and those that belong to one row as a whole are added up beforehand.

// y is (outer, rows, inner), x (outer, sources, inner).
struct Sizes {
  int64_t outer, rows, sources, inner;
};

Sizes sizes_of(const kernels::Scatter& call) {
  if (call.indices.shape.rank() > 1) return {1, call.y.numel(), call.x.numel(), 1};
  const int64_t rows = call.y.shape[call.dim], inner = inner_size(call.y.shape, call.dim);
  return {call.y.numel() / (rows * inner), rows, call.x.shape[call.dim], inner};
}

// -- who goes where ------------------------------------------------------------------------------

// Where an index of one element leads to in y; `alike`: the row itself.
struct Destinations {
  Indices indices;
  bool alike;
  FastDivisor inner, length;  // of x's elements and of its places along the dimension
  int64_t size;               // of the dimension in y
  uint64_t none;              // for those outside

  __device__ uint64_t operator()(uint32_t source) const {
    const int64_t index = indices[source];
    if (index < 0 || index >= size) return none;
    if (alike) return uint64_t(index);
    const uint32_t row = inner.quotient(source), outer = length.quotient(row);
    const uint32_t column = source - row * inner.divisor();
    return uint64_t((int64_t(outer) * size + index) * inner.divisor() + column);
  }
};

__global__ void find_destinations(const __grid_constant__ Destinations destinations, uint64_t* keys,
                                  uint32_t* places, uint32_t count) {
  begin_kernel();
  for (int64_t i = first_item(); i < count; i += all_threads()) {
    keys[i] = destinations(uint32_t(i));
    places[i] = uint32_t(i);
  }
}

// begins[row]: the first of the sorted keys that is not below `row`, for the rows 0..rows.
__global__ void find_begins(const uint64_t* keys, uint32_t count, uint32_t* begins, int64_t rows) {
  begin_kernel();
  for (int64_t row = first_item(); row <= rows; row += all_threads()) {
    uint32_t low = 0, high = count;
    while (low < high) {
      const uint32_t middle = low + (high - low) / 2;
      if (keys[middle] < uint64_t(row)) {
        low = middle + 1;
      } else {
        high = middle;
      }
    }
    begins[row] = low;
  }
}

OrderedPairs ordered(Context& context, const kernels::Scatter& call, const Sizes& sizes) {
  constexpr int64_t most = INT32_MAX;
  if (sizes.sources > most) {
    throw ShapeError("[scatter] takes up to 2^31 - 1 indices on CUDA, got " +
                     std::to_string(sizes.sources));
  }
  const Destinations destinations{
      .indices = indices_of(call.indices),
      .alike = call.indices.shape.rank() == 1,
      .inner = FastDivisor(uint32_t(std::min(most, inner_size(call.x.shape, call.dim)))),
      .length = FastDivisor(uint32_t(std::min(most, call.x.shape[call.dim]))),
      .size = call.y.shape[call.dim],
      .none = uint64_t(sizes.rows)};
  OrderedPairs pairs(context, sizes.sources);
  launch(context, find_destinations, grid_for(context, sizes.sources), destinations, pairs.keys(),
         pairs.places(), uint32_t(sizes.sources));
  pairs.sort(bits_of(uint64_t(sizes.rows)));
  return pairs;
}

// -- sums ----------------------------------------------------------------------------------------

// Rows in vectors of n elements.
template <class T, int n>
struct Rows {
  using Sum = Vector<Computed<T>, n>;
  const Vector<T, n>* x;
  const uint32_t* places;  // sorted
  int64_t sources, vectors;

  // Adds the sources begin..end-1 of the sorted ones, several loads in flight.
  __device__ void add(Sum& sum, int64_t outer, int64_t vector, uint32_t begin, uint32_t end) const {
    constexpr int ahead = 4;
    const Vector<T, n>* const from = x + outer * sources * vectors + vector;
    for (uint32_t i = begin; i < end; i += ahead) {
      Vector<T, n> loaded[ahead];
#pragma unroll
      for (int k = 0; k < ahead; ++k) {
        if (i + k < end) loaded[k] = from[int64_t(places[i + k]) * vectors];
      }
#pragma unroll
      for (int k = 0; k < ahead; ++k) {
        if (i + k >= end) continue;
#pragma unroll
        for (int e = 0; e < n; ++e) sum.at[e] += wide_of<T>(loaded[k].at[e]);
      }
    }
  }
};

// The parts of `size` sorted places each; none where the rows are short.
template <class S>
struct Parts {
  S* sums = nullptr;  // (outer, count, vectors); of parts that belong to one row
  uint32_t size = 0, count = 0;
};

template <class T, int n, class Divisor>
__global__ void sum_parts(const __grid_constant__ Rows<T, n> rows, const uint64_t* keys,
                          Parts<typename Rows<T, n>::Sum> parts, Divisor vectors, Divisor count,
                          typename Divisor::Index items) {
  begin_kernel();
  using Index = typename Divisor::Index;
  for (Index i = Index(first_item()); i < items; i += Index(all_threads())) {
    const Index row = vectors.quotient(i), outer = count.quotient(row);
    const uint32_t begin = uint32_t(row - outer * count.divisor()) * parts.size;
    if (keys[begin] != keys[begin + parts.size - 1]) continue;
    typename Rows<T, n>::Sum sum{};
    rows.add(sum, outer, i - row * vectors.divisor(), begin, begin + parts.size);
    parts.sums[i] = sum;
  }
}

template <class T, int n, class Divisor>
__global__ void sum_rows(const __grid_constant__ Rows<T, n> rows, const uint32_t* begins,
                         Parts<typename Rows<T, n>::Sum> parts, Vector<T, n>* y, bool adds,
                         Divisor vectors, Divisor length, typename Divisor::Index items) {
  begin_kernel();
  using Index = typename Divisor::Index;
  for (Index i = Index(first_item()); i < items; i += Index(all_threads())) {
    const Index row = vectors.quotient(i), outer = length.quotient(row);
    const Index vector = i - row * vectors.divisor(), own = row - outer * length.divisor();
    const uint32_t begin = begins[own], end = begins[own + 1];
    if (adds && begin == end) continue;
    typename Rows<T, n>::Sum sum{};
    if (adds) {
      const Vector<T, n> before = y[i];
#pragma unroll
      for (int e = 0; e < n; ++e) sum.at[e] = wide_of<T>(before.at[e]);
    }
    const uint32_t first = parts.size ? (begin + parts.size - 1) / parts.size : 0;
    const uint32_t last = parts.size ? end / parts.size : 0;
    if (first < last) {
      rows.add(sum, outer, vector, begin, first * parts.size);
      const auto* const whole =
          parts.sums + int64_t(outer) * parts.count * rows.vectors + int64_t(vector);
      for (uint32_t part = first; part < last; ++part) {
        const auto of_part = whole[int64_t(part) * rows.vectors];
#pragma unroll
        for (int e = 0; e < n; ++e) sum.at[e] += of_part.at[e];
      }
      rows.add(sum, outer, vector, last * parts.size, end);
    } else {
      rows.add(sum, outer, vector, begin, end);
    }
    Vector<T, n> result;
#pragma unroll
    for (int e = 0; e < n; ++e) result.at[e] = narrow_of<T>(sum.at[e]);
    y[i] = result;
  }
}

// About as many places in a part as there are parts.
uint32_t part_size(int64_t sources) {
  const auto root = uint64_t(std::sqrt(double(sources)));
  return uint32_t(std::max<uint64_t>(32, std::bit_floor(root) / 2));
}

template <class T, int n>
void sum_in(Context& context, const kernels::Scatter& call, const Sizes& sizes,
            const OrderedPairs& pairs, const uint32_t* begins) {
  using Sum = typename Rows<T, n>::Sum;
  const int64_t vectors = sizes.inner / n, items = sizes.outer * sizes.rows * vectors;
  const Rows<T, n> rows{call.x.as<const Vector<T, n>>(), pairs.places(), sizes.sources, vectors};
  Parts<Sum> parts;
  std::optional<Workspace> of_parts;
  if (const uint32_t size = part_size(sizes.sources); sizes.sources >= 2 * int64_t(size)) {
    parts.size = size;
    parts.count = uint32_t(sizes.sources / size);
    const int64_t part_items = sizes.outer * parts.count * vectors;
    of_parts.emplace(context, size_t(part_items) * sizeof(Sum));
    parts.sums = of_parts->template as<Sum>();
    with_divisor(vectors, part_items, [&](auto divisor) {
      using Divisor = decltype(divisor);
      using Index = typename Divisor::Index;
      launch(context, sum_parts<T, n, Divisor>, grid_for(context, part_items), rows, pairs.keys(),
             parts, divisor, Divisor(Index(parts.count)), Index(part_items));
    });
  }
  with_divisor(vectors, items, [&](auto divisor) {
    using Divisor = decltype(divisor);
    using Index = typename Divisor::Index;
    launch(context, sum_rows<T, n, Divisor>, grid_for(context, items), rows, begins, parts,
           call.y.as<Vector<T, n>>(), call.mode == ScatterMode::add, divisor,
           Divisor(Index(sizes.rows)), Index(items));
  });
}

// -- the last one --------------------------------------------------------------------------------

template <class T, class Divisor>
__global__ void move_last(const T* x, const uint32_t* places, const uint32_t* begins, T* y,
                          int64_t sources, Divisor inner, Divisor length,
                          typename Divisor::Index items) {
  begin_kernel();
  using Index = typename Divisor::Index;
  for (Index i = Index(first_item()); i < items; i += Index(all_threads())) {
    const Index row = inner.quotient(i), outer = length.quotient(row);
    const Index own = row - outer * length.divisor();
    const uint32_t begin = begins[own], end = begins[own + 1];
    if (begin == end) continue;
    const int64_t from = int64_t(outer) * sources + places[end - 1];
    y[i] = x[from * int64_t(inner.divisor()) + int64_t(i - row * inner.divisor())];
  }
}

void assign(Context& context, const kernels::Scatter& call, const Sizes& sizes,
            const OrderedPairs& pairs, const uint32_t* begins) {
  const int64_t bytes = sizes.inner * int64_t(size_of(call.y.dtype));
  const auto unit =
      int64_t(common_unit(uintptr_t(call.x.data), uintptr_t(call.y.data), uint64_t(bytes)));
  const int64_t inner = bytes / unit, items = sizes.outer * sizes.rows * inner;
  dispatch_unit(size_t(unit), [&](auto zero) {
    using T = decltype(zero);
    with_divisor(inner, items, [&](auto divisor) {
      using Divisor = decltype(divisor);
      using Index = typename Divisor::Index;
      launch(context, move_last<T, Divisor>, grid_for(context, items), call.x.as<T>(),
             pairs.places(), begins, call.y.as<T>(), sizes.sources, divisor,
             Divisor(Index(sizes.rows)), Index(items));
    });
  });
}

// -- one source a line ---------------------------------------------------------------------------

// y (outer, size, inner) in vectors of n along its lines: the line's element of x at its index, and
// zeros. `inner` is 1 if n is not; `length` counts a line's vectors.
template <class T, int n>
__global__ void write_lines(const T* x, Indices indices, Vector<T, n>* y, FastDivisor inner,
                            FastDivisor length, uint32_t vectors) {
  begin_kernel();
  for (uint32_t i = uint32_t(first_item()); i < vectors; i += uint32_t(all_threads())) {
    const uint32_t row = inner.quotient(i), outer = length.quotient(row);
    const uint32_t source = outer * inner.divisor() + (i - row * inner.divisor());
    const int64_t own = indices[source] - int64_t(row - outer * length.divisor()) * n;
    Vector<T, n> line{};
#pragma unroll
    for (int k = 0; k < n; ++k) {
      if (own == k) line.at[k] = x[source];
    }
    y[i] = line;
  }
}

// No two sources meet where each line has one: nothing needs an order.
bool has_one_source(const kernels::Scatter& call) {
  return call.mode == ScatterMode::sum && call.x.shape[call.dim] == 1 &&
         call.indices.shape.rank() > 1 && call.y.numel() <= INT32_MAX;
}

void scatter_one(const Context& context, const kernels::Scatter& call) {
  const int64_t size = call.y.shape[call.dim], inner = inner_size(call.y.shape, call.dim);
  dispatch_size(call.y.dtype, [&](auto zero) {
    using T = decltype(zero);
    const auto launch_for = [&]<int n>(std::integral_constant<int, n>) {
      const auto vectors = uint32_t(call.y.numel() / n);
      launch(context, write_lines<T, n>, grid_for(context, vectors),
             static_cast<const T*>(call.x.data), indices_of(call.indices),
             static_cast<Vector<T, n>*>(call.y.data), FastDivisor(uint32_t(inner)),
             FastDivisor(uint32_t(size / n)), vectors);
    };
    constexpr int n = 16 / int(sizeof(T));
    if (inner == 1 && size % n == 0 && aligned_16(call.y.data)) {
      launch_for(std::integral_constant<int, n>());
    } else {
      launch_for(std::integral_constant<int, 1>());
    }
  });
}

}  // namespace

void run(Context& context, const kernels::Scatter& call) {
  if (call.y.numel() == 0) return;
  if (call.x.numel() == 0) {
    if (call.mode == ScatterMode::sum) clear(context, call.y);
    return;
  }
  if (has_one_source(call)) return scatter_one(context, call);
  if (can_scatter_rows(call)) return scatter_rows(context, call);
  const Sizes sizes = sizes_of(call);
  const OrderedPairs pairs = ordered(context, call, sizes);
  const Workspace begins(context, size_t(sizes.rows + 1) * sizeof(uint32_t));
  launch(context, find_begins, grid_for(context, sizes.rows + 1), pairs.keys(),
         uint32_t(sizes.sources), begins.as<uint32_t>(), sizes.rows);
  const auto sum = [&](auto zero) {
    using T = decltype(zero);
    constexpr int n = 16 / int(sizeof(T));
    if (sizes.inner % n == 0 && aligned_16(call.x.as<T>(), call.y.as<T>())) {
      sum_in<T, n>(context, call, sizes, pairs, begins.as<uint32_t>());
    } else {
      sum_in<T, 1>(context, call, sizes, pairs, begins.as<uint32_t>());
    }
  };
  if (call.mode == ScatterMode::assign) {
    return assign(context, call, sizes, pairs, begins.as<uint32_t>());
  }
  switch (call.y.dtype) {
    case DType::i32: return sum(int32_t());
    case DType::i64: return sum(int64_t());
    default: dispatch_float(call.y.dtype, call.name, sum);
  }
}

}  // namespace adret::cuda
