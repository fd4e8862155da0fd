// Lines of up to 1024 elements put in order, each in the registers of a warp.
#include <adret/core/cuda/index_places.h>
#include <adret/core/cuda/index_sort_lines.h>
#include <adret/core/cuda/launch.h>

#include <limits>
#include <type_traits>

namespace adret::cuda {
namespace {

// Note [Sorting lines in registers]
// A word has an element's key, an integer in the order of the values, above its place in the line:
// no two words are equal, so that any sorting is stable. Lane l of a warp has the words
// l * each ... of `each` in each lane, and Batcher's bitonic network (1968) orders them: what is
// further apart than a lane's words is exchanged by shuffles. It merges halves in ascending order,
// the second one read from its end, so that no step has a direction of its own.

constexpr int64_t longest = 1024;
constexpr int warps = 4;  // of a block

// How keys come from the bits of a dtype: NaN is the largest, and 0 equals -0.
template <class Bits>
struct LineKeys {
  bool is_float, is_signed, descending;
  Bits infinity;

  // In 16 bits, or 32.
  __device__ uint32_t operator()(Bits bits) const {
    constexpr Bits sign = Bits(1) << (8 * sizeof(Bits) - 1);
    constexpr uint32_t all = sizeof(Bits) == 4 ? ~0u : 0xffffu;
    uint32_t key = bits;
    if (is_float) {
      const auto size = Bits(bits & Bits(~sign));
      if (size == 0) bits = 0;
      key = size > infinity ? all : (bits & sign ? Bits(~bits) : Bits(bits | sign));
    } else if (is_signed) {
      key = Bits(bits ^ sign);
    }
    return descending ? ~key & all : key;
  }
};

template <class W>
__device__ void keep(W& own, W other, bool smaller) {
  own = (other < own) == smaller ? other : own;
}

// Orders two words.
template <class W>
__device__ void order(W& low, W& high) {
  const W a = low, b = high;
  low = a < b ? a : b;
  high = a < b ? b : a;
}

// Orders runs of 2 * distance words that the network has brought so far.
template <int distance, int each, class W>
__device__ void merge(W (&words)[each]) {
  if constexpr (distance >= each) {
    constexpr int lanes = distance / each;
    const bool is_low = !(threadIdx.x & lanes);
#pragma unroll
    for (int i = 0; i < each; ++i) {
      keep(words[i], __shfl_xor_sync(~0u, words[i], lanes), is_low);
    }
  } else {
#pragma unroll
    for (int i = 0; i < each; ++i) {
      if (!(i & distance)) order(words[i], words[i + distance]);
    }
  }
  if constexpr (distance > 1) merge<distance / 2>(words);
}

// Orders runs of `size` words.
template <int size, int each, class W>
__device__ void sort_runs(W (&words)[each]) {
  if constexpr (size > 2) sort_runs<size / 2>(words);
  if constexpr (size > each) {
    constexpr int lanes = size / each;
    const bool is_low = !(threadIdx.x & (lanes / 2));
    W others[each];
#pragma unroll
    for (int i = 0; i < each; ++i) {
      others[i] = __shfl_xor_sync(~0u, words[each - 1 - i], lanes - 1);
    }
#pragma unroll
    for (int i = 0; i < each; ++i) keep(words[i], others[i], is_low);
  } else {
#pragma unroll
    for (int i = 0; i < each; ++i) {
      if (!(i & (size / 2))) order(words[i], words[i ^ (size - 1)]);
    }
  }
  if constexpr (size > 2) merge<size / 4>(words);
}

// x is (outer, length, inner), y and indices (outer, kept, inner).
template <class Bits>
struct LineSort {
  const Bits* x;
  Bits* y;
  int64_t* indices;
  int64_t lines, inner;
  int length, kept;
  LineKeys<Bits> key;
};

template <class Bits, int each>
__global__ void __launch_bounds__(32 * warps) sort_short_lines(const LineSort<Bits> sort) {
  begin_kernel();
  using Word = std::conditional_t<sizeof(Bits) == 4, unsigned long long, unsigned>;
  constexpr int place_bits = 4 * int(sizeof(Word));
  // A word after every 32: lanes that are `each` apart meet in no bank.
  __shared__ Word shared[warps][33 * each];
  const int lane = int(threadIdx.x) % 32, warp = int(threadIdx.x) / 32;
  Word* const own = shared[warp];
  for (int64_t line = int64_t(blockIdx.x) * warps + warp; line < sort.lines;
       line += int64_t(gridDim.x) * warps) {
    const int64_t outer = line / sort.inner, column = line - outer * sort.inner;
    const Bits* const from = sort.x + outer * sort.length * sort.inner + column;
    const int64_t to = outer * sort.kept * sort.inner + column;
    Word words[each];
#pragma unroll
    for (int i = 0; i < each; ++i) {
      const int place = lane + 32 * i;
      words[i] = place < sort.length
                     ? Word(sort.key(from[place * sort.inner])) << place_bits | unsigned(place)
                     : std::numeric_limits<Word>::max();
    }
    sort_runs<32 * each>(words);
    __syncwarp();  // the last line's words are read
#pragma unroll
    for (int i = 0; i < each; ++i) {
      const int rank = lane * each + i;
      own[rank + rank / 32] = words[i];
    }
    __syncwarp();
#pragma unroll
    for (int i = 0; i < each; ++i) {
      const int rank = lane + 32 * i;
      if (rank < sort.kept) {
        const auto place = int(own[rank + i] & ((Word(1) << place_bits) - 1));
        sort.y[to + rank * sort.inner] = from[place * sort.inner];
        if (sort.indices) sort.indices[to + rank * sort.inner] = place;
      }
    }
  }
}

template <class Bits>
void sort_in(const Context& context, const kernels::Sort& call) {
  const int64_t length = call.x.shape[call.dim], lines = call.x.numel() / length;
  const DType dtype = call.x.dtype;
  const uint32_t infinity = dtype == DType::f32    ? 0x7f800000u
                            : dtype == DType::bf16 ? 0x7f80u
                                                   : 0x7c00u;
  const LineSort<Bits> sort{
      static_cast<const Bits*>(call.x.data),
      static_cast<Bits*>(call.y.data),
      static_cast<int64_t*>(call.indices.data),
      lines,
      inner_size(call.x.shape, call.dim),
      int(length),
      int(call.y.shape[call.dim]),
      {is_floating(dtype), dtype == DType::i32, call.descending, Bits(infinity)}};
  const int64_t blocks =
      std::min<int64_t>(divide_up(lines, warps), int64_t(context.multiprocessors()) * 64);
  const Grid grid{.blocks = dim3(unsigned(blocks)), .threads = 32 * warps};
  const auto with = [&](auto each) {
    launch(context, sort_short_lines<Bits, decltype(each)::value>, grid, sort);
  };
  if (length <= 32) return with(std::integral_constant<int, 1>{});
  if (length <= 64) return with(std::integral_constant<int, 2>{});
  if (length <= 128) return with(std::integral_constant<int, 4>{});
  if (length <= 256) return with(std::integral_constant<int, 8>{});
  if (length <= 512) return with(std::integral_constant<int, 16>{});
  with(std::integral_constant<int, 32>{});
}

}  // namespace

bool can_sort_lines(const kernels::Sort& call) {
  return call.x.shape[call.dim] <= longest && size_of(call.x.dtype) <= 4;
}

void sort_lines(const Context& context, const kernels::Sort& call) {
  switch (size_of(call.x.dtype)) {
    case 1: return sort_in<uint8_t>(context, call);
    case 2: return sort_in<uint16_t>(context, call);
    default: return sort_in<uint32_t>(context, call);
  }
}

}  // namespace adret::cuda
