// Convolution for every parameter and dtype, simple and slow: a thread for each element, or a block
// for some elements of a weight's gradient.
#include <adret/core/cuda/conv_geometry.h>
#include <adret/core/cuda/conv_own.h>
#include <adret/core/cuda/launch.h>

#include <algorithm>

namespace adret::cuda {
namespace {

constexpr int threads = 256;

template <class T>
__global__ void forward(ConvGeometry g, const T* x, const T* weight, const T* bias, bool relu, T* y,
                        int64_t count) {
  begin_kernel();
  using A = Accumulator<T>;
  for (int64_t i = first_item(); i < count; i += all_threads()) {
    const int o = int(i % g.o);
    int64_t pixel = i / g.o;
    const int ox = int(pixel % g.ow);
    pixel /= g.ow;
    const int oy = int(pixel % g.oh);
    const int64_t n = pixel / g.oh;
    const T* const image = x + n * g.h * g.w * g.c + o / g.outputs * g.channels;
    const T* tap = weight + int64_t(o) * g.kh * g.kw * g.channels;
    A sum = 0;
    for (int kh = 0; kh < g.kh; ++kh) {
      const int iy = oy * g.stride_h - g.padding_h + kh * g.dilation_h;
      for (int kw = 0; kw < g.kw; ++kw, tap += g.channels) {
        const int ix = ox * g.stride_w - g.padding_w + kw * g.dilation_w;
        if (iy < 0 || iy >= g.h || ix < 0 || ix >= g.w) continue;
        const T* const from = image + (int64_t(iy) * g.w + ix) * g.c;
        for (int c = 0; c < g.channels; ++c) sum += widen(from[c]) * widen(tap[c]);
      }
    }
    if (bias) sum += widen(bias[o]);
    y[i] = narrow<T>(relu && sum < 0 ? A(0) : sum);  // NaN stays
  }
}

template <class T>
__global__ void backward_input(ConvGeometry g, const T* dy, const T* weight, T* dx, int64_t count) {
  begin_kernel();
  using A = Accumulator<T>;
  const int64_t filter = int64_t(g.kh) * g.kw * g.channels;
  for (int64_t i = first_item(); i < count; i += all_threads()) {
    const int c = int(i % g.c);
    int64_t pixel = i / g.c;
    const int ix = int(pixel % g.w);
    pixel /= g.w;
    const int iy = int(pixel % g.h);
    const int64_t n = pixel / g.h;
    const int first = c / g.channels * g.outputs;
    const T* const image = dy + n * g.oh * g.ow * g.o + first;
    const T* tap = weight + first * filter + c % g.channels;
    A sum = 0;
    for (int kh = 0; kh < g.kh; ++kh) {
      const int y = iy + g.padding_h - kh * g.dilation_h;
      for (int kw = 0; kw < g.kw; ++kw, tap += g.channels) {
        const int x = ix + g.padding_w - kw * g.dilation_w;
        if (y < 0 || y % g.stride_h || y / g.stride_h >= g.oh) continue;
        if (x < 0 || x % g.stride_w || x / g.stride_w >= g.ow) continue;
        const T* const from = image + (int64_t(y / g.stride_h) * g.ow + x / g.stride_w) * g.o;
        for (int o = 0; o < g.outputs; ++o) sum += widen(from[o]) * widen(tap[o * filter]);
      }
    }
    dx[i] = narrow<T>(sum);
  }
}

// A block has one output, one tap and `width` channels; its threads share out the pixels.
template <class T>
__global__ void backward_weight(ConvGeometry g, const T* x, const T* dy, T* dweight, int width,
                                int tiles) {
  begin_kernel();
  using A = Accumulator<T>;
  const int lanes = threads / width;
  const int column = int(threadIdx.x) % width, lane = int(threadIdx.x) / width;
  const int c = int(blockIdx.x) % tiles * width + column;
  const int tap = int(blockIdx.x) / tiles % (g.kh * g.kw);
  const int o = int(blockIdx.x) / tiles / (g.kh * g.kw);
  const int shift_y = tap / g.kw * g.dilation_h - g.padding_h;
  const int shift_x = tap % g.kw * g.dilation_w - g.padding_w;
  const bool works = c < g.channels;

  A sum = 0;
  if (works) {
    const int64_t pixels = int64_t(g.n) * g.oh * g.ow;
    const int channel = o / g.outputs * g.channels + c;
    for (int64_t pixel = lane; pixel < pixels; pixel += lanes) {
      const int iy = int(pixel / g.ow % g.oh) * g.stride_h + shift_y;
      const int ix = int(pixel % g.ow) * g.stride_w + shift_x;
      if (iy < 0 || iy >= g.h || ix < 0 || ix >= g.w) continue;
      const int64_t n = pixel / g.ow / g.oh;
      sum += widen(dy[pixel * g.o + o]) * widen(x[((n * g.h + iy) * g.w + ix) * g.c + channel]);
    }
  }
  __shared__ A shared[threads];
  shared[threadIdx.x] = sum;
  __syncthreads();
  for (int half = lanes / 2; half > 0; half /= 2) {  // width and lanes are powers of two
    if (lane < half) shared[threadIdx.x] += shared[int(threadIdx.x) + half * width];
    __syncthreads();
  }
  if (works && lane == 0) {
    dweight[(int64_t(o) * g.kh * g.kw + tap) * g.channels + c] = narrow<T>(shared[column]);
  }
}

}  // namespace

void run_general(const Context& context, const ConvProblem& problem, const ConvOperands& operands) {
  const ConvGeometry g(problem);
  dispatch_float(problem.dtype, "conv2d", [&](auto zero) {
    using T = decltype(zero);
    T* const x = static_cast<T*>(operands.x);
    T* const weight = static_cast<T*>(operands.weight);
    T* const y = static_cast<T*>(operands.y);
    const int64_t inputs = problem.n * problem.h * problem.w * problem.c;
    const int64_t outputs = problem.n * problem.oh * problem.ow * problem.o;
    switch (problem.direction) {
      case ConvDirection::forward:
        return launch(context, forward<T>, grid_for(context, outputs), g, x, weight,
                      static_cast<const T*>(operands.bias), problem.relu, y, outputs);
      case ConvDirection::backward_input:
        return launch(context, backward_input<T>, grid_for(context, inputs), g, y, weight, x,
                      inputs);
      case ConvDirection::backward_weight: {
        int width = 1;
        while (width < 32 && width < g.channels) width *= 2;
        const int64_t tiles = divide_up(g.channels, width);
        const int64_t blocks = tiles * problem.o * problem.kh * problem.kw;
        return launch(context, backward_weight<T>,
                      {.blocks = dim3(unsigned(blocks)), .threads = threads}, g, x, y, weight,
                      width, int(tiles));
      }
    }
  });
}

}  // namespace adret::cuda
