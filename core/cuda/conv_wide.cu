// Convolution of 64 channels to 64 by 3x3 on the tensor cores of Hopper: forward, and the gradient
// of the input, which is the same with turned weights. Compiled for sm_90a.
#include <adret/core/cuda/conv_own.h>
#include <adret/core/cuda/launch.h>
#include <adret/core/cuda/tensor_core.h>
#include <adret/core/cuda/tensor_map.h>
#include <adret/core/cuda/wgmma.h>

#include <algorithm>

namespace adret::cuda {
namespace {

// Note [Wide convolutions]
// With 64 outputs, pixels as the rows of the product and weights as its columns, both from shared
// memory, the reads of shared memory take as long as the products. So the product is turned:
// its rows are the outputs, whose weights stay in the registers of a warpgroup for the whole
// launch, and its columns are pixels. A tile of the source with the pixels around it lies in shared
// memory once, and each tap of the window is the same tile from another pixel on, which products
// may begin with (Note [Rows of 128 bytes]): a pixel's 64 channels are such a row. What is outside
// the image comes as zero with the copy of the tile. One thread brings in tiles ahead of their use;
// two warpgroups multiply columns of 8 pixels in turns, so that one has the tensor cores while the
// other stores: results go through shared memory, too, and from there as tiles.

constexpr int channels = 64, taps = 9, row_bytes = channels * 2;
constexpr int tile_w = 32, group_w = 8, pitch = tile_w + 2;  // in pixels
constexpr int tap_bytes = channels * row_bytes, weight_bytes = taps * tap_bytes;
constexpr int depth_steps = taps * channels / 16;
constexpr int loader_threads = 128, group_threads = 128;
constexpr int threads = loader_threads + 2 * group_threads;

// By the rows of a tile. The weights first come to where the stages behind the first one will be.
template <int rows_>
struct Layout {
  static constexpr int rows = rows_, n = group_w * rows, stages = rows <= 8 ? 4 : 2;
  static constexpr int tile_bytes = (rows + 2) * pitch * row_bytes;
  static constexpr int stage_bytes = (tile_bytes + 1023) / 1024 * 1024;
  static constexpr int result_bytes = n * row_bytes;
  static constexpr int barriers = 3 + 2 * stages;
  static constexpr int shared_bytes = 1024 + stages * stage_bytes + 2 * result_bytes + barriers * 8;
  static_assert((stages - 1) * stage_bytes >= weight_bytes);

  uint32_t tiles, weights, results, weights_full, turn, full, empty;
  __device__ explicit Layout(const void* memory)
      : tiles((shared_address(memory) + 1023) / 1024 * 1024),
        weights(tiles + stage_bytes),
        results(tiles + stages * stage_bytes),
        weights_full(results + 2 * result_bytes),
        turn(weights_full + 8),
        full(turn + 16),
        empty(full + 8 * stages) {}
  __device__ uint32_t tile(int stage) const { return tiles + stage * stage_bytes; }
};

struct Sizes {
  int h, w, padding_h, padding_w;  // of the result, and before the source
  int tiles_h, tiles_w, tiles;
};

struct Tile {
  int image, h, w;  // its first pixel of the result
  __device__ Tile(const Sizes& s, int number, int rows) {
    const int of_image = s.tiles_h * s.tiles_w;
    image = number / of_image;
    const int rest = number - image * of_image, line = rest / s.tiles_w;
    h = line * rows;
    w = (rest - line * s.tiles_w) * tile_w;
  }
};

template <class L>
__device__ void load(const L& memory, const CUtensorMap* source, const CUtensorMap* weight,
                     const Sizes& s) {
  barrier_expect(memory.weights_full, weight_bytes);
  for (int tap = 0; tap < taps; ++tap) {
    load_tile(memory.weights + tap * tap_bytes, weight, memory.weights_full, 0, tap, 0);
  }
  PipelineState ring;
  bool is_first = true;
  for (int number = int(blockIdx.x); number < s.tiles; number += int(gridDim.x)) {
    // The first stage is free at first, the others when the weights have been read.
    if (ring.stage > 0) barrier_wait(memory.empty + 8 * ring.stage, ring.phase);
    if (ring.stage == 0 && !is_first) barrier_wait(memory.empty, ring.phase ^ 1);
    is_first = false;
    const Tile tile(s, number, L::rows);
    const uint32_t full = memory.full + 8 * ring.stage;
    barrier_expect(full, L::tile_bytes);
    load_tile(memory.tile(ring.stage), source, full, 0, tile.w - s.padding_w, tile.h - s.padding_h,
              tile.image);
    ring.advance(L::stages);
  }
}

// All weights as the rows of products: a warp has 16 outputs.
template <bool is_input_gradient, class L>
__device__ void load_weights(uint32_t (&a)[depth_steps][4], const L& memory) {
  const int lane = int(threadIdx.x) % 32, warp = int(threadIdx.x) / 32 % 4;
  const int matrix = lane / 8, line = lane % 8;
#pragma unroll
  for (int i = 0; i < depth_steps; ++i) {
    const int tap = is_input_gradient ? taps - 1 - i / 4 : i / 4;
    const int m = warp * 16 + matrix % 2 * 8, k = i % 4 * 16 + matrix / 2 * 8;
    const int row = (is_input_gradient ? k : m) + line, piece = (is_input_gradient ? m : k) / 8;
    const uint32_t at =
        memory.weights + tap * tap_bytes + row * row_bytes + (piece ^ (row & 7)) * 16;
    if constexpr (is_input_gradient) {
      load_matrices_transposed(a[i], at);
    } else {
      load_matrices(a[i], at);
    }
  }
}

// sums = the weights times the windows of 8 columns of pixels, the first at `from`.
template <class T, int n>
__device__ void multiply_windows(float (&sums)[n / 2], const uint32_t (&a)[depth_steps][4],
                                 uint32_t from) {
  from = __shfl_sync(~0u, from, 0);  // the compiler then knows it for the same in all lanes
  pin(sums);
  begin_products();
#pragma unroll
  for (int i = 0; i < depth_steps; ++i) {
    const int pixel = i / 12 * pitch + i / 4 % 3;
    const uint32_t low = descriptor_low(from + pixel * row_bytes + i % 4 * 32, 16);
    multiply<T, n>(sums, a[i], low, descriptor_high(pitch * row_bytes), i > 0);
  }
  end_products();
}

// A warpgroup's results to shared memory, pixel by pixel, with bias and ReLU.
template <class T, int n>
__device__ void store_result(uint32_t to, const float (&sums)[n / 2], const float (&bias)[2],
                             bool relu) {
  const int lane = int(threadIdx.x) % 32, warp = int(threadIdx.x) / 32 % 4;
#pragma unroll
  for (int j = 0; j < n / 8; j += 2) {
    uint32_t four[4];
#pragma unroll
    for (int e = 0; e < 4; ++e) {
      const int at = 4 * (j + e / 2) + e % 2 * 2;
      float low = sums[at] + bias[e % 2], high = sums[at + 1] + bias[e % 2];
      if (relu) {  // NaN stays
        low = low < 0 ? 0.0f : low;
        high = high < 0 ? 0.0f : high;
      }
      four[e] = pack<T>(low, high);
    }
    const int pixel = (j + lane / 16) * 8 + lane % 8, piece = warp * 2 + lane / 8 % 2;
    store_matrices_transposed(to + pixel * row_bytes + (piece ^ (pixel & 7)) * 16, four);
  }
}

template <class T, class L>
__device__ void convolve_tiles(const L& memory, const uint32_t (&a)[depth_steps][4],
                               const CUtensorMap* result, const Sizes& s, const float (&bias)[2],
                               bool relu) {
  const int thread = int(threadIdx.x) - loader_threads, own = thread / group_threads;
  const bool is_first_lane = thread % 32 == 0, is_first = thread % group_threads == 0;
  const uint32_t staging = memory.results + own * L::result_bytes;
  PipelineState ring;
  int turn_phase = own == 0 ? 1 : 0;
  int next = 0;  // whose turn the next columns are
  for (int number = int(blockIdx.x); number < s.tiles; number += int(gridDim.x)) {
    const Tile tile(s, number, L::rows);
    const int groups = min(tile_w / group_w, (s.w - tile.w + group_w - 1) / group_w);
    barrier_wait(memory.full + 8 * ring.stage, ring.phase);
    bool is_read = false;
    for (int group = next == own ? 0 : 1; group < groups; group += 2) {
      float sums[L::n / 2];
#pragma unroll
      for (int i = 0; i < L::n / 2; ++i) sums[i] = 0;
      barrier_wait(memory.turn + 8 * own, turn_phase);
      turn_phase ^= 1;
      multiply_windows<T, L::n>(sums, a, memory.tile(ring.stage) + group * group_w * row_bytes);
      if (is_first_lane) barrier_arrive(memory.turn + 8 * (own ^ 1));
      wait_for_products();
      pin(sums);
      if (group + 2 >= groups) {
        is_read = true;
        if (is_first_lane) barrier_arrive(memory.empty + 8 * ring.stage);
      }
      if (is_first) wait_for_reads();  // of the result before
      sync_threads(2 + own, group_threads);
      store_result<T, L::n>(staging, sums, bias, relu);
      show_shared_memory();
      sync_threads(2 + own, group_threads);
      if (is_first) {
        store_tile(result, staging, 0, tile.w + group * group_w, tile.h, tile.image);
      }
    }
    __syncwarp();  // no lane waits for this tile any more
    if (!is_read && is_first_lane) barrier_arrive(memory.empty + 8 * ring.stage);
    next = (next + groups) & 1;
    ring.advance(L::stages);
  }
  if (is_first) wait_for_stores();
}

template <class T, class L, bool is_input_gradient>
__global__ void __launch_bounds__(threads, 1)
    convolve_wide(const __grid_constant__ CUtensorMap source,
                  const __grid_constant__ CUtensorMap weight,
                  const __grid_constant__ CUtensorMap result, const Sizes s, const T* bias,
                  bool relu) {
  begin_kernel();
  extern __shared__ __align__(1024) unsigned char memory_bytes[];
  const L memory(memory_bytes);
  if (threadIdx.x == 0) {
    barrier_init(memory.weights_full, 1);
    for (int i = 0; i < 2; ++i) barrier_init(memory.turn + 8 * i, group_threads / 32);
    for (int i = 0; i < L::stages; ++i) {
      barrier_init(memory.full + 8 * i, 1);
      barrier_init(memory.empty + 8 * i, 2 * group_threads / 32);
    }
    barriers_made();
  }
  __syncthreads();
  if (int(threadIdx.x) < loader_threads) {
    give_registers<24>();
    if (threadIdx.x == 0) load(memory, &source, &weight, s);
    return;
  }
  take_registers<240>();
  const int lane = int(threadIdx.x) % 32, warp = int(threadIdx.x) / 32 % 4;
  uint32_t a[depth_steps][4];
  barrier_wait(memory.weights_full, 0);
  load_weights<is_input_gradient>(a, memory);
  sync_threads(1, 2 * group_threads);
  if (lane == 0) {  // what the weights lay in is free for tiles
    for (int i = 1; i < L::stages; ++i) barrier_arrive(memory.empty + 8 * i);
  }
  const int output = warp * 16 + lane / 4;
  const float own_bias[2] = {bias ? widen(bias[output]) : 0.0f,
                             bias ? widen(bias[output + 8]) : 0.0f};
  convolve_tiles<T>(memory, a, &result, s, own_bias, relu);
}

// -- calls ---------------------------------------------------------------------------------------

template <class T, int rows, bool is_input_gradient>
void run_direction(const Context& context, const ConvProblem& p, const ConvOperands& operands) {
  using L = Layout<rows>;
  // The gradient reads dy and writes dx: dx[i] = sum of dy[i + padding - k] w[k].
  const int64_t source_h = is_input_gradient ? p.oh : p.h,
                source_w = is_input_gradient ? p.ow : p.w;
  const int64_t result_h = is_input_gradient ? p.h : p.oh,
                result_w = is_input_gradient ? p.w : p.ow;
  Sizes s{.h = int(result_h),
          .w = int(result_w),
          .padding_h = int(is_input_gradient ? 2 - p.padding_h : p.padding_h),
          .padding_w = int(is_input_gradient ? 2 - p.padding_w : p.padding_w),
          .tiles_h = int(divide_up(result_h, rows)),
          .tiles_w = int(divide_up(result_w, tile_w))};
  s.tiles = int(p.n) * s.tiles_h * s.tiles_w;
  const int64_t source_sizes[] = {channels, source_w, source_h, p.n};
  const int64_t source_box[] = {channels, pitch, rows + 2, 1};
  const int64_t result_sizes[] = {channels, result_w, result_h, p.n};
  const int64_t result_box[] = {channels, group_w, rows, 1};
  const int64_t weight_sizes[] = {channels, taps, channels}, weight_box[] = {channels, 1, channels};
  const auto kernel = convolve_wide<T, L, is_input_gradient>;
  ADRET_CHECK(
      cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, L::shared_bytes));
  launch(context, kernel,
         {.blocks = dim3(unsigned(std::min(s.tiles, context.multiprocessors()))),
          .threads = threads,
          .shared_bytes = L::shared_bytes},
         tensor_map(is_input_gradient ? operands.y : operands.x, p.dtype, source_sizes, source_box),
         tensor_map(operands.weight, p.dtype, weight_sizes, weight_box),
         tensor_map(is_input_gradient ? operands.x : operands.y, p.dtype, result_sizes, result_box),
         s, static_cast<const T*>(operands.bias), p.relu);
}

template <class T, int rows>
void run(const Context& context, const ConvProblem& p, const ConvOperands& operands) {
  if (p.direction == ConvDirection::forward) {
    run_direction<T, rows, false>(context, p, operands);
  } else {
    run_direction<T, rows, true>(context, p, operands);
  }
}

template <class T>
void run(const Context& context, const ConvProblem& p, const ConvOperands& operands) {
  // Taller tiles read less around them; but rows that are not there are computed, too.
  const int64_t h = p.direction == ConvDirection::forward ? p.oh : p.h;
  if (divide_up(h, 16) * 16 <= divide_up(h, 8) * 8) {
    run<T, 16>(context, p, operands);
  } else {
    run<T, 8>(context, p, operands);
  }
}

}  // namespace

bool wide_can_run(const Context& context, const ConvProblem& p) {
  const bool is_16_bit = p.dtype == DType::bf16 || p.dtype == DType::f16;
  const bool is_aligned = p.x_alignment >= 16 && p.y_alignment >= 16 && p.weight_alignment >= 16;
  const bool has_its_shape = p.c == channels && p.o == channels && p.groups == 1 && p.kh == 3 &&
                             p.kw == 3 && p.stride_h == 1 && p.stride_w == 1 && p.dilation_h == 1 &&
                             p.dilation_w == 1 && p.padding_h <= 2 && p.padding_w <= 2;
  return context.properties.major == 9 && context.properties.minor == 0 && is_16_bit &&
         is_aligned && has_its_shape && p.h > 0 && p.w > 0 && p.n * p.h * p.w < int64_t(1) << 31 &&
         p.n * p.oh * p.ow < int64_t(1) << 31 &&
         (p.direction != ConvDirection::backward_weight || wide_weight_can_run(context, p));
}

size_t wide_workspace(const Context& context, const ConvProblem& p) {
  return p.direction == ConvDirection::backward_weight ? wide_weight_workspace(context, p) : 0;
}

void run_wide(const Context& context, const ConvProblem& p, const ConvOperands& operands,
              void* workspace) {
  if (p.direction == ConvDirection::backward_weight) {
    return run_wide_weight(context, p, operands, workspace);
  }
  if (p.dtype == DType::f16) {
    run<__half>(context, p, operands);
  } else {
    run<__nv_bfloat16>(context, p, operands);
  }
}

}  // namespace adret::cuda
