// Elements moved or added to the places that indices name, in the order they have in x.
#include <adret/core/cpu/dispatch.h>
#include <adret/core/cpu/index_places.h>
#include <adret/core/cpu/kernels.h>

#include <algorithm>

namespace adret::cpu {

using kernels::ScatterMode;

namespace {

// Columns that one thread takes: no two threads write to one place, whatever the indices are.
constexpr int64_t block_width = 64;

template <class T, class F>
void scatter(const kernels::Scatter& call, F put) {
  const Lines from(call.x.shape, call.dim);
  const Indices indices(call.indices, from);
  const int64_t size = call.y.shape[call.dim], blocks = chunk_count(from.inner, block_width);
  const T* x = call.x.as<T>();
  T* y = call.y.as<T>();
  const int64_t elements = from.length * std::min(from.inner, block_width);
  parallel_for(from.outer * blocks, items_per_chunk(memory_grain, elements),
               [&](int64_t begin, int64_t end) {
                 for (int64_t item = begin; item < end; ++item) {
                   const int64_t outer = item / blocks, first = item % blocks * block_width;
                   const int64_t last = std::min(from.inner, first + block_width);
                   for (int64_t i = 0; i < from.length; ++i) {
                     const T* const row = x + (outer * from.length + i) * from.inner;
                     for (int64_t c = first; c < last; ++c) {
                       const int64_t index = indices(outer, i, c);
                       if (index < 0 || index >= size) continue;
                       put(y[(outer * size + index) * from.inner + c], row[c]);
                     }
                   }
                 }
               });
}

template <class T>
void add(const kernels::Scatter& call) {
  scatter<T>(call, [](T& to, T value) { to += value; });
}

}  // namespace

void run(const kernels::Scatter& call) {
  if (call.mode == ScatterMode::assign) {
    return dispatch_size(call.y.dtype, [&](auto zero) {
      using T = decltype(zero);
      scatter<T>(call, [](T& to, T value) { to = value; });
    });
  }
  if (call.mode == ScatterMode::sum) run(kernels::Fill{.y = call.y, .value = 0});
  switch (call.y.dtype) {
    case DType::i32: return add<int32_t>(call);
    case DType::i64: return add<int64_t>(call);
    default: dispatch_float(call.y.dtype, call.name, [&](auto zero) { add<decltype(zero)>(call); });
  }
}

}  // namespace adret::cpu
