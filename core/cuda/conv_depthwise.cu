// Depthwise convolution: each channel has a filter of its own, so that what counts is how fast the
// images are read; neighbouring threads have neighbouring channels.
#include <adret/core/cuda/conv_direct.h>
#include <adret/core/cuda/conv_geometry.h>
#include <adret/core/cuda/conv_own.h>
#include <adret/core/cuda/launch.h>

#include <algorithm>

namespace adret::cuda {
namespace {

constexpr int threads = 256;

// How a block's threads lie: `width` channel vectors by `lanes` pixels.
struct Layout {
  int vectors, width, lanes, tiles;  // of channels: all, of a block; pixels; blocks

  Layout(int64_t channels, int lanes_of_vector) : vectors(int(channels / lanes_of_vector)) {
    width = std::min(vectors, 32);
    lanes = threads / width;
    tiles = int(divide_up(vectors, width));
  }
};

struct Place {
  int vector, lane;
  bool works;
  __device__ explicit Place(const Layout& layout)
      : vector(int(blockIdx.y) * layout.width + int(threadIdx.x) % layout.width),
        lane(int(threadIdx.x) / layout.width),
        works(lane < layout.lanes && vector < layout.vectors) {}
};

// The weights (taps, channels) of the block's channels in shared memory, turned from (channels,
// taps).
template <class T, int n>
__device__ void load_weights(Accumulator<T>* shared, const T* weight, const Layout& layout,
                             int taps) {
  const int first = int(blockIdx.y) * layout.width * n;
  const int channels = min(layout.width * n, layout.vectors * n - first);
  for (int i = int(threadIdx.x); i < channels * taps; i += threads) {
    shared[i % taps * (layout.width * n) + i / taps] = widen(weight[int64_t(first) * taps + i]);
  }
  __syncthreads();
}

// y from x, or dx from dy if `backward`.
template <class T, int n, bool backward>
__global__ void gather(ConvGeometry g, Layout layout, const Vector<T, n>* from, const T* weight,
                       const T* bias, bool relu, Vector<T, n>* to, int pixels) {
  begin_kernel();
  using A = Accumulator<T>;
  extern __shared__ __align__(16) unsigned char shared_bytes[];
  A* const weights = reinterpret_cast<A*>(shared_bytes);
  load_weights<T, n>(weights, weight, layout, g.kh * g.kw);
  const Place place(layout);
  if (!place.works) return;

  const int to_h = backward ? g.h : g.oh, to_w = backward ? g.w : g.ow;
  const int from_h = backward ? g.oh : g.h, from_w = backward ? g.ow : g.w;
  const int own = (place.vector - int(blockIdx.y) * layout.width) * n;
  for (int pixel = int(blockIdx.x) * layout.lanes + place.lane; pixel < pixels;
       pixel += int(gridDim.x) * layout.lanes) {
    const int row = pixel / to_w;
    const int tx = pixel - row * to_w, ty = row % to_h;
    const Vector<T, n>* const image = from + int64_t(row / to_h) * from_h * from_w * layout.vectors;
    A sums[n] = {};
    for (int kh = 0; kh < g.kh; ++kh) {
      int fy = backward ? ty + g.padding_h - kh * g.dilation_h
                        : ty * g.stride_h - g.padding_h + kh * g.dilation_h;
      if (backward) {
        if (fy < 0 || fy % g.stride_h) continue;
        fy /= g.stride_h;
      }
      if (fy < 0 || fy >= from_h) continue;
      for (int kw = 0; kw < g.kw; ++kw) {
        int fx = backward ? tx + g.padding_w - kw * g.dilation_w
                          : tx * g.stride_w - g.padding_w + kw * g.dilation_w;
        if (backward) {
          if (fx < 0 || fx % g.stride_w) continue;
          fx /= g.stride_w;
        }
        if (fx < 0 || fx >= from_w) continue;
        const Vector<T, n> values =
            image[(int64_t(fy) * from_w + fx) * layout.vectors + place.vector];
        const A* const tap = weights + (kh * g.kw + kw) * (layout.width * n) + own;
#pragma unroll
        for (int j = 0; j < n; ++j) sums[j] += widen(values.at[j]) * tap[j];
      }
    }
    Vector<T, n> result;
#pragma unroll
    for (int j = 0; j < n; ++j) {
      A sum = sums[j];
      if (bias) sum += widen(bias[place.vector * n + j]);
      result.at[j] = narrow<T>(relu && sum < 0 ? A(0) : sum);  // NaN stays
    }
    to[int64_t(pixel) * layout.vectors + place.vector] = result;
  }
}

// Block (part, tile, tap) sums over a part of the pixels: partial (parts, channels, taps).
template <class T, int n>
__global__ void sum_products(ConvGeometry g, Layout layout, const Vector<T, n>* x,
                             const Vector<T, n>* dy, Accumulator<T>* partial, int pixels) {
  begin_kernel();
  using A = Accumulator<T>;
  __shared__ A shared[threads][n];
  const Place place(layout);
  const int tap = int(blockIdx.z), taps = int(gridDim.z);
  const int shift_y = tap / g.kw * g.dilation_h - g.padding_h;
  const int shift_x = tap % g.kw * g.dilation_w - g.padding_w;
  A sums[n] = {};
  if (place.works) {
    for (int pixel = int(blockIdx.x) * layout.lanes + place.lane; pixel < pixels;
         pixel += int(gridDim.x) * layout.lanes) {
      const int row = pixel / g.ow;
      const int ix = (pixel - row * g.ow) * g.stride_w + shift_x;
      const int iy = row % g.oh * g.stride_h + shift_y;
      if (iy < 0 || iy >= g.h || ix < 0 || ix >= g.w) continue;
      const Vector<T, n> gradient = dy[int64_t(pixel) * layout.vectors + place.vector];
      const int at = (row / g.oh * g.h + iy) * g.w + ix;
      const Vector<T, n> value = x[int64_t(at) * layout.vectors + place.vector];
#pragma unroll
      for (int j = 0; j < n; ++j) sums[j] += widen(gradient.at[j]) * widen(value.at[j]);
    }
  }
#pragma unroll
  for (int j = 0; j < n; ++j) shared[threadIdx.x][j] = sums[j];
  __syncthreads();
  if (!place.works || place.lane > 0) return;
  for (int lane = 1; lane < layout.lanes; ++lane) {
#pragma unroll
    for (int j = 0; j < n; ++j) sums[j] += shared[lane * layout.width + int(threadIdx.x)][j];
  }
  const int64_t channels = int64_t(layout.vectors) * n;
#pragma unroll
  for (int j = 0; j < n; ++j) {
    partial[(blockIdx.x * channels + int64_t(place.vector) * n + j) * taps + tap] = sums[j];
  }
}

int vector_lanes(const ConvProblem& p) {
  const int lanes = 16 / int(size_of(p.dtype));
  const bool aligned = p.x_alignment == 16 && p.y_alignment == 16;
  return aligned && p.c % lanes == 0 ? lanes : 1;
}

int64_t parts_of(const Context& context, const ConvProblem& p, const Layout& layout) {
  const int64_t pixels = p.n * p.oh * p.ow;
  const int64_t others = int64_t(layout.tiles) * p.kh * p.kw;
  return std::clamp<int64_t>(8 * context.multiprocessors() / others, 1,
                             divide_up(pixels, layout.lanes * 8));
}

size_t weight_bytes(const ConvProblem& p, const Layout& layout, int lanes) {
  return size_t(p.kh * p.kw * layout.width * lanes) * (p.dtype == DType::f64 ? 8 : 4);
}

template <class T, int n>
void run_in(const Context& context, const ConvProblem& p, const ConvOperands& operands,
            void* workspace) {
  using A = Accumulator<T>;
  using V = Vector<T, n>;
  const Layout layout(p.c, n);
  const ConvGeometry g(p);
  V* const x = static_cast<V*>(operands.x);
  V* const y = static_cast<V*>(operands.y);
  T* const weight = static_cast<T*>(operands.weight);
  const int64_t inputs = p.n * p.h * p.w, outputs = p.n * p.oh * p.ow;
  if (p.direction == ConvDirection::backward_weight) {
    const int64_t parts = parts_of(context, p, layout);
    launch(context, sum_products<T, n>,
           {.blocks = dim3(unsigned(parts), unsigned(layout.tiles), unsigned(p.kh * p.kw)),
            .threads = threads},
           g, layout, x, y, static_cast<A*>(workspace), int(outputs));
    return column_sums_of_parts(context, p.dtype, workspace, weight, parts, p.o * p.kh * p.kw);
  }
  const bool backward = p.direction == ConvDirection::backward_input;
  const int64_t pixels = backward ? inputs : outputs;
  const int64_t most = std::max<int64_t>(1, 16 * int64_t(context.multiprocessors()) / layout.tiles);
  const Grid grid{.blocks = dim3(unsigned(std::min(divide_up(pixels, layout.lanes), most)),
                                 unsigned(layout.tiles)),
                  .threads = threads,
                  .shared_bytes = weight_bytes(p, layout, n)};
  if (backward) {
    launch(context, gather<T, n, true>, grid, g, layout, y, weight, nullptr, false, x, int(pixels));
  } else {
    launch(context, gather<T, n, false>, grid, g, layout, x, weight,
           static_cast<const T*>(operands.bias), p.relu, y, int(pixels));
  }
}

}  // namespace

bool depthwise_can_run(const ConvProblem& p) {
  if (p.channels() != 1 || p.outputs() != 1) return false;
  const int lanes = vector_lanes(p);
  const Layout layout(p.c, lanes);
  const int64_t most_pixels = int64_t(1) << 30;  // indices are 32 bits wide
  return weight_bytes(p, layout, lanes) <= 48 << 10 && layout.tiles < 65536 &&
         p.n * p.h * p.w < most_pixels && p.n * p.oh * p.ow < most_pixels;
}

size_t depthwise_workspace(const Context& context, const ConvProblem& p) {
  if (p.direction != ConvDirection::backward_weight) return 0;
  const Layout layout(p.c, vector_lanes(p));
  const size_t size = p.dtype == DType::f64 ? 8 : 4;
  return size_t(parts_of(context, p, layout) * p.o * p.kh * p.kw) * size;
}

void run_depthwise(const Context& context, const ConvProblem& problem, const ConvOperands& operands,
                   void* workspace) {
  dispatch_float(problem.dtype, "conv2d", [&](auto zero) {
    using T = decltype(zero);
    if (vector_lanes(problem) > 1) {
      run_in<T, 16 / int(sizeof(T))>(context, problem, operands, workspace);
    } else {
      run_in<T, 1>(context, problem, operands, workspace);
    }
  });
}

}  // namespace adret::cuda
