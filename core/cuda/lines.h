// The lines of a tensor along one dimension, each run by a team of threads.
#pragma once

#include <adret/core/cuda/launch.h>
#include <adret/core/cuda/team.h>
#include <adret/core/shape.h>

#include <algorithm>
#include <bit>

namespace adret::cuda {

// What runs is f.run<n>(at, line, team): the line whose first element is at place `at`, n elements
// at a time. Threads without a line get one of length 0, so that teams stay together.

inline constexpr int64_t warp_length = 512;  // longer rows have a block each

// Each `lanes` neighbours of a warp take a row. A warp stays together: for a row beyond the last,
// lanes reduce nothing.
template <int n, class F>
__global__ void rows_by_lanes(F f, int64_t rows, int64_t length, int lanes) {
  begin_kernel();
  const Lanes team(lanes);
  const int64_t teams = all_threads() / lanes, own = first_item() / lanes;
  const int64_t before = first_item() % 32 / lanes;  // teams of the warp before this one
  for (int64_t first = own - before; first < rows; first += teams) {
    const int64_t row = first + before;
    const bool exists = row < rows;
    f.template run<n>(exists ? row * length : 0, Line{exists ? length : 0, 1}, team);
  }
}

template <int n, class F>
__global__ void __launch_bounds__(512) rows_by_block(F f, int64_t rows, int64_t length) {
  begin_kernel();
  for (int64_t row = blockIdx.x; row < rows; row += gridDim.x) {
    f.template run<n>(row * length, Line{length, 1}, Block());
  }
}

// (outer, length, inner) along `length`: a block takes blockDim.x neighbouring columns.
template <class F>
__global__ void __launch_bounds__(1024) columns(F f, int64_t count, Line line) {
  begin_kernel();
  const int64_t step = int64_t(gridDim.x) * blockDim.x;
  for (int64_t first = int64_t(blockIdx.x) * blockDim.x; first < count; first += step) {
    const int64_t column = first + threadIdx.x;
    const bool exists = column < count;
    const int64_t outer = column / line.stride, inner = column - outer * line.stride;
    f.template run<1>(exists ? outer * line.length * line.stride + inner : 0,
                      Line{exists ? line.length : 0, line.stride}, Column());
  }
}

template <int n, class F>
void run_rows(const Context& context, const F& f, int64_t rows, int64_t length) {
  const int64_t vectors = length / n;
  if (length <= warp_length) {
    const int lanes = int(std::min<uint64_t>(32, std::bit_ceil(uint64_t(vectors))));
    launch(context, rows_by_lanes<n, F>, grid_for(context, rows * lanes, 128), f, rows, length,
           lanes);
    return;
  }
  const unsigned threads = vectors <= 1024 ? 128 : vectors <= 4096 ? 256 : 512;
  const int64_t blocks = std::min<int64_t>(rows, int64_t(context.multiprocessors()) * 64);
  launch(context, rows_by_block<n, F>, {.blocks = unsigned(blocks), .threads = threads}, f, rows,
         length);
}

template <class F>
void run_columns(const Context& context, const F& f, int64_t count, Line line) {
  // Neighbours for coalesced reads first; then more threads a column, if it is long.
  int64_t width = std::min<uint64_t>(256, std::bit_ceil(uint64_t(count))), height = 1;
  while (width > 32 && divide_up(count, width) < context.multiprocessors()) width /= 2;
  while (width * height < 256 && height * 4 <= line.length) height *= 2;
  while (width * height < 1024 && height * 64 <= line.length) height *= 2;
  const int64_t most = int64_t(context.multiprocessors()) * 64;
  launch(context, columns<F>,
         {.blocks = unsigned(std::min(divide_up(count, width), most)),
          .threads = dim3(unsigned(width), unsigned(height))},
         f, count, line);
}

// The lines of a tensor of T along `dim`; `aligned`: rows may be read as vectors when their length
// allows.
template <class T, class F>
void run_lines(const Context& context, const F& f, const Shape& shape, int dim, bool aligned) {
  const int64_t length = shape[dim];
  int64_t inner = 1;
  for (int d = dim + 1; d < shape.rank(); ++d) inner *= shape[d];
  const int64_t lines = shape.numel() / std::max<int64_t>(1, length);
  if (lines == 0 || length == 0) return;
  constexpr int n = 16 / int(sizeof(T));
  if (inner > 1) {
    run_columns(context, f, lines, {length, inner});
  } else if (aligned && length % n == 0) {
    run_rows<n>(context, f, lines, length);
  } else {
    run_rows<1>(context, f, lines, length);
  }
}

}  // namespace adret::cuda
