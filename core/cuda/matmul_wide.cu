// Products a^T b on the tensor cores of Hopper: the gradients of linear layers' weights. Compiled
// for sm_90a.
#include <adret/core/cuda/launch.h>
#include <adret/core/cuda/matmul_wide.h>
#include <adret/core/cuda/tensor_map.h>
#include <adret/core/cuda/wgmma.h>
#include <adret/core/cuda/workspace.h>

#include <algorithm>
#include <cstdint>

namespace adret::cuda {
namespace {

// Note [Wide products]
// y is few tiles of 192 x 192 over a long depth, that of all rows of a batch. A tile is three
// warpgroups', 64 rows each; both operands are read from shared memory as copies left them, 64 rows
// of the depth in a stage (Note [Rows of 128 bytes]), one copy for each operand: more of them and
// starting them is what takes the time.
// The stages of all tiles, one tile after the other, are dealt to the blocks in equal shares, so
// all end together however many tiles there are (stream-K, Osama et al. 2023). For each tile that
// its share meets, a work unit, the block leaves its sums in the workspace, at a place that no
// other has; a second launch, the fix-up, adds up the sums of each tile, always in the same order.
// Where blocks divide among the tiles, all tiles are at the same depth at a time, and find it in
// the L2. The sums of a's columns are the products with eight more columns of b, which are ones and
// lie behind each stage.

constexpr int side = 192, stage_depth = 64, stages = 4;
constexpr int summing_threads = side / 64 * 128, threads = summing_threads + 32;
constexpr int box_bytes = 64 * stage_depth * 2, operand_bytes = side / 64 * box_bytes;
constexpr int stage_bytes = 2 * operand_bytes + box_bytes;
constexpr int shared_bytes = stages * stage_bytes + 1024 + 2 * 8 * stages;
constexpr int fours = side / 8;  // of a thread's sums, without those of a's columns

struct Plan {
  int rows, columns;
  int tiles, column_tiles;
  int steps;       // stages of a tile
  int each, more;  // stages of a block: the first `more` have one more than `each`
  bool sums_rows;  // of a^T

  __device__ int begin(int block) const { return block * each + min(block, more); }
  __device__ int block_of(int stage) const {
    const int longer = more * (each + 1);
    return stage < longer ? stage / (each + 1) : more + (stage - longer) / each;
  }
  __device__ int row(int tile) const { return tile / column_tiles * side; }
  __device__ int column(int tile) const { return tile % column_tiles * side; }
  __host__ __device__ int place_fours() const { return (fours + sums_rows) * summing_threads; }
  // Where a block's sums of a tile begin: blocks and tiles both go up, so no two are the same.
  __device__ int64_t place(int block, int tile) const {
    return int64_t(block + tile) * place_fours();
  }
};

// Some stages of one tile.
struct WorkUnit {
  int tile, first, count;
};

// Those of a block, the same for the warp that loads and those that sum.
class Walk {
 public:
  __device__ explicit Walk(const Plan& plan)
      : p_(plan), at_(plan.begin(int(blockIdx.x))), end_(plan.begin(int(blockIdx.x) + 1)) {}
  __device__ bool next(WorkUnit& unit) {
    if (at_ >= end_) return false;
    unit.tile = at_ / p_.steps;
    unit.first = at_ - unit.tile * p_.steps;
    unit.count = min(p_.steps - unit.first, end_ - at_);
    at_ += unit.count;
    return true;
  }

 private:
  const Plan& p_;
  int at_, end_;
};

struct Memory {
  uint32_t tiles, full, empty;
  __device__ explicit Memory(const void* memory)
      : tiles((shared_address(memory) + 1023) / 1024 * 1024),
        full(tiles + stages * stage_bytes),
        empty(full + 8 * stages) {}
};

__device__ void load_stages(const CUtensorMap* a, const CUtensorMap* b, const Plan& p,
                            const Memory& memory) {
  Walk walk(p);
  WorkUnit unit;
  PipelineState ring;
  int loaded = 0;
  while (walk.next(unit)) {
    const int row_block = p.row(unit.tile) / 64, column_block = p.column(unit.tile) / 64;
    for (int i = 0; i < unit.count; ++i, ++loaded) {
      if (loaded >= stages) barrier_wait(memory.empty + 8 * ring.stage, ring.phase ^ 1);
      const uint32_t full = memory.full + 8 * ring.stage;
      const uint32_t to = memory.tiles + ring.stage * stage_bytes;
      const int depth = (unit.first + i) * stage_depth;
      barrier_expect(full, 2 * operand_bytes);
      load_tile(to, a, full, 0, depth, row_block);
      load_tile(to + operand_bytes, b, full, 0, depth, column_block);
      ring.advance(stages);
    }
  }
}

template <class T>
__device__ void write_ones(const Memory& memory) {
  const uint32_t pair = pack<T>(1, 1);
  constexpr int words = box_bytes / 4;
  for (int i = int(threadIdx.x); i < stages * words; i += summing_threads) {
    const uint32_t to = memory.tiles + i / words * stage_bytes + 2 * operand_bytes + i % words * 4;
    asm volatile("st.shared.b32 [%0], %1;" ::"r"(to), "r"(pair) : "memory");
  }
  show_shared_memory();
}

// sums: of one stage, for the 64 rows of warpgroup `group`.
template <class T, int n>
__device__ void multiply_stage(float (&sums)[n / 2], uint32_t at, int group) {
  constexpr uint32_t step = 16 * 128 / 16;  // of a descriptor: 16 rows
  uint32_t a = descriptor_low(at + group * box_bytes, box_bytes);
  uint32_t b = descriptor_low(at + operand_bytes, box_bytes);
  const uint32_t high = descriptor_high(8 * 128);
  begin_products();
#pragma unroll
  for (int i = 0; i < stage_depth / 16; ++i) {
    multiply_transposed<T, n>(sums, a + i * step, high, b + i * step, high);
  }
  end_products();
}

template <class T, int n>
__device__ void multiply_stages(const Plan& p, const Memory& memory, float4* partial) {
  const int group = __shfl_sync(~0u, int(threadIdx.x) / 128, 0);
  const bool is_first_lane = threadIdx.x % 32 == 0;
  Walk walk(p);
  WorkUnit unit;
  PipelineState ring;
  float sums[n / 2];
  while (walk.next(unit)) {
#pragma unroll
    for (int i = 0; i < n / 2; ++i) sums[i] = 0;
    pin(sums);
    int before = -1;
#pragma unroll 1
    for (int i = 0; i < unit.count; ++i) {
      barrier_wait(memory.full + 8 * ring.stage, ring.phase);
      multiply_stage<T, n>(sums, memory.tiles + ring.stage * stage_bytes, group);
      wait_for_products<1>();  // the stage before is done
      if (before >= 0 && is_first_lane) barrier_arrive(memory.empty + 8 * before);
      before = ring.stage;
      ring.advance(stages);
    }
    wait_for_products<0>();
    if (is_first_lane) barrier_arrive(memory.empty + 8 * before);
    pin(sums);
    float4* const to = partial + p.place(int(blockIdx.x), unit.tile) + threadIdx.x;
#pragma unroll
    for (int i = 0; i < n / 8; ++i) {
      to[i * summing_threads] = {sums[4 * i], sums[4 * i + 1], sums[4 * i + 2], sums[4 * i + 3]};
    }
  }
}

// n: a tile's columns, with eight more for the sums of a's columns.
template <class T, int n>
__global__ void __launch_bounds__(threads, 1)
    multiply_transposed_tiles(const __grid_constant__ CUtensorMap a,
                              const __grid_constant__ CUtensorMap b, const __grid_constant__ Plan p,
                              float4* partial) {
  begin_kernel();
  extern __shared__ __align__(1024) unsigned char memory_bytes[];
  const Memory memory(memory_bytes);
  const bool is_loading = int(threadIdx.x) >= summing_threads;
  if (threadIdx.x == 0) {
    for (int i = 0; i < stages; ++i) {
      barrier_init(memory.full + 8 * i, 1);
      barrier_init(memory.empty + 8 * i, summing_threads / 32);
    }
    barriers_made();
  }
  if (n > side && !is_loading) write_ones<T>(memory);
  __syncthreads();
  if (!is_loading) {
    multiply_stages<T, n>(p, memory, partial);
  } else if (int(threadIdx.x) == summing_threads) {
    load_stages(&a, &b, p, memory);
  }
}

constexpr int adding_warps = 8;

// y and, if not null, row_sums from the sums of the blocks: 32 fours of a tile a block here, each
// warp of which takes every eighth of the blocks that summed it.
template <class T>
__global__ void __launch_bounds__(32 * adding_warps)
    fix_up(const float4* partial, const __grid_constant__ Plan p, T* y, T* row_sums) {
  begin_kernel();
  __shared__ float4 of_warps[adding_warps][32];
  const int lane = int(threadIdx.x) % 32, warp = int(threadIdx.x) / 32;
  const int at = int(blockIdx.x) * 32 + lane;
  const int tile = int(blockIdx.y);
  const int first = p.block_of(tile * p.steps), last = p.block_of((tile + 1) * p.steps - 1);
  float4 sum{};
  const auto add = [&](const float4& other) {
    sum.x += other.x;
    sum.y += other.y;
    sum.z += other.z;
    sum.w += other.w;
  };
#pragma unroll 4
  for (int block = first + warp; block <= last; block += adding_warps) {
    add(partial[p.place(block, tile) + at]);
  }
  of_warps[warp][lane] = sum;
  __syncthreads();
  if (warp > 0) return;
  for (int i = 1; i < min(adding_warps, last - first + 1); ++i) add(of_warps[i][lane]);
  const int group = at % summing_threads / 32, four = at / summing_threads;
  const int row = p.row(tile) + group * 16 + lane / 4;
  const int left = p.column(tile), column = left + four * 8 + lane % 4 * 2;
  const auto write = [&](int to, float value, float next) {
    if (to >= p.rows) return;
    if (four < fours) {
      if (column < p.columns) {
        *reinterpret_cast<uint32_t*>(y + int64_t(to) * p.columns + column) = pack<T>(value, next);
      }
    } else if (left == 0 && lane % 4 == 0) {
      row_sums[to] = T(value);
    }
  };
  write(row, sum.x, sum.y);
  write(row + 8, sum.z, sum.w);
}

// -- calls ---------------------------------------------------------------------------------------

int blocks_of(const Context& context, const Plan& plan) {
  const int most = std::min(plan.tiles * plan.steps, context.multiprocessors());
  const int even = most / plan.tiles * plan.tiles;
  return even * 10 >= most * 9 ? even : most;
}

Plan plan_of(const Context& context, const Product& p) {
  Plan plan{.rows = int(p.rows), .columns = int(p.columns)};
  plan.column_tiles = int(divide_up(p.columns, side));
  plan.tiles = int(divide_up(p.rows, side)) * plan.column_tiles;
  plan.steps = int(divide_up(p.depth, stage_depth));
  plan.sums_rows = p.epilogue == Epilogue::bias_gradient;
  const int blocks = blocks_of(context, plan);
  plan.each = plan.tiles * plan.steps / blocks;
  plan.more = plan.tiles * plan.steps % blocks;
  return plan;
}

// Of (depth, columns): blocks of 64 columns, three of which are a tile's.
CUtensorMap map_of(const TensorView& x, int64_t columns, int64_t depth) {
  const int64_t sizes[] = {64, depth, columns / 64}, box[] = {64, stage_depth, side / 64};
  const int64_t steps[] = {columns, 64};
  return tensor_map(x.data, x.dtype, sizes, box, steps);
}

template <class T, int n>
void multiply_in(Context& context, const Product& p, const ProductOperands& operands) {
  const Plan plan = plan_of(context, p);
  const Workspace workspace(context, multiply_wide_workspace(context, p));
  const auto kernel = multiply_transposed_tiles<T, n>;
  ADRET_CHECK(
      cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, shared_bytes));
  launch(context, kernel,
         {.blocks = dim3(unsigned(blocks_of(context, plan))),
          .threads = threads,
          .shared_bytes = size_t(shared_bytes)},
         map_of(operands.a, p.rows, p.depth), map_of(operands.b, p.columns, p.depth), plan,
         workspace.as<float4>());
  launch(context, fix_up<T>,
         {.blocks = dim3(unsigned(plan.place_fours() / 32), unsigned(plan.tiles)),
          .threads = 32 * adding_warps},
         static_cast<const float4*>(workspace.as<float4>()), plan, operands.y.as<T>(),
         operands.beside.as<T>());
}

template <class T>
void multiply_in(Context& context, const Product& p, const ProductOperands& operands) {
  if (p.epilogue == Epilogue::bias_gradient) {
    multiply_in<T, side + 8>(context, p, operands);
  } else {
    multiply_in<T, side>(context, p, operands);
  }
}

}  // namespace

bool can_multiply_wide(const Context& context, const Product& p, const ProductOperands& operands) {
  const DType dtype = operands.y.dtype;
  if (context.properties.major != 9 || (dtype != DType::bf16 && dtype != DType::f16)) return false;
  if (!p.transpose_a || p.transpose_b || p.accumulate || p.batch > 1) return false;
  if (p.epilogue != Epilogue::none && p.epilogue != Epilogue::bias_gradient) return false;
  // What copies of tiles ask of addresses and of the distance from row to row.
  const auto is_aligned = [](const TensorView& view) { return uintptr_t(view.data) % 16 == 0; };
  constexpr int64_t most = int64_t(1) << 24;
  return p.rows % 64 == 0 && p.columns % 64 == 0 && p.rows <= most && p.columns <= most &&
         p.depth <= most && is_aligned(operands.a) && is_aligned(operands.b) &&
         divide_up(p.rows, side) * divide_up(p.columns, side) <= context.multiprocessors();
}

size_t multiply_wide_workspace(const Context& context, const Product& p) {
  const Plan plan = plan_of(context, p);
  return size_t(blocks_of(context, plan) + plan.tiles) * size_t(plan.place_fours()) *
         sizeof(float4);
}

void multiply_wide(Context& context, const Product& product, const ProductOperands& operands) {
  if (operands.y.dtype == DType::f16) {
    multiply_in<__half>(context, product, operands);
  } else {
    multiply_in<__nv_bfloat16>(context, product, operands);
  }
}

}  // namespace adret::cuda
