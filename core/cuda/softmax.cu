// Softmax and its logarithm: a line of the tensor belongs to a team, which reads it twice.
#include <adret/core/cuda/exp_sum.h>
#include <adret/core/cuda/implementation.h>
#include <adret/core/cuda/kernels.h>
#include <adret/core/cuda/launch.h>
#include <adret/core/cuda/team.h>

#include <algorithm>
#include <bit>

namespace adret::cuda {
namespace {

constexpr int64_t warp_length = 512;  // longer rows have a block each

// -- one line ------------------------------------------------------------------------------------

template <class T, int n>
__device__ void store(T* to, const Vector<T, n>& value) {
  *reinterpret_cast<Vector<T, n>*>(to) = value;
}

template <class T>
struct Forward {
  const T* x;
  T* y;
  bool log;

  // n elements at a time, which only lines of stride 1 have.
  template <int n, class Team>
  __device__ void run(int64_t at, Line line, const Team& team) const {
    using A = Accumulator<T>;
    using Values = const Vector<T, n>[1];
    const T* const from[] = {x + at};
    T* const to = y + at;
    ExpSum<A> sums;
    for_vectors<n>(from, line, team, [&](int64_t, Values& in) { sums.add(in[0]); });
    sums = team.reduce(sums);
    const A factor = log ? ::log(sums.sum) : A(1) / sums.sum;
    for_vectors<n>(from, line, team, [&](int64_t place, Values& in) {
      Vector<T, n> out;
#pragma unroll
      for (int k = 0; k < n; ++k) {
        const A value = widen<T>(in[0].at[k]) - sums.largest;
        out.at[k] = narrow<T>(log ? value - factor : exp(value) * factor);
      }
      store(to + place, out);
    });
  }
};

template <class T>
struct Backward {
  const T *y, *dy;
  T* dx;
  bool log;

  template <int n, class Team>
  __device__ void run(int64_t at, Line line, const Team& team) const {
    using A = Accumulator<T>;
    using Values = const Vector<T, n>[2];  // of y and dy
    const T* const from[] = {y + at, dy + at};
    T* const to = dx + at;
    Total<A> total;
    for_vectors<n>(from, line, team, [&](int64_t, Values& in) {
#pragma unroll
      for (int k = 0; k < n; ++k) {
        total.value += widen<T>(in[1].at[k]) * (log ? A(1) : widen<T>(in[0].at[k]));
      }
    });
    const A sum = team.reduce(total).value;
    for_vectors<n>(from, line, team, [&](int64_t place, Values& in) {
      Vector<T, n> out;
#pragma unroll
      for (int k = 0; k < n; ++k) {
        const A value = widen<T>(in[0].at[k]), gradient = widen<T>(in[1].at[k]);
        out.at[k] = narrow<T>(log ? gradient - exp(value) * sum : value * (gradient - sum));
      }
      store(to + place, out);
    });
  }
};

// -- all lines -----------------------------------------------------------------------------------

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
void run_rows(Context& context, const F& f, int64_t rows, int64_t length) {
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
void run_columns(Context& context, const F& f, int64_t count, Line line) {
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

template <class T, class F>
void run_lines(Context& context, const F& f, const Shape& shape, int dim, bool aligned) {
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

}  // namespace

void run(Context& context, const kernels::SoftmaxForward& call) {
  if (runs_on_cudnn(call)) return run_cudnn(context, call);
  dispatch_float(call.x.dtype, call.name, [&](auto zero) {
    using T = decltype(zero);
    run_lines<T>(context, Forward<T>{call.x.as<T>(), call.y.as<T>(), call.log}, call.x.shape,
                 call.dim, aligned_16(call.x.as<T>(), call.y.as<T>()));
  });
}

void run(Context& context, const kernels::SoftmaxBackward& call) {
  if (runs_on_cudnn(call)) return run_cudnn(context, call);
  dispatch_float(call.y.dtype, call.name, [&](auto zero) {
    using T = decltype(zero);
    run_lines<T>(context, Backward<T>{call.y.as<T>(), call.dy.as<T>(), call.dx.as<T>(), call.log},
                 call.y.shape, call.dim,
                 aligned_16(call.y.as<T>(), call.dy.as<T>(), call.dx.as<T>()));
  });
}

}  // namespace adret::cuda
