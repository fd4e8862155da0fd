// Permutations between a few lines and blocks of one element from each: what pixel_shuffle and its
// gradient are.
#include <adret/core/cuda/index_strided.h>
#include <adret/core/cuda/launch.h>

namespace adret::cuda {
namespace {

constexpr int most_lines = 16;

// Element c of line k is element c * lines + k of the blocks, which lie side by side.
struct Blocks {
  NestOffsets<2> places;     // of pieces of 16 bytes of all lines: in the first line, in the blocks
  int64_t line[most_lines];  // where each line begins, from the first
  uint32_t pieces;
};

// A thread turns as many pieces as there are lines around in registers, so that both sides move 16
// bytes at once.
template <class T, int lines, bool gathers>
__global__ void turn_blocks(const T* x, T* y, const __grid_constant__ Blocks blocks) {
  begin_kernel();
  constexpr int n = 16 / int(sizeof(T));
  using Piece = Vector<T, n>;
  for (uint32_t i = uint32_t(first_item()); i < blocks.pieces; i += uint32_t(all_threads())) {
    const auto place = blocks.places(i);
    Piece from[lines];
#pragma unroll
    for (int k = 0; k < lines; ++k) {
      const int64_t at = gathers ? place.at[0] + blocks.line[k] : place.at[1] + k * n;
      from[k] = *reinterpret_cast<const Piece*>(x + at);
    }
#pragma unroll
    for (int k = 0; k < lines; ++k) {
      Piece to;
#pragma unroll
      for (int c = 0; c < n; ++c) {
        const int in_blocks = gathers ? k * n + c : c * lines + k;
        to.at[c] = gathers ? from[in_blocks % lines].at[in_blocks / lines]
                           : from[in_blocks / n].at[in_blocks % n];
      }
      const int64_t at = gathers ? place.at[1] + k * n : place.at[0] + blocks.line[k];
      *reinterpret_cast<Piece*>(y + at) = to;
    }
  }
}

// f gets the number as a constant, if there is a kernel for it.
template <class F>
bool with_lines(int64_t lines, F f) {
  switch (lines) {
    case 2: return f(std::integral_constant<int, 2>{}), true;
    case 3: return f(std::integral_constant<int, 3>{}), true;
    case 4: return f(std::integral_constant<int, 4>{}), true;
    case 8: return f(std::integral_constant<int, 8>{}), true;
    case 9: return f(std::integral_constant<int, 9>{}), true;
    case 16: return f(std::integral_constant<int, 16>{}), true;
    default: return false;
  }
}

struct Dimension {
  int64_t size, in_lines, in_blocks;  // strides
};

// `gathers`: x has the lines. Says no, and does nothing, if that is not how x and y lie.
template <bool gathers>
bool permute(const Context& context, const LoopNest<1>& nest, const TensorView& x,
             const TensorView& y) {
  const int64_t n = 16 / int64_t(size_of(y.dtype));
  std::array<Dimension, Shape::max_rank> dimensions;
  const int rank = nest.rank();
  int along = 0;
  int64_t stride = 1;
  for (int d = rank - 1; d >= 0; --d) {
    const int64_t of_x = nest.stride(d, 0);
    dimensions[size_t(d)] =
        gathers ? Dimension{nest.size(d), of_x, stride} : Dimension{nest.size(d), stride, of_x};
    if (dimensions[size_t(d)].in_lines == 1) along = d;
    stride *= nest.size(d);
  }
  const auto [length, one, lines] = dimensions[size_t(along)];
  if (lines > most_lines || length % n != 0 || nest.total() / lines > INT32_MAX) return false;

  Blocks blocks{.line = {}, .pieces = uint32_t(nest.total() / (lines * n))};
  LoopNest<2> places;
  for (int d = 0; d < rank; ++d) {
    const auto [size, in_lines, in_blocks] = dimensions[size_t(d)];
    if (d == along) continue;
    if (in_blocks > lines) {
      places.add(size, {in_lines, in_blocks});
      continue;
    }
    for (int64_t k = 0; k < lines; ++k) blocks.line[k] += k / in_blocks % size * in_lines;
  }
  places.add(length / n, {n, n * lines});
  blocks.places = places.offsets();
  return with_lines(lines, [&](auto constant) {
    const auto launch_for = [&](auto zero) {
      using T = decltype(zero);
      launch(context, turn_blocks<T, decltype(constant)::value, gathers>,
             grid_for(context, blocks.pieces), x.as<const T>(), y.as<T>(), blocks);
    };
    size_of(y.dtype) == 2 ? launch_for(uint16_t{}) : launch_for(uint32_t{});
  });
}

}  // namespace

bool permute_blocks(const Context& context, const LoopNest<1>& nest, const TensorView& x,
                    const TensorView& y) {
  const size_t size = size_of(y.dtype);
  if ((size != 2 && size != 4) || !aligned_16(x.data, y.data)) return false;
  return permute<false>(context, nest, x, y) || permute<true>(context, nest, x, y);
}

}  // namespace adret::cuda
