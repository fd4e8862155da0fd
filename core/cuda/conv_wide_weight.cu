// The gradient of the weights of a convolution of 64 channels to 64 by 3x3 on the tensor cores of
// Hopper. Compiled for sm_90a.
#include <adret/core/cuda/conv_own.h>
#include <adret/core/cuda/launch.h>
#include <adret/core/cuda/tensor_map.h>
#include <adret/core/cuda/wgmma.h>

#include <algorithm>

namespace adret::cuda {
namespace {

// Note [Wide gradients of weights]
// Rows of the product are outputs, columns are the 9 x 64 weights of one, and the depth is the
// pixels, 16 at a time: of a row, or 8 each of two rows. A warpgroup has the three taps of a row of
// the window, which are the same pixels of x, one pixel on each; all of the gradient is in the
// registers of three. Both operands are read from shared memory as copies left them, tiles of dy
// and of x with the pixels around them (Note [Rows of 128 bytes]).
// Pixels of dy that no image has would be zero times what x has there, which is NaN for infinity,
// so only sizes without them are taken. A block has a stretch of pairs of rows and leaves its sums
// in the workspace; a second launch adds them up, always in the same order.

constexpr int channels = 64, taps = 9, row_bytes = channels * 2;
constexpr int summing_threads = 3 * 128, threads = summing_threads + 32;
constexpr int fours = 24;  // of a thread's 96 sums
constexpr int sum_bytes = fours * summing_threads * 16;
constexpr int most_columns = 64, tile_pixels = 256, most_stages = 3;
constexpr int beside_stages = 1024 + 2 * 8 * most_stages;  // alignment and barriers

struct Plan {
  int padding_h, padding_w;
  int columns, rows;  // of a tile of dy: columns in eights, rows in pairs
  int strips, pairs;  // strips of so many columns in an image, pairs of rows in a strip
  int units;          // pairs of rows in all
  bool along;         // 16 pixels of a row, or 8 each of two
  int stages, stage_bytes, x_bytes, dy_at, dy_bytes;
};

struct Tile {
  int image, column, row, pairs;
};

// The tiles of a block, the same for the warp that loads and those that sum.
class Walk {
 public:
  __device__ explicit Walk(const Plan& plan) : p_(plan) {
    const int block = int(blockIdx.x), blocks = int(gridDim.x), each = p_.units / blocks;
    const int more = p_.units - each * blocks;  // the first blocks take one more
    at_ = block * each + min(block, more);
    end_ = at_ + each + (block < more ? 1 : 0);
  }
  __device__ bool next(Tile& tile) {
    if (at_ >= end_) return false;
    const int strip = at_ / p_.pairs, pair = at_ - strip * p_.pairs;
    tile.pairs = min(min(p_.rows / 2, p_.pairs - pair), end_ - at_);
    at_ += tile.pairs;
    tile.image = strip / p_.strips;
    tile.column = (strip - tile.image * p_.strips) * p_.columns;
    tile.row = 2 * pair;
    return true;
  }

 private:
  const Plan& p_;
  int at_, end_;
};

struct Memory {
  uint32_t tiles, full, empty;
  __device__ Memory(const void* memory, const Plan& p)
      : tiles((shared_address(memory) + 1023) / 1024 * 1024),
        full(tiles + p.stages * p.stage_bytes),
        empty(full + 8 * most_stages) {}
};

__device__ void load_tiles(const CUtensorMap* x, const CUtensorMap* dy, const Plan& p,
                           const Memory& memory) {
  Walk walk(p);
  Tile tile;
  PipelineState ring;
  for (int i = 0; walk.next(tile); ++i) {
    if (i >= p.stages) barrier_wait(memory.empty + 8 * ring.stage, ring.phase ^ 1);
    const uint32_t to = memory.tiles + ring.stage * p.stage_bytes;
    const uint32_t full = memory.full + 8 * ring.stage;
    barrier_expect(full, p.x_bytes + p.dy_bytes);
    load_tile(to, x, full, 0, tile.column - p.padding_w, tile.row - p.padding_h, tile.image);
    load_tile(to + p.dy_at, dy, full, 0, tile.column, tile.row, tile.image);
    ring.advance(p.stages);
  }
}

// sums: the products of all the block's tiles, for row `kh` of the window.
template <class T>
__device__ void multiply_tiles(float (&sums)[96], const Plan& p, int kh, const Memory& memory) {
  // Descriptors' units of 16 bytes, a pixel's being 8: from row to row, from step to step.
  const uint32_t x_row = (p.columns + 2) * 8, dy_row = p.columns * 8;
  const uint32_t x_high = descriptor_high(16 * int(p.along ? 64 : x_row));
  const uint32_t dy_high = descriptor_high(16 * int(p.along ? 64 : dy_row));
  const uint32_t x_step = p.along ? x_row : 2 * x_row, dy_step = p.along ? dy_row : 2 * dy_row;
  const int across_step = p.along ? 128 : 64;
  const bool is_first_lane = threadIdx.x % 32 == 0;
  Walk walk(p);
  Tile tile;
  PipelineState ring;
  int before = -1;
  while (walk.next(tile)) {
    const int across = p.columns / (p.along ? 16 : 8);
    const int down = p.along ? 2 * tile.pairs : tile.pairs, steps = across * down;
    const uint32_t at = memory.tiles + ring.stage * p.stage_bytes;
    // From one tap to the next, and between blocks of columns of dy, which has one: a pixel.
    uint32_t x = descriptor_low(at, row_bytes) + kh * x_row;
    uint32_t dy = descriptor_low(at + p.dy_at, row_bytes);
    int left = down;
    const auto step = [&] {
      begin_products();  // each time: else the compiler adds its own and waits for each product
      multiply_transposed<T, taps * channels / 3>(sums, dy, dy_high, x, x_high);
      end_products();
      x += x_step;
      dy += dy_step;
      if (--left == 0) {
        x += across_step - down * x_step;
        dy += across_step - down * dy_step;
        left = down;
      }
    };
    barrier_wait(memory.full + 8 * ring.stage, ring.phase);
    step();
    wait_for_products<1>();  // the tile before is done
    if (before >= 0 && is_first_lane) barrier_arrive(memory.empty + 8 * before);
#pragma unroll 1
    for (int i = 1; i < steps; ++i) step();
    before = ring.stage;
    ring.advance(p.stages);
  }
  wait_for_products<0>();
}

template <class T>
__global__ void __launch_bounds__(threads, 1)
    sum_wide_products(const __grid_constant__ CUtensorMap x, const __grid_constant__ CUtensorMap dy,
                      const __grid_constant__ Plan p, float4* partial) {
  begin_kernel();
  extern __shared__ __align__(1024) unsigned char memory_bytes[];
  const Memory memory(memory_bytes, p);
  if (threadIdx.x == 0) {
    for (int i = 0; i < p.stages; ++i) {
      barrier_init(memory.full + 8 * i, 1);
      barrier_init(memory.empty + 8 * i, summing_threads / 32);
    }
    barriers_made();
  }
  __syncthreads();
  if (int(threadIdx.x) >= summing_threads) {
    if (int(threadIdx.x) == summing_threads) load_tiles(&x, &dy, p, memory);
    return;
  }
  const int kh = __shfl_sync(~0u, int(threadIdx.x) / 128, 0);
  float sums[96];
#pragma unroll
  for (int i = 0; i < 96; ++i) sums[i] = 0;
  pin(sums);
  multiply_tiles<T>(sums, p, kh, memory);
  pin(sums);
  float4* const to = partial + int64_t(blockIdx.x) * fours * summing_threads + threadIdx.x;
#pragma unroll
  for (int i = 0; i < fours; ++i) {
    to[i * summing_threads] = {sums[4 * i], sums[4 * i + 1], sums[4 * i + 2], sums[4 * i + 3]};
  }
}

constexpr int adding_warps = 8;

// dweight from `count` blocks' sums: 32 fours a block, each warp takes every eighth of them.
template <class T>
__global__ void __launch_bounds__(32 * adding_warps)
    add_wide_sums(const float4* partial, int count, T* dweight) {
  begin_kernel();
  __shared__ float4 of_warps[adding_warps][32];
  const int lane = int(threadIdx.x) % 32, warp = int(threadIdx.x) / 32;
  const int at = int(blockIdx.x) * 32 + lane;
  float4 sum{};
  const auto add = [&](const float4& other) {
    sum.x += other.x;
    sum.y += other.y;
    sum.z += other.z;
    sum.w += other.w;
  };
#pragma unroll 8
  for (int i = warp; i < count; i += adding_warps) {
    add(partial[int64_t(i) * fours * summing_threads + at]);
  }
  of_warps[warp][lane] = sum;
  __syncthreads();
  if (warp > 0) return;
  for (int i = 1; i < adding_warps; ++i) add(of_warps[i][lane]);
  const int thread = at % summing_threads, four = at / summing_threads;
  const int kh = thread / 128, output = thread % 128 / 32 * 16 + lane / 4;
  const int column = four * 8 + lane % 4 * 2;  // kw * 64 + channel
  T* const to = dweight + output * taps * channels + kh * 3 * channels + column;
  *reinterpret_cast<uint32_t*>(to) = pack<T>(sum.x, sum.y);
  *reinterpret_cast<uint32_t*>(to + 8 * taps * channels) = pack<T>(sum.z, sum.w);
}

// -- calls ---------------------------------------------------------------------------------------

int64_t round_up(int64_t a, int64_t b) { return divide_up(a, b) * b; }

Plan plan_of(const Context& context, const ConvProblem& p) {
  Plan plan{.padding_h = int(p.padding_h), .padding_w = int(p.padding_w)};
  plan.strips = int(divide_up(p.ow, most_columns));
  plan.columns = int(round_up(divide_up(p.ow, plan.strips), 8));
  plan.along = plan.columns % 16 == 0;
  plan.rows = int(std::clamp<int64_t>(tile_pixels / plan.columns / 2 * 2, 2, round_up(p.oh, 2)));
  plan.pairs = int(divide_up(p.oh, 2));
  plan.units = int(p.n) * plan.strips * plan.pairs;
  plan.x_bytes = (plan.rows + 2) * (plan.columns + 2) * row_bytes;
  plan.dy_bytes = plan.rows * plan.columns * row_bytes;
  plan.dy_at = int(round_up(plan.x_bytes, 1024));
  plan.stage_bytes = int(round_up(plan.dy_at + plan.dy_bytes, 1024));
  const int room = int(context.properties.sharedMemPerBlockOptin) - beside_stages;
  plan.stages = std::min(most_stages, room / plan.stage_bytes);
  return plan;
}

int blocks_of(const Context& context, const Plan& plan) {
  return std::min(plan.units, context.multiprocessors());
}

template <class T>
void run(const Context& context, const ConvProblem& p, const ConvOperands& operands,
         float4* partial) {
  const Plan plan = plan_of(context, p);
  const int64_t x_sizes[] = {channels, p.w, p.h, p.n}, dy_sizes[] = {channels, p.ow, p.oh, p.n};
  const int64_t x_box[] = {channels, plan.columns + 2, plan.rows + 2, 1};
  const int64_t dy_box[] = {channels, plan.columns, plan.rows, 1};
  const int shared_bytes = plan.stages * plan.stage_bytes + beside_stages;
  const int blocks = blocks_of(context, plan);
  const auto kernel = sum_wide_products<T>;
  ADRET_CHECK(
      cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, shared_bytes));
  launch(
      context, kernel,
      {.blocks = dim3(unsigned(blocks)), .threads = threads, .shared_bytes = size_t(shared_bytes)},
      tensor_map(operands.x, p.dtype, x_sizes, x_box),
      tensor_map(operands.y, p.dtype, dy_sizes, dy_box), plan, partial);
  launch(context, add_wide_sums<T>,
         {.blocks = dim3(fours * summing_threads / 32), .threads = 32 * adding_warps}, partial,
         blocks, static_cast<T*>(operands.weight));
}

}  // namespace

bool wide_weight_can_run(const Context& context, const ConvProblem& p) {
  if (p.oh == 0 || p.ow == 0) return false;
  const Plan plan = plan_of(context, p);
  // A stage is free when the next one's first product is done, so there must be two.
  return p.oh % 2 == 0 && p.ow == plan.strips * plan.columns && plan.stages >= 2;
}

size_t wide_weight_workspace(const Context& context, const ConvProblem& p) {
  return size_t(blocks_of(context, plan_of(context, p))) * sum_bytes;
}

void run_wide_weight(const Context& context, const ConvProblem& p, const ConvOperands& operands,
                     void* workspace) {
  if (p.dtype == DType::f16) {
    run<__half>(context, p, operands, static_cast<float4*>(workspace));
  } else {
    run<__nv_bfloat16>(context, p, operands, static_cast<float4*>(workspace));
  }
}

}  // namespace adret::cuda
