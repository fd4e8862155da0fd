// The largest or smallest element of each line, and its place.
#include <adret/core/cpu/dispatch.h>
#include <adret/core/cpu/kernels.h>
#include <adret/core/cpu/lines.h>
#include <adret/core/cpu/vector.h>

#include <limits>

namespace adret::cpu {
namespace {

// Whether a later element takes the place of the best one so far: NaN does, but of another NaN. Of
// two vectors: in which lanes.
template <bool largest, class T>
auto beats(T later, T best) {
  return (largest ? later > best : later < best) | ((later != later) & (best == best));
}

template <class T>
struct Best {
  T value;
  int64_t place;
};

template <bool largest, class T>
Best<T> best_of_few(const T* x, int64_t length) {
  Best<T> best{x[0], 0};
  for (int64_t i = 1; i < length; ++i) {
    if (beats<largest>(x[i], best.value)) best = {x[i], i};
  }
  return best;
}

// Each lane keeps its best and where it was; then the lanes are compared in halves.
template <bool largest, class T>
Best<T> best_of_line(const T* x, int64_t length) {
  using Place = typename SignedOf<int(sizeof(T))>::type;
  constexpr int n = lanes<T>;
  const Vector<Place> lane = lane_numbers<Place>();
  Vector<T> best = load(x);
  Vector<Place> at = lane;
  for (int64_t i = n;; i += n) {
    // The last one may begin early: what it meets again stays where it was found first.
    i = std::min(i, length - n);
    const Vector<T> next = load(x + i);
    const auto better = beats<largest>(next, best);
    best = better ? next : best;
    at = better ? lane + Place(i) : at;
    if (i == length - n) break;
  }
  for (int half = n / 2; half > 0; half /= 2) {
    const Vector<Place> from = lane ^ Place(half);
    const Vector<T> other = __builtin_shuffle(best, from);
    const Vector<Place> other_at = __builtin_shuffle(at, from);
    const auto worse = beats<largest>(best, other);
    const auto better = beats<largest>(other, best) | (~worse & (other_at < at));
    best = better ? other : best;
    at = better ? other_at : at;
  }
  return {best[0], at[0]};
}

template <bool largest, class T>
void run_dense(const kernels::Extreme& call, const Lines& lines) {
  using Place = typename SignedOf<int(sizeof(T))>::type;
  const bool by_vectors =
      lines.length >= lanes<T> && lines.length <= std::numeric_limits<Place>::max();
  T* values = call.values.as<T>();
  int64_t* indices = call.indices.as<int64_t>();
  parallel_for(lines.outer, items_per_chunk(memory_grain, lines.length),
               [&](int64_t begin, int64_t end) {
                 for (int64_t line = begin; line < end; ++line) {
                   const T* const x = call.x.as<T>() + line * lines.length;
                   const Best<T> best = by_vectors ? best_of_line<largest>(x, lines.length)
                                                   : best_of_few<largest>(x, lines.length);
                   if (values) values[line] = best.value;
                   if (indices) indices[line] = best.place;
                 }
               });
}

template <bool largest, class T>
void run_in(const kernels::Extreme& call) {
  const Lines lines(call.x.shape, call.dim);
  if (lines.inner == 1) return run_dense<largest, T>(call, lines);
  const T* x = call.x.as<T>();
  T* values = call.values.as<T>();
  int64_t* indices = call.indices.as<int64_t>();
  lines.for_blocks([&](int64_t first, int64_t offset, int64_t width) {
    T best[lines_width];
    int64_t at[lines_width] = {};
    std::copy_n(x + offset, width, best);
    for (int64_t i = 1; i < lines.length; ++i) {
      const T* row = x + offset + i * lines.inner;
      for (int64_t c = 0; c < width; ++c) {
        const bool better = beats<largest>(row[c], best[c]);
        best[c] = better ? row[c] : best[c];
        at[c] = better ? i : at[c];
      }
    }
    if (values) std::copy_n(best, width, values + first);
    if (indices) std::copy_n(at, width, indices + first);
  });
}

}  // namespace

void run(const kernels::Extreme& call) {
  const auto with = [&](auto zero) {
    using T = decltype(zero);
    call.largest ? run_in<true, T>(call) : run_in<false, T>(call);
  };
  switch (call.x.dtype) {
    case DType::i32: return with(int32_t());
    case DType::i64: return with(int64_t());
    default: dispatch_float(call.x.dtype, call.name, with);
  }
}

}  // namespace adret::cpu
