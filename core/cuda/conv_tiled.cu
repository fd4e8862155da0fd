// Convolution of few channels: each block has the weights and a band of an image in shared memory,
// so that a small problem is two round trips to memory and little else. Gradients of inputs are the
// same with turned weights, for stride 1.
#include <adret/core/cuda/conv_direct.h>
#include <adret/core/cuda/conv_own.h>
#include <adret/core/cuda/conv_tiling.h>
#include <adret/core/cuda/launch.h>

#include <algorithm>

namespace adret::cuda {
namespace {

// Outputs of one thread; weights in shared memory have rows of `chunk` outputs and some to spare,
// so that turning them meets few bank conflicts.
constexpr int outputs_a_thread = 4, spare = 4;

// Result (n, rh, rw) pixels of `results` channels a group, from a source of `sources` channels a
// group: y from x, or dx from dy. A block has `rows` rows of one image and `chunk` outputs.
struct Gather {
  Band band;
  int rh, rw;
  int sources, results, groups;
  int kh, kw;
  int chunk, weight_row, bands;
};

// The weights of the block's outputs from `first` on: row (kh * KW + kw) * sources + source.
template <class T, bool backward>
__device__ void load_weights(Accumulator<T>* shared, const T* weight, const Gather& g, int group,
                             int first) {
  using A = Accumulator<T>;
  const int taps = g.kh * g.kw, filter = taps * g.sources;
  const int chunk = min(g.chunk, g.results - first);
  if (backward) {  // weight (sources, taps, results) of the group
    const T* const own = weight + int64_t(group) * g.sources * taps * g.results + first;
    fill_shared(shared, filter * chunk, [&](int i) -> Placed<A> {
      const int result = i % chunk, tap = i / chunk % taps, source = i / chunk / taps;
      return {widen(own[(source * taps + tap) * g.results + result]),
              ((taps - 1 - tap) * g.sources + source) * g.weight_row + result};
    });
  } else {  // weight (results, taps, sources)
    const T* const own = weight + (int64_t(group) * g.results + first) * filter;
    fill_shared(shared, filter * chunk, [&](int i) -> Placed<A> {
      const int result = i / filter, tap = i - result * filter;
      return {widen(own[i]), tap * g.weight_row + result};
    });
  }
  const int columns = g.weight_row - chunk;  // what the last thread reads beyond must be a number
  for (int i = int(threadIdx.x); i < filter * columns; i += int(blockDim.x)) {
    shared[i / columns * g.weight_row + chunk + i % columns] = A(0);
  }
}

// KW: the kernel's width when it is known, else 0.
template <class T, bool backward, int KW>
__global__ void gather(Gather g, const T* source, const T* weight, const T* bias, bool relu,
                       T* result) {
  begin_kernel();
  using A = Accumulator<T>;
  constexpr int lanes = 16 / int(sizeof(A)), reads = outputs_a_thread / lanes;
  extern __shared__ __align__(16) unsigned char shared_bytes[];
  A* const weights = reinterpret_cast<A*>(shared_bytes);
  A* const tile = weights + g.kh * g.kw * g.sources * g.weight_row;

  const int n = int(blockIdx.x) / g.bands, first_row = int(blockIdx.x) % g.bands * g.band.rows;
  const int first = int(blockIdx.y) * g.chunk, group = int(blockIdx.z);
  load_weights<T, backward>(weights, weight, g, group, first);
  load_band(tile, source, g.band, n, first_row, group * g.sources, g.sources);
  __syncthreads();

  const int rows = min(g.band.rows, g.rh - first_row), chunk = min(g.chunk, g.results - first);
  const int threads_a_pixel = (chunk + outputs_a_thread - 1) / outputs_a_thread;
  const int kernel_width = KW ? KW : g.kw;
  for (int i = int(threadIdx.x); i < rows * g.rw * threads_a_pixel; i += int(blockDim.x)) {
    const int own = i % threads_a_pixel * outputs_a_thread, pixel = i / threads_a_pixel;
    const int y = pixel / g.rw, x = pixel - y * g.rw;
    const A* const corner = tile + y * g.band.stride_h * g.band.tile_w + x * g.band.stride_w;
    A sums[outputs_a_thread] = {};
    for (int kh = 0; kh < g.kh; ++kh) {
      for (int s = 0; s < g.sources; ++s) {
        const A* const from = corner + s * g.band.plane + kh * g.band.dilation_h * g.band.tile_w;
        const A* const taps = weights + (kh * kernel_width * g.sources + s) * g.weight_row + own;
#pragma unroll
        for (int kw = 0; kw < kernel_width; ++kw) {
          const A value = from[kw * g.band.dilation_w];
          const auto* const tap =
              reinterpret_cast<const Vector<A, lanes>*>(taps + kw * g.sources * g.weight_row);
#pragma unroll
          for (int r = 0; r < reads; ++r) {
            const Vector<A, lanes> part = tap[r];
#pragma unroll
            for (int j = 0; j < lanes; ++j) sums[r * lanes + j] += value * part.at[j];
          }
        }
      }
    }
    const int channel = group * g.results + first + own;
    T* const to = result +
                  ((int64_t(n) * g.rh + first_row + y) * g.rw + x) * (g.groups * g.results) +
                  channel;
#pragma unroll
    for (int j = 0; j < outputs_a_thread; ++j) {
      if (own + j >= chunk) break;
      A sum = sums[j];
      if (bias) sum += widen(bias[channel + j]);
      to[j] = narrow<T>(relu && sum < 0 ? A(0) : sum);  // NaN stays
    }
  }
}

struct Launch {
  Gather gather;
  Grid grid;
  bool fits;
};

constexpr size_t most_shared = 48 << 10;

Launch plan(const Context& context, const ConvProblem& p) {
  const bool backward = p.direction == ConvDirection::backward_input;
  const size_t size = accumulator_bytes(p.dtype);
  Gather g{};
  g.kh = int(p.kh);
  g.kw = int(p.kw);
  g.groups = int(p.groups);
  g.sources = int(backward ? p.outputs() : p.channels());
  g.results = int(backward ? p.channels() : p.outputs());
  g.rh = int(backward ? p.h : p.oh);
  g.rw = int(backward ? p.w : p.ow);
  g.band.h = int(backward ? p.oh : p.h);
  g.band.w = int(backward ? p.ow : p.w);
  g.band.channels = int(backward ? p.o : p.c);
  g.band.stride_h = int(p.stride_h);
  g.band.stride_w = int(p.stride_w);
  g.band.dilation_h = int(p.dilation_h);
  g.band.dilation_w = int(p.dilation_w);
  // Turned weights read from the far side: dx[i] = sum of dy[i + padding - k * dilation] w[k].
  g.band.padding_h = int(backward ? (p.kh - 1) * p.dilation_h - p.padding_h : p.padding_h);
  g.band.padding_w = int(backward ? (p.kw - 1) * p.dilation_w - p.padding_w : p.padding_w);

  // Half of the shared memory for the weights at most.
  const int64_t taps = p.kh * p.kw * g.sources;
  const int64_t most_row = int64_t(most_shared / 2 / size) / std::max<int64_t>(taps, 1);
  const int64_t all = divide_up(g.results, outputs_a_thread) * outputs_a_thread;
  g.chunk = int(std::min<int64_t>(all, (most_row - spare) / outputs_a_thread * outputs_a_thread));
  Launch launch{.gather = g, .grid = {}, .fits = false};
  if (g.chunk < outputs_a_thread || taps == 0) return launch;
  g.weight_row = g.chunk + spare;

  const size_t weight_bytes = size_t(taps) * size_t(g.weight_row) * size;
  const int64_t threads_a_pixel = divide_up(std::min(g.chunk, g.results), outputs_a_thread);
  const int64_t items_a_row = g.rw * threads_a_pixel;
  const int64_t row_blocks = p.n * divide_up(g.results, g.chunk) * g.groups;  // of bands of one row
  // Enough for the threads of a block, and more while there are blocks for the whole device.
  const int64_t enough = divide_up(128, items_a_row);
  const int64_t most_useful =
      std::min(divide_up(1024, items_a_row), g.rh * row_blocks / (8 * context.multiprocessors()));
  const int64_t most = g.band.most_rows(g.rw, g.kh, g.kw, g.sources, 0,
                                        int64_t((most_shared - weight_bytes) / size));
  if (most < 1) return launch;
  const int64_t rows = std::min({std::max(enough, most_useful), most, int64_t(g.rh)});
  g.band.set_rows(int(rows), g.rw, g.kh, g.kw);
  g.bands = int(divide_up(g.rh, rows));
  const int64_t threads = std::clamp<int64_t>(divide_up(rows * items_a_row, 32) * 32, 64, 256);
  launch.gather = g;
  launch.grid = {.blocks = dim3(unsigned(p.n * g.bands), unsigned(divide_up(g.results, g.chunk)),
                                unsigned(g.groups)),
                 .threads = dim3(unsigned(threads)),
                 .shared_bytes = weight_bytes + g.band.elements(g.sources) * size};
  launch.fits =
      p.n * g.bands < int64_t(1) << 31 && launch.grid.blocks.y < 65536 && g.groups < 65536;
  return launch;
}

template <class T, bool backward>
void run_in(const Context& context, const Launch& l, const T* source, const T* weight,
            const T* bias, bool relu, T* result) {
  const auto run = [&](auto kernel) {
    launch(context, kernel, l.grid, l.gather, source, weight, bias, relu, result);
  };
  switch (l.gather.kw) {
    case 3: return run(gather<T, backward, 3>);
    case 5: return run(gather<T, backward, 5>);
    default: return run(gather<T, backward, 0>);
  }
}

}  // namespace

bool tiled_can_run(const Context& context, const ConvProblem& p) {
  if (p.direction == ConvDirection::backward_weight) return tiled_weight_can_run(context, p);
  if (p.direction == ConvDirection::backward_input && (p.stride_h != 1 || p.stride_w != 1)) {
    return false;
  }
  return plan(context, p).fits;
}

size_t tiled_workspace(const Context& context, const ConvProblem& p) {
  return p.direction == ConvDirection::backward_weight ? tiled_weight_workspace(context, p) : 0;
}

void run_tiled(const Context& context, const ConvProblem& p, const ConvOperands& operands,
               void* workspace) {
  if (p.direction == ConvDirection::backward_weight) {
    return run_tiled_weight(context, p, operands, workspace);
  }
  const Launch launch = plan(context, p);
  dispatch_float(p.dtype, "conv2d", [&](auto zero) {
    using T = decltype(zero);
    T* const x = static_cast<T*>(operands.x);
    T* const y = static_cast<T*>(operands.y);
    const T* const weight = static_cast<const T*>(operands.weight);
    if (p.direction == ConvDirection::forward) {
      run_in<T, false>(context, launch, x, weight, static_cast<const T*>(operands.bias), p.relu, y);
    } else {
      run_in<T, true>(context, launch, y, weight, nullptr, false, x);
    }
  });
}

}  // namespace adret::cuda
