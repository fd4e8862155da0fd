// Elements moved or added to the places that indices name, in the order they have in x.
#include <adret/core/cpu/dispatch.h>
#include <adret/core/cpu/index_places.h>
#include <adret/core/cpu/kernels.h>

#include <algorithm>

namespace adret::cpu {

using kernels::ScatterMode;

namespace {

// Columns that one thread takes: no two threads write to one place, whatever the indices are.
constexpr int64_t block_width = 32;

// put(y, x) for each element x and its place y.
template <class T, class Index, class F>
void scatter(const kernels::Scatter& call, const Index* indices, F put) {
  const Lines from(call.x.shape, call.dim);
  const bool alike = are_alike(call.indices);
  const int64_t size = call.y.shape[call.dim], inner = from.inner;
  const int64_t blocks = chunk_count(inner, block_width);
  const int64_t elements = from.length * std::min(inner, block_width);
  const auto put_one = [&](T* line, int64_t index, T value) {
    if (is_within(index, size)) put(line[index * inner], value);
  };
  parallel_for(from.outer * blocks, items_per_chunk(memory_grain, elements),
               [&](int64_t begin, int64_t end) {
                 for (int64_t item = begin; item < end; ++item) {
                   const int64_t outer = item / blocks, first = item % blocks * block_width;
                   const int64_t width = std::min(inner - first, block_width);
                   const T* x = call.x.as<T>() + outer * from.length * inner + first;
                   T* const y = call.y.as<T>() + outer * size * inner + first;
                   const Index* at = alike ? indices : indices + (x - call.x.as<T>());
                   if (inner == 1) {
                     each_block(at, from.length, size, [&](int64_t i, bool all_within) {
                       if (all_within || is_within(at[i], size)) put(y[at[i]], x[i]);
                     });
                     continue;
                   }
                   for (int64_t i = 0; i < from.length; ++i, x += inner) {
                     if (alike) {
                       const int64_t index = at[i];
                       if (!is_within(index, size)) continue;
                       T* const row = y + index * inner;
#pragma GCC ivdep
                       for (int64_t c = 0; c < width; ++c) put(row[c], x[c]);
                     } else {
                       for (int64_t c = 0; c < width; ++c) put_one(y + c, at[c], x[c]);
                       at += inner;
                     }
                   }
                 }
               });
}

template <class T>
void add(const kernels::Scatter& call) {
  with_indices(call.indices, [&](const auto* indices) {
    scatter<T>(call, indices, [](T& to, T value) { to += value; });
  });
}

}  // namespace

void run(const kernels::Scatter& call) {
  if (call.mode == ScatterMode::assign) {
    return dispatch_size(call.y.dtype, [&](auto zero) {
      using T = decltype(zero);
      with_indices(call.indices, [&](const auto* indices) {
        scatter<T>(call, indices, [](T& to, T value) { to = value; });
      });
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
