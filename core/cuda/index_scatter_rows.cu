// Sums of the elements of short rows by indices of their own: a warp has a row of y in shared
// memory and meets the row of x 32 elements at a time.
#include <adret/core/cuda/index_places.h>
#include <adret/core/cuda/index_scatter_rows.h>
#include <adret/core/cuda/index_sum.h>

#include <algorithm>

namespace adret::cuda {

using kernels::ScatterMode;

namespace {

constexpr int most_warps = 8;
constexpr int ahead = 4;  // elements of a lane in flight
constexpr int64_t shared_bytes = 48 << 10;

// Adds the values of the warp's lanes to sums[index], those of one index in the order of the lanes.
// The lowest of such lanes adds for all. Lanes without an element have negative indices of their
// own.
template <class Sum>
__device__ void add_in_order(Sum* sums, int index, Sum value) {
  const int lane = int(threadIdx.x) % 32;
  constexpr unsigned all = ~0u;
  const unsigned alike = __match_any_sync(all, index);
  unsigned others = alike & (alike - 1);
  const bool is_lowest = index >= 0 && __ffs(int(alike)) - 1 == lane;
  const int most = __reduce_max_sync(all, unsigned(__popc(alike)));
  Sum sum = is_lowest ? sums[index] + value : Sum(0);
  for (int i = 1; i < most; ++i) {
    const int from = others ? __ffs(int(others)) - 1 : lane;
    const Sum other = __shfl_sync(all, value, from);
    if (others) sum += other;
    others &= others - 1;
  }
  if (is_lowest) sums[index] = sum;
  __syncwarp();
}

// Those of a lane, 32 apart; their indices as they are, -1 behind the last element.
template <class Sum>
struct Elements {
  int64_t index[ahead];
  Sum value[ahead];

  template <class T>
  __device__ void load(const T* x, const Indices& indices, int64_t begin, int first, int sources) {
#pragma unroll
    for (int k = 0; k < ahead; ++k) {
      const int i = first + 32 * k + int(threadIdx.x) % 32;
      index[k] = i < sources ? indices[begin + i] : -1;
      value[k] = i < sources ? wide_of<T>(x[begin + i]) : Sum(0);
    }
  }
};

template <class T>
__global__ void __launch_bounds__(32 * most_warps)
    sum_short_rows(const T* x, const __grid_constant__ Indices indices, T* y, int64_t rows,
                   int sources, int size, bool adds) {
  begin_kernel();
  using Sum = Computed<T>;
  extern __shared__ __align__(16) unsigned char memory[];
  const int lane = int(threadIdx.x) % 32, warp = int(threadIdx.x) / 32;
  const int warps = int(blockDim.x) / 32;
  Sum* const sums = reinterpret_cast<Sum*>(memory) + int64_t(warp) * size;
  for (int64_t row = int64_t(blockIdx.x) * warps + warp; row < rows;
       row += int64_t(gridDim.x) * warps) {
    T* const to = y + row * size;
    const int64_t begin = row * sources;
    // The next elements are on their way while those before them, or the row of y, are waited for.
    Elements<Sum> next;
    next.load(x, indices, begin, 0, sources);
#pragma unroll 4
    for (int i = lane; i < size; i += 32) sums[i] = adds ? wide_of<T>(to[i]) : Sum(0);
    __syncwarp();
    for (int first = 0; first < sources; first += 32 * ahead) {
      const Elements<Sum> own = next;
      next.load(x, indices, begin, first + 32 * ahead, sources);
#pragma unroll
      for (int k = 0; k < ahead; ++k) {
        if (first + 32 * k >= sources) break;
        const bool exists = own.index[k] >= 0 && own.index[k] < size;
        add_in_order(sums, exists ? int(own.index[k]) : -1 - lane, own.value[k]);
      }
    }
    for (int i = lane; i < size; i += 32) to[i] = narrow_of<T>(sums[i]);
    __syncwarp();
  }
}

template <class T>
void scatter_rows_in(Context& context, const kernels::Scatter& call) {
  const int64_t size = call.y.shape[-1], rows = call.y.numel() / size;
  const int64_t row_bytes = size * int64_t(sizeof(Computed<T>));
  const int64_t warps = std::clamp<int64_t>(shared_bytes / row_bytes, 1, most_warps);
  const int64_t blocks = std::min<int64_t>(divide_up(rows, warps), context.multiprocessors() * 16);
  launch(context, sum_short_rows<T>,
         {.blocks = dim3(unsigned(blocks)),
          .threads = unsigned(32 * warps),
          .shared_bytes = size_t(warps * row_bytes)},
         call.x.as<const T>(), indices_of(call.indices), call.y.as<T>(), rows,
         int(call.x.shape[-1]), int(size), call.mode == ScatterMode::add);
}

}  // namespace

bool can_scatter_rows(const kernels::Scatter& call) {
  if (call.mode == ScatterMode::assign || call.indices.shape.rank() < 2 ||
      call.dim != call.x.shape.rank() - 1) {
    return false;
  }
  constexpr int64_t widest = 8;  // bytes of a sum
  const int64_t size = call.y.shape[-1], rows = call.y.numel() / size;
  // A row is a warp's alone: with few of them it had better be short.
  return size * widest <= shared_bytes && call.x.shape[-1] <= std::max<int64_t>(1024, 8 * rows);
}

void scatter_rows(Context& context, const kernels::Scatter& call) {
  switch (call.y.dtype) {
    case DType::i32: return scatter_rows_in<int32_t>(context, call);
    case DType::i64: return scatter_rows_in<int64_t>(context, call);
    default:
      dispatch_float(call.y.dtype, call.name,
                     [&](auto zero) { scatter_rows_in<decltype(zero)>(context, call); });
  }
}

}  // namespace adret::cuda
