// A weight's gradient with few channels: blocks sum over bands of images in shared memory, and
// their sums are added up in a second launch, in the same order each time.
#include <adret/core/cuda/conv_direct.h>
#include <adret/core/cuda/conv_tiling.h>
#include <adret/core/cuda/launch.h>

#include <algorithm>

namespace adret::cuda {
namespace {

// A thread has one tap of one channel, and this many outputs.
constexpr int outputs_a_thread = 8;

struct Products {
  Band band;              // of x
  int oh, ow, o;          // of dy
  int channels, outputs;  // of a group
  int kh, kw;
  int bands, total_bands;    // of an image, of all
  int items, chunk, slices;  // taps x output vectors; of a block; threads that share out pixels
  int gradient_row;          // of a pixel of dy in shared memory

  __host__ __device__ int taps() const { return kh * kw * channels; }
};

// dy of rows first_row.. as (pixels, gradient_row), zero beyond the group's outputs.
template <class T>
__device__ void load_gradient(Accumulator<T>* tile, const T* dy, const Products& g, int n,
                              int first_row, int rows, int group) {
  const T* const own = dy + (int64_t(n) * g.oh + first_row) * g.ow * g.o + group * g.outputs;
  fill_shared(tile, rows * g.ow * g.gradient_row, [&](int i) -> Placed<Accumulator<T>> {
    const int pixel = i / g.gradient_row, output = i - pixel * g.gradient_row;
    const bool inside = output < g.outputs;
    return {inside ? widen(own[int64_t(pixel) * g.o + output]) : Accumulator<T>(0), i};
  });
}

// Block (part, chunk of the items, group): partial (parts, O, KH, KW, channels).
template <class T>
__global__ void sum_products(Products g, const T* x, const T* dy, Accumulator<T>* partial) {
  begin_kernel();
  using A = Accumulator<T>;
  constexpr int lanes = 16 / int(sizeof(A)), reads = outputs_a_thread / lanes;
  extern __shared__ __align__(16) unsigned char shared_bytes[];
  A* const gradient = reinterpret_cast<A*>(shared_bytes);
  A* const tile = gradient + g.band.rows * g.ow * g.gradient_row;

  const int taps = g.taps(), group = int(blockIdx.z);
  const int chunk = min(g.chunk, g.items - int(blockIdx.y) * g.chunk);
  const int slice = int(threadIdx.x) / g.chunk, within = int(threadIdx.x) - slice * g.chunk;
  const bool works = slice < g.slices && within < chunk;
  const int item = int(blockIdx.y) * g.chunk + (works ? within : 0);
  const int first = item / taps * outputs_a_thread, tap = item % taps;
  const int channel = tap % g.channels, position = tap / g.channels;
  const A* const corner = tile + channel * g.band.plane +
                          position / g.kw * g.band.dilation_h * g.band.tile_w +
                          position % g.kw * g.band.dilation_w;
  A sums[outputs_a_thread] = {};
  for (int b = int(blockIdx.x); b < g.total_bands; b += int(gridDim.x)) {
    const int n = b / g.bands, first_row = b % g.bands * g.band.rows;
    const int rows = min(g.band.rows, g.oh - first_row);
    load_band(tile, x, g.band, n, first_row, group * g.channels, g.channels);
    load_gradient(gradient, dy, g, n, first_row, rows, group);
    __syncthreads();
    for (int row = 0; row < rows && works; ++row) {
      const A* const values = corner + row * g.band.stride_h * g.band.tile_w;
      const A* const gradients = gradient + row * g.ow * g.gradient_row + first;
#pragma unroll 4
      for (int column = slice; column < g.ow; column += g.slices) {
        const A value = values[column * g.band.stride_w];
        const auto* const from =
            reinterpret_cast<const Vector<A, lanes>*>(gradients + column * g.gradient_row);
#pragma unroll
        for (int r = 0; r < reads; ++r) {
          const Vector<A, lanes> part = from[r];
#pragma unroll
          for (int j = 0; j < lanes; ++j) sums[r * lanes + j] += value * part.at[j];
        }
      }
    }
    __syncthreads();  // before the next band is loaded
  }

  // The slices' sums, output by output of a thread.
  A* const shared = reinterpret_cast<A*>(shared_bytes);
  const int stride = int(blockDim.x);
#pragma unroll
  for (int j = 0; j < outputs_a_thread; ++j) shared[j * stride + int(threadIdx.x)] = sums[j];
  __syncthreads();
  if (!works || slice > 0) return;
#pragma unroll
  for (int j = 0; j < outputs_a_thread; ++j) {
    if (first + j >= g.outputs) break;
    A sum = sums[j];
    for (int s = 1; s < g.slices; ++s) sum += shared[j * stride + s * g.chunk + within];
    const int64_t output = int64_t(group) * g.outputs + first + j;
    partial[(int64_t(blockIdx.x) * g.o + output) * taps + tap] = sum;
  }
}

struct Launch {
  Products products;
  Grid grid;
  bool fits;
};

constexpr size_t most_shared = 48 << 10;
constexpr int most_threads = 256;

Launch plan(const Context& context, const ConvProblem& p) {
  const size_t size = accumulator_bytes(p.dtype);
  Launch launch{};
  Products& g = launch.products;
  g.band = {.h = int(p.h),
            .w = int(p.w),
            .channels = int(p.c),
            .stride_h = int(p.stride_h),
            .stride_w = int(p.stride_w),
            .padding_h = int(p.padding_h),
            .padding_w = int(p.padding_w),
            .dilation_h = int(p.dilation_h),
            .dilation_w = int(p.dilation_w)};
  g.oh = int(p.oh);
  g.ow = int(p.ow);
  g.o = int(p.o);
  g.channels = int(p.channels());
  g.outputs = int(p.outputs());
  g.kh = int(p.kh);
  g.kw = int(p.kw);
  const int64_t output_vectors = divide_up(g.outputs, outputs_a_thread);
  const int64_t items = p.kh * p.kw * p.channels() * output_vectors;
  const int64_t most_items = 64 * most_threads;  // beyond, the images are read too often
  if (items == 0 || items > most_items || p.groups >= 65536) return launch;
  g.items = int(items);
  g.gradient_row = int(output_vectors) * outputs_a_thread;
  const int64_t chunks = divide_up(items, most_threads);
  g.chunk = int(divide_up(items, chunks));
  g.slices = std::clamp(most_threads / g.chunk, 1, g.ow);
  const int threads = int(divide_up(g.chunk * g.slices, 32)) * 32;

  // Two blocks for each multiprocessor, in bands as high as that allows.
  const int64_t wanted = std::max<int64_t>(1, 2 * context.multiprocessors() / (chunks * p.groups));
  const int64_t most = g.band.most_rows(
      p.ow, p.kh, p.kw, g.channels, int64_t(g.ow) * g.gradient_row, int64_t(most_shared / size));
  if (most < 1) return launch;
  const int64_t bands = std::clamp<int64_t>(wanted / p.n, 1, p.oh);
  const int64_t rows = std::min(divide_up(p.oh, bands), most);
  g.band.set_rows(int(rows), g.ow, g.kh, g.kw);
  g.bands = int(divide_up(p.oh, rows));
  const size_t gradients = size_t(rows) * size_t(g.ow) * size_t(g.gradient_row);
  const size_t bytes = std::max((g.band.elements(g.channels) + gradients) * size,
                                size_t(threads) * outputs_a_thread * size);
  if (p.n * g.bands >= int64_t(1) << 30) return launch;
  g.total_bands = int(p.n) * g.bands;
  launch.fits = true;
  launch.grid = {.blocks = dim3(unsigned(std::min<int64_t>(g.total_bands, wanted)),
                                unsigned(chunks), unsigned(p.groups)),
                 .threads = dim3(unsigned(threads)),
                 .shared_bytes = bytes};
  return launch;
}

}  // namespace

bool tiled_weight_can_run(const Context& context, const ConvProblem& problem) {
  return plan(context, problem).fits;
}

size_t tiled_weight_workspace(const Context& context, const ConvProblem& p) {
  const Launch launch = plan(context, p);
  return size_t(launch.grid.blocks.x) * size_t(p.o * p.kh * p.kw * p.channels()) *
         accumulator_bytes(p.dtype);
}

void run_tiled_weight(const Context& context, const ConvProblem& p, const ConvOperands& operands,
                      void* workspace) {
  const Launch l = plan(context, p);
  dispatch_float(p.dtype, "conv2d", [&](auto zero) {
    using T = decltype(zero);
    launch(context, sum_products<T>, l.grid, l.products, static_cast<const T*>(operands.x),
           static_cast<const T*>(operands.y), static_cast<Accumulator<T>*>(workspace));
  });
  column_sums_of_parts(context, p.dtype, workspace, operands.weight, l.grid.blocks.x,
                       p.o * p.kh * p.kw * p.channels());
}

}  // namespace adret::cuda
