// Kernels that only move elements.
#include <adret/core/cpu/dispatch.h>
#include <adret/core/cpu/kernels.h>
#include <adret/core/cpu/loop_nest.h>

#include <algorithm>
#include <cstring>

namespace adret::cpu {
namespace {

// Chunks of whole items of `length` elements each.
int64_t items_per_chunk(int64_t length) {
  return std::max<int64_t>(1, memory_grain / std::max<int64_t>(1, length));
}

// Strides of x in the order of y's dimensions.
LoopNest<1> permuted_nest(const kernels::Permute& call) {
  std::array<int64_t, Shape::max_rank> x_strides{};
  int64_t stride = 1;
  for (int d = call.x.shape.rank() - 1; d >= 0; --d) {
    x_strides[size_t(d)] = stride;
    stride *= call.x.shape[d];
  }
  LoopNest<1> nest;
  for (int d = 0; d < call.y.shape.rank(); ++d) {
    nest.add(call.y.shape[d], {x_strides[size_t(call.order[size_t(d)])]});
  }
  return nest;
}

}  // namespace

void run(const kernels::Permute& call) {
  const LoopNest<1> nest = permuted_nest(call);
  const int64_t stride = nest.inner_strides()[0];
  dispatch_size(call.y.dtype, [&](auto zero) {
    using T = decltype(zero);
    const T* x = call.x.as<T>();
    T* y = call.y.as<T>();
    nest.parallel_runs(memory_grain, [&](int64_t first, const auto& offsets, int64_t length) {
      const T* from = x + offsets[0];
      if (stride == 1) {
        std::copy_n(from, length, y + first);
      } else {
        for (int64_t i = 0; i < length; ++i) y[first + i] = from[i * stride];
      }
    });
  });
}

void run(const kernels::CopyRuns& call) {
  const size_t size = size_of(call.y.dtype), bytes = size_t(call.length) * size;
  if (bytes == 0) return;
  const auto* x = call.x.as<std::byte>();
  auto* y = call.y.as<std::byte>();
  parallel_for(call.count, items_per_chunk(call.length), [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      std::memcpy(y + size_t(call.y_offset + i * call.y_stride) * size,
                  x + size_t(call.x_offset + i * call.x_stride) * size, bytes);
    }
  });
}

void run(const kernels::GatherRows& call) {
  const int64_t rows = call.indices.numel();
  if (call.y.numel() == 0) return;
  const int64_t length = call.y.numel() / rows;
  const size_t bytes = size_t(length) * size_of(call.y.dtype);
  const auto* x = call.x.as<std::byte>();
  const int64_t* indices = call.indices.as<int64_t>();
  auto* y = call.y.as<std::byte>();
  parallel_for(rows, items_per_chunk(length), [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      std::memcpy(y + size_t(i) * bytes, x + size_t(indices[i]) * bytes, bytes);
    }
  });
}

}  // namespace adret::cpu
