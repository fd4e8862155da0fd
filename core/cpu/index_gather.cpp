// Elements taken from the places that indices name.
#include <adret/core/cpu/dispatch.h>
#include <adret/core/cpu/index_places.h>
#include <adret/core/cpu/kernels.h>

#include <algorithm>
#include <cstring>

namespace adret::cpu {
namespace {

// What an element is whose index lies outside the dimension: NaN, or 0 of no float.
int absent_byte(DType dtype) { return is_floating(dtype) ? 0xFF : 0; }

// Runs of `inner` elements that share an index.
void gather_rows(const kernels::Gather& call, const Lines& to, const Indices& indices) {
  const int64_t size = call.x.shape[call.dim];
  const size_t bytes = size_t(to.inner) * size_of(call.y.dtype);
  const auto* x = call.x.as<std::byte>();
  auto* y = call.y.as<std::byte>();
  parallel_for(to.outer * to.length, items_per_chunk(memory_grain, to.inner),
               [&](int64_t begin, int64_t end) {
                 for (int64_t row = begin; row < end; ++row) {
                   const int64_t outer = row / to.length;
                   const int64_t index = indices(outer, row % to.length, 0);
                   std::byte* const out = y + size_t(row) * bytes;
                   if (index < 0 || index >= size) {
                     std::memset(out, absent_byte(call.y.dtype), bytes);
                   } else {
                     std::memcpy(out, x + size_t(outer * size + index) * bytes, bytes);
                   }
                 }
               });
}

template <class T>
void gather_elements(const kernels::Gather& call, const Lines& to, const Indices& indices) {
  const int64_t size = call.x.shape[call.dim];
  const T* x = call.x.as<T>();
  T* y = call.y.as<T>();
  T absent;
  std::memset(&absent, absent_byte(call.y.dtype), sizeof(T));
  parallel_for(to.outer * to.length, items_per_chunk(memory_grain, to.inner),
               [&](int64_t begin, int64_t end) {
                 for (int64_t row = begin; row < end; ++row) {
                   const int64_t outer = row / to.length;
                   for (int64_t c = 0; c < to.inner; ++c) {
                     const int64_t index = indices(outer, row % to.length, c);
                     const bool exists = index >= 0 && index < size;
                     y[row * to.inner + c] =
                         exists ? x[(outer * size + index) * to.inner + c] : absent;
                   }
                 }
               });
}

}  // namespace

void run(const kernels::Gather& call) {
  if (call.y.numel() == 0) return;
  const Lines to(call.y.shape, call.dim);
  const Indices indices(call.indices, to);
  if (indices.alike()) return gather_rows(call, to, indices);
  dispatch_size(call.y.dtype,
                [&](auto zero) { gather_elements<decltype(zero)>(call, to, indices); });
}

}  // namespace adret::cpu
