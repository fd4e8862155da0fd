// Convolution of few channels on tensor cores: a block has the weights and a band of images in
// shared memory and gathers the windows' elements from there. Gradients of inputs are the same with
// turned weights, for stride 1.
#include <adret/core/cuda/conv_own.h>
#include <adret/core/cuda/conv_tensor.h>

#include <algorithm>

namespace adret::cuda {
namespace {

// Note [Windows as a product]
// Rows of the product are result pixels, columns are outputs, and the depth is what a window has of
// the source, in words: tap after tap, a tap's channels rounded up to whole words, and to an even
// number of them except for one or three f32 channels. The band lies in shared memory pixel by
// pixel, so word k of a window is `offsets[k]` behind its corner. A step of the depth is 8 words,
// of which lane t takes 2t and 2t + 1 (any order does, if it is the weights' too): where words come
// in pairs it reads both at once. Words beyond the depth are zero on both sides, as zero times
// what is infinite would be NaN; their offset is `beyond`.

// Result (n, rh, rw, results) of a source (n, h, w, sources): y from x, or dx from dy.
struct Windows {
  ImageBand band;  // in words
  int total_bands;
  int sources, results, taps;
  int words, steps;        // of a tap; of the depth
  int width;               // words of a tap that are loaded at once
  bool backward, vectors;  // results are stored as vectors
  FastDivisor by_words, by_kw, by_vectors;
};

// Which output column n of tile j of columns stands for: a lane's are neighbours in memory.
template <class T, int tiles>
struct Columns {
  static constexpr int vector = 2 * tiles < 16 / int(sizeof(T)) ? 2 * tiles : 16 / int(sizeof(T));
  static constexpr int vectors = 2 * tiles / vector;  // of a lane

  // The first output of a lane's vector v, whose element i is in tile v * vector / 2 + i / 2.
  static __device__ int output(int v, int lane) { return v * 4 * vector + lane % 4 * vector; }
  static __device__ int tile(int output) {
    return output / (4 * vector) * (vector / 2) + output % vector / 2;
  }
  static __device__ int column(int output) {
    return output % (4 * vector) / vector * 2 + output % 2;
  }
};

// The weights of outputs `first`.. as lanes take them: for each step, and each two tiles, a lane's
// two words of either tile.
template <class T, int tiles>
__device__ void load_weights(uint32_t* shared, const T* weight, const Windows& g, int first) {
  using Core = TensorCore<T>;
  constexpr int pair = tiles == 1 ? 1 : 2;
  const auto* const from = reinterpret_cast<const typename Core::Bits*>(weight);
  fill_shared(shared, g.steps * 8 * tiles * 8, [&](int i) -> Placed<uint32_t> {
    const int output = i % (tiles * 8), word = i / (tiles * 8);
    const int tap = int(g.by_words.quotient(word)), r = word % 8;
    uint32_t value = 0;
#pragma unroll
    for (int e = 0; e < Core::elements; ++e) {
      const int source = (word - tap * g.words) * Core::elements + e, result = first + output;
      if (tap >= g.taps || source >= g.sources || result >= g.results) continue;
      const int at = g.backward ? (source * g.taps + g.taps - 1 - tap) * g.results + result
                                : (result * g.taps + tap) * g.sources + source;
      value |= uint32_t(Core::rounded(from[at])) << (16 * e);
    }
    using Own = Columns<T, tiles>;
    const int tile = Own::tile(output), lane = Own::column(output) * 4 + r / 2;
    const int line = word / 8 * (tiles / pair) + tile / pair;
    return {value, (line * 32 + lane) * 2 * pair + tile % pair * 2 + r % 2};
  });
}

constexpr int beyond = -1;

__device__ void make_offsets(int* offsets, const Windows& g) {
  for (int word = int(threadIdx.x); word < g.steps * 8; word += int(blockDim.x)) {
    const int tap = int(g.by_words.quotient(word)), kh = int(g.by_kw.quotient(tap));
    const int kw = tap - kh * int(g.by_kw.divisor());
    const bool inside = tap < g.taps;
    offsets[word] = inside ? kh * g.band.row + kw * g.band.step + word - tap * g.words : beyond;
  }
}

// `width` words of pixels at a time. With a width of 1 the channels need not fill the words.
template <class T, int width>
__device__ void load_words(uint32_t* tile, const T* source, const Windows& g, int band) {
  using Core = TensorCore<T>;
  using Words = Vector<uint32_t, width>;
  const auto* const from = reinterpret_cast<const typename Core::Bits*>(source);
  load_image_band<Words>(tile, g.band, band, g.by_vectors, [&](int64_t offset, int v) {
    Words words{};
    if constexpr (width == 1) {
#pragma unroll
      for (int e = 0; e < Core::elements; ++e) {
        const int channel = v * Core::elements + e;
        if (channel < g.sources) {
          words.at[0] |= uint32_t(Core::rounded(from[offset + channel])) << (16 * e);
        }
      }
    } else {
      words = reinterpret_cast<const Words*>(from + offset)[v];
#pragma unroll
      for (int i = 0; i < width; ++i) words.at[i] = Core::rounded(words.at[i]);
    }
    return words;
  });
}

// sums += the windows at `corner` times the weights: 16 windows a strip, of which a lane has two.
template <class T, int tiles, int strips, bool paired>
__device__ void multiply(float (&sums)[strips][tiles][4], const int (&corner)[strips][2],
                         const uint32_t* tile, const int* offsets, const uint32_t* weights,
                         int steps) {
  constexpr int pair = tiles == 1 ? 1 : 2;
  const int lane = int(threadIdx.x) % 32;
  const auto* columns = reinterpret_cast<const Vector<uint32_t, 2 * pair>*>(weights) + lane;
  const auto* offset = reinterpret_cast<const Vector<int, 2>*>(offsets) + lane % 4;
#pragma unroll(tiles <= 2 ? 4 : tiles == 4 ? 2 : 1)
  for (int s = 0; s < steps; ++s, offset += 4, columns += tiles / pair * 32) {
    uint32_t b[tiles][2];
#pragma unroll
    for (int j = 0; j < tiles; j += pair) {
      const Vector<uint32_t, 2 * pair> own = columns[j / pair * 32];
#pragma unroll
      for (int i = 0; i < 2 * pair; ++i) b[j + i / 2][i % 2] = own.at[i];
    }
    const Vector<int, 2> at = *offset;
#pragma unroll
    for (int m = 0; m < strips; ++m) {
      uint32_t a[4];
#pragma unroll
      for (int r = 0; r < 2; ++r) {
        const uint32_t* const from = tile + corner[m][r];
        if constexpr (paired) {
          // Their number is even: both are beyond or none.
          Vector<uint32_t, 2> own{};
          if (at.at[0] != beyond) {
            own = *reinterpret_cast<const Vector<uint32_t, 2>*>(from + at.at[0]);
          }
          a[r] = own.at[0];
          a[r + 2] = own.at[1];
        } else {
          a[r] = at.at[0] != beyond ? from[at.at[0]] : 0;
          a[r + 2] = at.at[1] != beyond ? from[at.at[1]] : 0;
        }
      }
#pragma unroll
      for (int j = 0; j < tiles; ++j) TensorCore<T>::multiply_add(sums[m][j], a, b[j]);
    }
  }
}

// A lane's results of one pixel, row r of a strip's product: `to` is where the block's outputs
// begin, of which there are `count`.
template <class T, int tiles>
__device__ void store(T* to, const float (&sums)[tiles][4], int r, bool relu, bool vectors,
                      int count) {
  using Own = Columns<T, tiles>;
#pragma unroll
  for (int v = 0; v < Own::vectors; ++v) {
    const int at = Own::output(v, int(threadIdx.x) % 32);
    Vector<T, Own::vector> own;
#pragma unroll
    for (int i = 0; i < Own::vector; ++i) {
      const float sum = sums[v * Own::vector / 2 + i / 2][2 * r + i % 2];
      own.at[i] = narrow<T>(relu && sum < 0 ? 0.0f : sum);  // NaN stays
    }
    if (vectors) {
      if (at < count) *reinterpret_cast<Vector<T, Own::vector>*>(to + at) = own;
    } else {
#pragma unroll
      for (int i = 0; i < Own::vector; ++i) {
        if (at + i < count) to[at + i] = own.at[i];
      }
    }
  }
}

// Threads of a block, and blocks that a multiprocessor holds.
constexpr int threads_of(int tiles, int strips) { return tiles * strips == 32 ? 128 : 256; }
constexpr int resident(int tiles, int strips) {
  return tiles * strips >= 8 ? 2 : tiles * strips >= 4 ? 3 : 4;
}

// Block (x, y): bands x, x + gridDim.x..; outputs 8 * tiles * y..
template <class T, int tiles, int strips, bool paired>
__global__ void __launch_bounds__(threads_of(tiles, strips), resident(tiles, strips))
    convolve(Windows g, const T* source, const T* weight, const T* bias, bool relu, T* result) {
  begin_kernel();
  using Own = Columns<T, tiles>;
  extern __shared__ __align__(16) uint32_t shared[];
  uint32_t* const weights = shared;
  int* const offsets = reinterpret_cast<int*>(weights + g.steps * tiles * 64);
  float* const starts = reinterpret_cast<float*>(offsets + g.steps * 8);
  uint32_t* const tile = reinterpret_cast<uint32_t*>(starts + tiles * 8);

  const int first = int(blockIdx.y) * tiles * 8, count = min(tiles * 8, g.results - first);
  load_weights<T, tiles>(weights, weight, g, first);
  make_offsets(offsets, g);
  if (int(threadIdx.x) < tiles * 8) {
    const bool has_bias = bias && int(threadIdx.x) < count;
    starts[threadIdx.x] = has_bias ? widen(bias[first + int(threadIdx.x)]) : 0.0f;
  }
  const int lane = int(threadIdx.x) % 32, warp = int(threadIdx.x) / 32;
  const int all_strips = int(blockDim.x) / 32 * strips;
  for (int band = int(blockIdx.x); band < g.total_bands; band += int(gridDim.x)) {
    if (g.width == 1) load_words<T, 1>(tile, source, g, band);
    if (g.width == 2) load_words<T, 2>(tile, source, g, band);
    if (g.width == 4) load_words<T, 4>(tile, source, g, band);
    __syncthreads();
    const int pixels = g.band.pixels(band);
    T* const to = result + g.band.first_pixel(band) * g.results + first;
    for (int strip = warp * strips; strip * 16 < pixels; strip += all_strips) {
      int corner[strips][2];
      float sums[strips][tiles][4];
#pragma unroll
      for (int m = 0; m < strips; ++m) {
#pragma unroll
        for (int r = 0; r < 2; ++r) {
          const int pixel = (strip + m) * 16 + r * 8 + lane / 4;
          corner[m][r] = g.band.corner(min(pixel, pixels - 1));
        }
#pragma unroll
        for (int j = 0; j < tiles; ++j) {
          const int half = Own::vector / 2;
          const float* const start = starts + Own::output(j / half, lane) + j % half * 2;
#pragma unroll
          for (int i = 0; i < 4; ++i) sums[m][j][i] = start[i % 2];
        }
      }
      multiply<T, tiles, strips, paired>(sums, corner, tile, offsets, weights, g.steps);
#pragma unroll
      for (int m = 0; m < strips; ++m) {
#pragma unroll
        for (int r = 0; r < 2; ++r) {
          const int pixel = (strip + m) * 16 + r * 8 + lane / 4;
          if (pixel >= pixels) continue;
          store<T, tiles>(to + int64_t(pixel) * g.results, sums[m], r, relu, g.vectors, count);
        }
      }
    }
    __syncthreads();  // before the next band is loaded
  }
}

// -- plans ---------------------------------------------------------------------------------------

constexpr int64_t most_depth = 416, most_sources = 32, most_results = 512;
constexpr int64_t most_shared = 48 << 10;

struct Launch {
  Windows windows;
  Grid grid;
  int tiles, strips;
  bool paired, fits;
};

// Of one image's pixel, and from one to the next: eight pixels must be in different banks.
int words_of(int64_t channels, int elements) {
  const int64_t words = divide_up(channels, elements);
  const bool is_single = elements == 1 && (words == 1 || words == 3);
  return int(is_single ? words : divide_up(words, 2) * 2);
}
int step_of(int words) { return words <= 4 ? words : (words + 7) / 16 * 16 + 8; }

Windows windows_of(const ConvProblem& p) {
  const bool backward = p.direction == ConvDirection::backward_input;
  const int elements = p.dtype == DType::f32 ? 1 : 2;
  Windows g{};
  g.backward = backward;
  g.sources = int(backward ? p.o : p.c);
  g.results = int(backward ? p.c : p.o);
  g.taps = int(p.kh * p.kw);
  g.words = words_of(g.sources, elements);
  g.steps = int(divide_up(int64_t(g.taps) * g.words, 8));
  const int alignment = backward ? p.y_alignment : p.x_alignment;
  for (g.width = 4; g.width > 1; g.width /= 2) {
    if (g.sources % (g.width * elements) == 0 && alignment >= 4 * g.width) break;
  }
  g.by_words = FastDivisor(uint32_t(g.words));
  g.by_kw = FastDivisor(uint32_t(p.kw));
  g.by_vectors = FastDivisor(uint32_t(g.words / g.width));
  // Turned weights read from the far side: dx[i] = sum of dy[i + padding - k] w[k].
  g.band = {.n = int(p.n),
            .h = int(backward ? p.oh : p.h),
            .w = int(backward ? p.ow : p.w),
            .channels = g.sources,
            .stride_h = int(p.stride_h),
            .stride_w = int(p.stride_w),
            .padding_h = int(backward ? p.kh - 1 - p.padding_h : p.padding_h),
            .padding_w = int(backward ? p.kw - 1 - p.padding_w : p.padding_w),
            .rh = int(backward ? p.h : p.oh),
            .rw = int(backward ? p.w : p.ow)};
  g.band.step = step_of(g.words);
  return g;
}

Launch plan(const Context& context, const ConvProblem& p) {
  Launch launch{.windows = windows_of(p)};
  Windows& g = launch.windows;
  const int64_t step_bytes = 8 * 8 * 4, multiprocessors = context.multiprocessors();
  launch.paired = g.words % 2 == 0;
  int tiles = 1;
  while (tiles < 8 && tiles * 8 < g.results) tiles *= 2;
  while (tiles > 1 && tiles * g.steps * step_bytes > most_shared * 2 / 3) tiles /= 2;
  // More strips of a warp read the weights less often, fewer fill the device sooner.
  const int64_t pixels = p.n * g.band.rh * g.band.rw;
  int strips = tiles <= 2 ? 4 : 2;
  if (tiles == 8 && g.steps > 6) strips = 4;
  if (tiles < 8 && pixels < 2 * multiprocessors * 128 * strips) strips = 1;
  const int threads = threads_of(tiles, strips);
  int64_t goal = threads / 32 * 16 * strips;
  if (pixels > 8 * multiprocessors * goal) goal *= 2;
  const int64_t beside = tiles * g.steps * step_bytes + g.steps * 32 + tiles * 32;
  launch.tiles = tiles;
  launch.strips = strips;
  launch.fits = fit(g.band, p.kh, p.kw, goal, (most_shared - beside) / 4, 2 * multiprocessors) &&
                g.band.total() < int64_t(1) << 31;
  if (!launch.fits) return launch;
  g.total_bands = int(g.band.total());
  const int vector = std::min<int>(2 * tiles, 16 / int(size_of(p.dtype)));
  const int alignment = g.backward ? p.x_alignment : p.y_alignment;
  g.vectors = g.results % vector == 0 && alignment >= vector * int(size_of(p.dtype));
  // What the device holds at once, so that weights are loaded once.
  const int64_t chunks = divide_up(g.results, tiles * 8);
  const int64_t blocks = multiprocessors * resident(tiles, strips);
  const int64_t columns = std::min<int64_t>(g.total_bands, divide_up(blocks, chunks));
  launch.grid = {.blocks = dim3(unsigned(columns), unsigned(chunks)),
                 .threads = dim3(unsigned(threads)),
                 .shared_bytes = size_t(beside + g.band.units() * 4)};
  return launch;
}

// f gets the kernel with the launch's constants.
template <class T, bool paired, class F>
void with_kernel(const Launch& l, F&& f) {
  switch (l.tiles) {
    case 1: return l.strips == 1 ? f(convolve<T, 1, 1, paired>) : f(convolve<T, 1, 4, paired>);
    case 2: return l.strips == 1 ? f(convolve<T, 2, 1, paired>) : f(convolve<T, 2, 4, paired>);
    case 4: return l.strips == 1 ? f(convolve<T, 4, 1, paired>) : f(convolve<T, 4, 2, paired>);
    default: return l.strips == 2 ? f(convolve<T, 8, 2, paired>) : f(convolve<T, 8, 4, paired>);
  }
}

}  // namespace

bool tensor_can_run(const Context& context, const ConvProblem& p) {
  if (!has_tensor_cores(context, p) || p.groups != 1 || p.dilation_h != 1 || p.dilation_w != 1) {
    return false;
  }
  if (p.direction == ConvDirection::backward_weight) return tensor_weight_can_run(context, p);
  const bool backward = p.direction == ConvDirection::backward_input;
  const int64_t sources = backward ? p.o : p.c, results = backward ? p.c : p.o;
  if (p.stride_h > (backward ? 1 : 2) || p.stride_w > (backward ? 1 : 2)) return false;
  return sources <= most_sources && results <= most_results &&
         p.kh * p.kw * sources <= most_depth && plan(context, p).fits;
}

size_t tensor_workspace(const Context& context, const ConvProblem& p) {
  return p.direction == ConvDirection::backward_weight ? tensor_weight_workspace(context, p) : 0;
}

void run_tensor(const Context& context, const ConvProblem& p, const ConvOperands& operands,
                void* workspace) {
  if (p.direction == ConvDirection::backward_weight) {
    return run_tensor_weight(context, p, operands, workspace);
  }
  const Launch l = plan(context, p);
  dispatch_tensor_cores(p.dtype, [&](auto zero) {
    using T = decltype(zero);
    const bool backward = l.windows.backward;
    const auto run = [&](auto kernel) {
      launch(context, kernel, l.grid, l.windows,
             static_cast<const T*>(backward ? operands.y : operands.x),
             static_cast<const T*>(operands.weight), static_cast<const T*>(operands.bias), p.relu,
             static_cast<T*>(backward ? operands.x : operands.y));
    };
    if constexpr (sizeof(T) == 4) {
      if (!l.paired) return with_kernel<T, false>(l, run);
    }
    with_kernel<T, true>(l, run);
  });
}

}  // namespace adret::cuda
