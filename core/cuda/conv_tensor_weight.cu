// A weight's gradient with few channels on tensor cores, and the bias's from the same reading of
// dy: blocks sum over bands of images, and the last ones to be done add up the blocks' sums.
#include <adret/core/backend.h>
#include <adret/core/cuda/add_parts.h>
#include <adret/core/cuda/conv_own.h>
#include <adret/core/cuda/conv_tensor.h>
#include <adret/core/cuda/team.h>

#include <algorithm>
#include <cstring>
#include <type_traits>

namespace adret::cuda {
namespace {

// Note [A weight's gradient as a product]
// Rows of the product are taps with their channel, columns are outputs, and the depth is the
// pixels, 16 at a time. x lies in shared memory as a band; element (tap, pixel) of the product is
// the band's at the tap's offset behind the pixel's corner. dy is read once, from memory straight
// to the registers of the warp that uses it, the next pixels' while these are multiplied. A warp
// has `strips` times 16 taps; where there are more taps, `sides` warps have the same pixels. Warps
// with the same taps share out a band's pixels, and their sums are added up in shared memory, as
// registers of lanes, and so are those of blocks in the workspace: in groups, and then the groups,
// each by the last block to be done with it.

constexpr int threads = 256, warps = threads / 32;
constexpr int most_parts = 512, most_level = 16;  // blocks that share a sum; sums added up at once
constexpr int most_counters = 1024;

__device__ unsigned arrived[GraphOrder::lanes][most_counters];  // zero between launches

struct Products {
  ImageBand band;  // of x, in elements
  int total_bands;
  int outputs, taps;  // taps with their channel
  int sides, slices;  // warps that share taps and those that share pixels
  int slots;          // sums of warps in shared memory at once, for each side
  int width;          // elements that are loaded at once
  int level;          // parts that are added up first
  int lane;           // whose counters
  bool vectors;       // dy is read as vectors
  FastDivisor by_channels, by_kw, by_vectors;
};

// Sizes that depend on the kernel only.
template <class T, int tiles, int strips>
struct Share {
  // Neighbouring outputs in a lane, and pixels that a warp takes at once.
  static constexpr int vector = tiles < 16 / int(sizeof(T)) ? tiles : 16 / int(sizeof(T));
  static constexpr int vectors = tiles / vector;
  static constexpr int blocks = strips >= 5 || tiles >= 4 ? 1 : 4 / tiles;  // of 16 pixels
  static constexpr int sums = strips * tiles * 4;                           // of a lane

  static __device__ int output(int tile, int column) {
    return tile / vector * 8 * vector + column * vector + tile % vector;
  }
};

// A lane's share of dy: of each 16 pixels its number modulo 4 and every fourth beyond, and outputs
// output(.., lane / 4), in words of one f32 or two neighbours of 16 bits.
template <class T, int tiles, int strips>
struct Gradients {
  using Own = Share<T, tiles, strips>;
  using Core = TensorCore<T>;
  using Bits = typename Core::Bits;
  static constexpr int words = tiles < Core::elements ? 1 : tiles / Core::elements;
  static constexpr int a_vector = words / Own::vectors;
  uint32_t at[Own::blocks][4][words];

  // Of pixels first.. of the `pixels` that dy begins with; `count` outputs of `outputs` are there.
  __device__ void load(const T* dy, int first, int pixels, int outputs, int count, bool whole) {
    const int lane = int(threadIdx.x) % 32;
#pragma unroll
    for (int b = 0; b < Own::blocks; ++b) {
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        const int pixel = first + b * 16 + i * 4 + lane % 4;
        const auto* const from = reinterpret_cast<const Bits*>(dy) + int64_t(pixel) * outputs;
#pragma unroll
        for (int w = 0; w < words; ++w) at[b][i][w] = 0;
        if (pixel >= pixels) continue;
#pragma unroll
        for (int v = 0; v < Own::vectors; ++v) {
          const int output = Own::output(v * Own::vector, lane / 4);
          load_vector(at[b][i] + v * a_vector, from + output, count - output, whole);
        }
      }
    }
  }
  // The outputs of a vector of which `count` are there: all or none if `whole`, and aligned.
  static __device__ void load_vector(uint32_t* to, const Bits* from, int count, bool whole) {
    if constexpr (Own::vector >= Core::elements) {
      if (whole) {
        if (count <= 0) return;
        const auto own = *reinterpret_cast<const Vector<uint32_t, a_vector>*>(from);
#pragma unroll
        for (int w = 0; w < a_vector; ++w) to[w] = own.at[w];
        return;
      }
    }
#pragma unroll
    for (int k = 0; k < Own::vector; ++k) {
      if (k < count) to[k / Core::elements] |= uint32_t(from[k]) << (k % Core::elements * 16);
    }
  }

  // As tensor cores take the output of a tile: of a pixel in f32, of pixels i and i + 1 in 16 bits.
  __device__ uint32_t word(int block, int i, int tile) const {
    const auto& own = at[block];
    if constexpr (Core::elements == 1) return Core::rounded(own[i][tile]);
    return __byte_perm(own[i][tile / 2], own[i + 1][tile / 2], tile % 2 ? 0x7632 : 0x5410);
  }
  __device__ void add_to(float (&sums)[tiles]) const {
#pragma unroll
    for (int b = 0; b < Own::blocks; ++b) {
#pragma unroll
      for (int i = 0; i < 4; ++i) {
#pragma unroll
        for (int j = 0; j < tiles; ++j) {
          const Bits bits = Bits(at[b][i][j / Core::elements] >> (j % Core::elements * 16));
          T value;
          memcpy(&value, &bits, sizeof(T));
          sums[j] += widen(value);
        }
      }
    }
  }
};

// sums += x^T dy of a block of 16 pixels, whose corners in the band a lane has for its own four.
// f32 takes two steps of 8 pixels, 16-bit elements one of 16.
template <class T, int tiles, int strips>
__device__ void multiply(float (&sums)[strips][tiles][4],
                         const typename TensorCore<T>::Bits* const (&corner)[4],
                         const int (&offset)[strips][2], const Gradients<T, tiles, strips>& dy,
                         int block) {
  using Core = TensorCore<T>;
  constexpr int pixels = Core::elements;  // of a word
#pragma unroll
  for (int s = 0; s < 4; s += 2 * pixels) {
    uint32_t b[tiles][2];
#pragma unroll
    for (int j = 0; j < tiles; ++j) {
#pragma unroll
      for (int h = 0; h < 2; ++h) b[j][h] = dy.word(block, s + h * pixels, j);
    }
#pragma unroll
    for (int m = 0; m < strips; ++m) {
      uint32_t a[4];
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        const int own = offset[m][i % 2], pixel = s + i / 2 * pixels;
        a[i] = corner[pixel][own];
        if constexpr (pixels == 2) a[i] |= uint32_t(corner[pixel + 1][own]) << 16;
      }
#pragma unroll
      for (int j = 0; j < tiles; ++j) Core::multiply_add(sums[m][j], a, b[j]);
    }
  }
}

// `width` elements of x at a time.
template <class T, int width>
__device__ void load_elements(typename TensorCore<T>::Bits* tile, const T* x, const Products& g,
                              int band) {
  using Elements = Vector<typename TensorCore<T>::Bits, width>;
  load_image_band<Elements>(tile, g.band, band, g.by_vectors, [&](int64_t offset, int v) {
    Elements elements = reinterpret_cast<const Elements*>(x + offset)[v];
#pragma unroll
    for (int i = 0; i < width; ++i) elements.at[i] = TensorCore<T>::rounded(elements.at[i]);
    return elements;
  });
}

// Adds up the slices' sums in those of slice 0, through `shared`, which has `slots` for each side.
// All threads call it; those of warps without work are never read.
template <int n>
__device__ void reduce_slices(float (&sums)[n], float* shared, const Products& g, int slice,
                              int side) {
  const int lane = int(threadIdx.x) % 32;
  const auto slot = [&](int s) { return shared + ((side * g.slots + s) * n) * 32 + lane; };
  for (int left = g.slices; left > 1;) {
    const int moved = min(left / 2, g.slots), begin = left - moved;
    if (slice >= begin && slice < left) {
      float* const to = slot(slice - begin);
#pragma unroll
      for (int i = 0; i < n; ++i) to[i * 32] = sums[i];
    }
    __syncthreads();
    if (slice >= begin - moved && slice < begin) {
      const float* const from = slot(slice - begin + moved);
#pragma unroll
      for (int i = 0; i < n; ++i) sums[i] += from[i * 32];
    }
    __syncthreads();  // before the next use
    left = begin;
  }
}

// Writes number i of the sums of all: those of taps as lanes have them, side after side, then those
// of the bias.
template <class T, int tiles, int strips>
__device__ void finish(int i, float sum, const Products& g, int first, int count, T* dweight,
                       T* dbias) {
  using Own = Share<T, tiles, strips>;
  const int of_weight = g.sides * Own::sums * 32;
  if (i >= of_weight) {
    const int output = i - of_weight;
    if (dbias && output < count) dbias[first + output] = narrow<T>(sum);
    return;
  }
  const int lane = i % 32, element = i / 32 % 4, tile = i / 128 % tiles;
  const int tap = i / (128 * tiles) * 16 + lane / 4 + element / 2 * 8;
  const int output = Own::output(tile, lane % 4 * 2 + element % 2);
  if (tap < g.taps && output < count) {
    dweight[int64_t(first + output) * g.taps + tap] = narrow<T>(sum);
  }
}

// Blocks that a multiprocessor holds.
constexpr int resident(int tiles, int strips) { return tiles * strips <= 16 ? 2 : 1; }

// Block (part, y): bands part, part + gridDim.x.. and outputs 8 * tiles * y..; `partial` has for
// each y the sums of the parts and then those of groups of `level` parts.
template <class T, int tiles, int strips>
__global__ void __launch_bounds__(threads, resident(tiles, strips))
    sum_products(Products g, const T* x, const T* dy, float* partial, T* dweight, T* dbias) {
  begin_kernel();
  using Own = Share<T, tiles, strips>;
  using Bits = typename TensorCore<T>::Bits;
  constexpr int chunk = 16 * Own::blocks;
  extern __shared__ __align__(16) unsigned char shared_bytes[];
  __shared__ float bias_sums[warps][tiles * 8];
  Bits* const tile = reinterpret_cast<Bits*>(shared_bytes);

  const int lane = int(threadIdx.x) % 32, warp = int(threadIdx.x) / 32;
  const int side = warp % g.sides, slice = warp / g.sides;
  const int first = int(blockIdx.y) * tiles * 8, count = min(tiles * 8, g.outputs - first);
  const bool works = slice < g.slices, sums_bias = dbias && side == 0;

  int offset[strips][2];
#pragma unroll
  for (int m = 0; m < strips; ++m) {
#pragma unroll
    for (int r = 0; r < 2; ++r) {
      const int tap = (side * strips + m) * 16 + r * 8 + lane / 4;
      const int place = int(g.by_channels.quotient(tap)), kh = int(g.by_kw.quotient(place));
      const int kw = place - kh * int(g.by_kw.divisor());
      const int channel = tap - place * int(g.by_channels.divisor());
      offset[m][r] = tap < g.taps ? kh * g.band.row + kw * g.band.step + channel : 0;
    }
  }
  float sums[strips][tiles][4] = {};
  float bias[tiles] = {};
  Gradients<T, tiles, strips> own;
  for (int band = int(blockIdx.x); band < g.total_bands; band += int(gridDim.x)) {
    const int pixels = g.band.pixels(band);
    const T* const gradients = dy + g.band.first_pixel(band) * g.outputs + first;
    if (works) own.load(gradients, slice * chunk, pixels, g.outputs, count, g.vectors);
    if (g.width == 1) load_elements<T, 1>(tile, x, g, band);
    if (g.width == 2) load_elements<T, 2>(tile, x, g, band);
    if (g.width == 4) load_elements<T, 4>(tile, x, g, band);
    __syncthreads();
    for (int c = slice * chunk; works && c < pixels;) {
      const int next = c + g.slices * chunk;
      Gradients<T, tiles, strips> later;
      later.load(gradients, next, pixels, g.outputs, count, g.vectors);
      if (sums_bias) own.add_to(bias);
#pragma unroll
      for (int b = 0; b < Own::blocks; ++b) {
        const Bits* corner[4];
#pragma unroll
        for (int i = 0; i < 4; ++i) {
          const int pixel = c + b * 16 + i * 4 + lane % 4;  // beyond the last one dy is zero
          corner[i] = tile + g.band.corner(min(pixel, pixels - 1));
        }
        multiply<T, tiles, strips>(sums, corner, offset, own, b);
      }
      own = later;
      c = next;
    }
    __syncthreads();  // before the next band is loaded
  }

  reduce_slices(reinterpret_cast<float(&)[Own::sums]>(sums), reinterpret_cast<float*>(shared_bytes),
                g, slice, side);
#pragma unroll
  for (int j = 0; j < tiles; ++j) {
    const float sum = Lanes(4).reduce(Total<float>{bias[j]}).value;
    if (lane % 4 == 0) bias_sums[warp][Own::output(j, lane / 4)] = sum;
  }
  __syncthreads();

  const int of_weight = g.sides * Own::sums * 32, size = of_weight + tiles * 8;
  const int parts = int(gridDim.x), groups = (parts + g.level - 1) / g.level;
  float* const sums_of_parts = partial + int64_t(blockIdx.y) * (parts + groups) * size;
  float* const part = sums_of_parts + int64_t(blockIdx.x) * size;
  if (slice == 0) {
    float* const to = part + side * Own::sums * 32 + lane;
#pragma unroll
    for (int i = 0; i < Own::sums; ++i) to[i * 32] = (&sums[0][0][0])[i];
  }
  if (int(threadIdx.x) < tiles * 8) {
    float sum = 0;
    for (int s = 0; s < g.slices; ++s) sum += bias_sums[s * g.sides][threadIdx.x];
    part[of_weight + int(threadIdx.x)] = sum;
  }

  using Four = Vector<float, 4>;
  unsigned* const counters = arrived[g.lane] + blockIdx.y * (groups + 1);
  const int group = int(blockIdx.x) / g.level, begin = group * g.level;
  const int members = min(g.level, parts - begin);
  const auto write = [&](int i, const Four& four) {
#pragma unroll
    for (int k = 0; k < 4; ++k) {
      finish<T, tiles, strips>(i * 4 + k, four.at[k], g, first, count, dweight, dbias);
    }
  };
  if (!is_last_block(counters + group, unsigned(members))) return;
  const auto* const of_group = reinterpret_cast<const Four*>(sums_of_parts + begin * size);
  if (groups == 1) return add_parts<threads>(of_group, members, size / 4, write);
  auto* const of_groups = reinterpret_cast<Four*>(sums_of_parts + parts * size);
  add_parts<threads>(of_group, members, size / 4,
                     [&](int i, const Four& four) { of_groups[group * (size / 4) + i] = four; });
  if (!is_last_block(counters + groups, unsigned(groups))) return;
  add_parts<threads>(of_groups, groups, size / 4, write);
}

// -- plans ---------------------------------------------------------------------------------------

constexpr int64_t most_taps = 416, most_channels = 32, most_outputs = 512;
constexpr int64_t most_shared = 44 << 10;  // beside what is not dynamic

struct Launch {
  Products products;
  Grid grid;
  int tiles, strips;
  size_t workspace;
  bool fits;
};

Products products_of(const ConvProblem& p) {
  Products g{};
  g.outputs = int(p.o);
  g.taps = int(p.kh * p.kw * p.c);
  for (g.width = 4; g.width > 1; g.width /= 2) {
    if (p.c % g.width == 0 && p.x_alignment >= g.width * int64_t(size_of(p.dtype))) break;
  }
  g.by_channels = FastDivisor(uint32_t(p.c));
  g.by_kw = FastDivisor(uint32_t(p.kw));
  g.by_vectors = FastDivisor(uint32_t(p.c / g.width));
  g.band = {.n = int(p.n),
            .h = int(p.h),
            .w = int(p.w),
            .channels = int(p.c),
            .stride_h = int(p.stride_h),
            .stride_w = int(p.stride_w),
            .padding_h = int(p.padding_h),
            .padding_w = int(p.padding_w),
            .rh = int(p.oh),
            .rw = int(p.ow)};
  // Four pixels with eight taps each: in different banks.
  const bool is_spread = p.dtype == DType::f32 && p.c > 8;
  g.band.step = int(is_spread ? (p.c + 7) / 16 * 16 + 8 : p.c);
  return g;
}

Launch plan(const Context& context, const ConvProblem& p) {
  Launch launch{.products = products_of(p)};
  Products& g = launch.products;
  g.lane = context.lane;
  int& tiles = launch.tiles = 1;
  while (tiles < 8 && tiles * 8 < g.outputs) tiles *= 2;
  const int64_t all_strips = divide_up(g.taps, 16);
  int& strips = launch.strips = all_strips <= 2 ? int(all_strips) : all_strips <= 5 ? 5 : 10;
  if (tiles >= 4) strips = std::min(strips, 5);
  g.sides = int(divide_up(all_strips, strips));
  if (g.sides > 4) return launch;
  g.slices = warps / g.sides;
  const int64_t slot = int64_t(tiles) * strips * 128 * 4;
  g.slots = int(std::min<int64_t>(std::max(1, g.slices / 2), most_shared / (slot * g.sides)));
  if (g.slots < 1) return launch;

  // Blocks for the whole device, and bands that are the same number for each.
  const int64_t chunks = divide_up(g.outputs, tiles * 8);
  const int64_t multiprocessors = context.multiprocessors();
  const int64_t blocks = std::clamp(p.n * p.oh * p.ow / 256, multiprocessors / 2,
                                    multiprocessors * resident(tiles, strips));
  const int64_t wanted = std::clamp<int64_t>(blocks / chunks, 1, most_parts);
  const int64_t bands = std::clamp<int64_t>(wanted / p.n, 1, p.oh);
  const int64_t pixels =
      std::min<int64_t>(1024, bands > 1 ? divide_up(p.oh, bands) * p.ow
                                        : std::max<int64_t>(1, p.n / wanted) * p.oh * p.ow);
  if (!fit(g.band, p.kh, p.kw, pixels, most_shared / int64_t(size_of(p.dtype)), wanted)) {
    return launch;
  }
  if (g.band.total() >= int64_t(1) << 31) return launch;
  g.total_bands = int(g.band.total());
  const int64_t parts = std::min<int64_t>(g.total_bands, wanted);
  g.level = int(parts);
  if (parts > most_level) {
    g.level = 1;
    while (g.level * g.level < parts) ++g.level;
  }
  const int64_t groups = divide_up(parts, g.level), size = g.sides * slot + tiles * 8 * 4;
  if (chunks * (groups + 1) > most_counters) return launch;
  const int vector = std::min<int>(tiles, 16 / int(size_of(p.dtype)));
  g.vectors = p.o % vector == 0 && p.y_alignment >= vector * int(size_of(p.dtype));
  launch.workspace = size_t(chunks * (parts + groups) * size);
  launch.grid = {.blocks = dim3(unsigned(parts), unsigned(chunks)),
                 .threads = threads,
                 .shared_bytes = size_t(std::max(g.band.units() * int64_t(size_of(p.dtype)),
                                                 g.slices > 1 ? slot * g.sides * g.slots : 0))};
  launch.fits = true;
  return launch;
}

// f gets the kernel with the launch's constants.
template <class T, class F>
void with_kernel(const Launch& l, F&& f) {
  const auto of_tiles = [&](auto tiles) {
    constexpr int count = decltype(tiles)::value;
    switch (l.strips) {
      case 1: return f(sum_products<T, count, 1>);
      case 2: return f(sum_products<T, count, 2>);
      case 5: return f(sum_products<T, count, 5>);
      default:
        if constexpr (count < 4) f(sum_products<T, count, 10>);
    }
  };
  switch (l.tiles) {
    case 1: return of_tiles(std::integral_constant<int, 1>());
    case 2: return of_tiles(std::integral_constant<int, 2>());
    case 4: return of_tiles(std::integral_constant<int, 4>());
    default: return of_tiles(std::integral_constant<int, 8>());
  }
}

}  // namespace

bool tensor_weight_can_run(const Context& context, const ConvProblem& p) {
  return p.stride_h <= 2 && p.stride_w <= 2 && p.c <= most_channels && p.o <= most_outputs &&
         p.kh * p.kw * p.c <= most_taps && plan(context, p).fits;
}

size_t tensor_weight_workspace(const Context& context, const ConvProblem& p) {
  return plan(context, p).workspace;
}

void run_tensor_weight(const Context& context, const ConvProblem& p, const ConvOperands& operands,
                       void* workspace) {
  const Launch l = plan(context, p);
  dispatch_tensor_cores(p.dtype, [&](auto zero) {
    using T = decltype(zero);
    with_kernel<T>(l, [&](auto kernel) {
      launch(context, kernel, l.grid, l.products, static_cast<const T*>(operands.x),
             static_cast<const T*>(operands.y), static_cast<float*>(workspace),
             static_cast<T*>(operands.weight), static_cast<T*>(operands.bias));
    });
  });
}

}  // namespace adret::cuda
