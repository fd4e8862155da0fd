// The kernel of matmul_tensor.h and its launch, for one dtype.
#pragma once

#include <adret/core/cuda/launch.h>
#include <adret/core/cuda/matmul_tensor.h>
#include <adret/core/cuda/matmul_tensor_outputs.h>

#include <algorithm>
#include <array>
#include <bit>

namespace adret::cuda {

// Shapes whose copies, of 16 bytes, are two a thread for an operand and a chunk.
using Tile16 = TensorShape<16, 1, 1, 8, 512>;
using Tile32 = TensorShape<32, 1, 2, 4, 256>;
using Tile64 = TensorShape<64, 2, 2, 2, 128>;

// What a block has in shared memory: the inbox, if the depth is split, and chunks, which the parts
// of sums take the place of. No more than it needs, so that the next kernel's blocks find room
// beside it (Note [Kernels that start early]).
template <class T, class Shape, bool transpose_a, bool transpose_b>
struct TensorMemory {
  using Sums = TileSums<T, Shape, transpose_a, transpose_b>;
  using Outputs = TileOutputs<T, Shape>;
  using Inbox = typename Outputs::Inbox;
  using Parts = typename Outputs::Parts;
  static constexpr size_t most = sizeof(Inbox) + Shape::stages * Sums::stage_bytes;
  static_assert(sizeof(Parts) <= Shape::stages * Sums::stage_bytes && sizeof(Inbox) % 16 == 0);
  static_assert(most <= 99 * 1024, "what a block may have on every device from sm_80 on");

  static constexpr size_t inbox_bytes(int log_splits) { return log_splits > 0 ? sizeof(Inbox) : 0; }
  static size_t bytes(const TensorArguments<T>& p) {
    const int64_t chunks = divide_up(p.share * int64_t(sizeof(T)), Shape::chunk_bytes);
    const size_t stages = size_t(std::min<int64_t>(chunks, Shape::stages));
    return inbox_bytes(p.log_splits) + std::max(sizeof(Parts), stages * Sums::stage_bytes);
  }
};

template <class T, class Shape, bool transpose_a, bool transpose_b>
__global__ void __launch_bounds__(Shape::threads, 2) multiply_tensor_tile(TensorArguments<T> p) {
  begin_kernel();
#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 800
  using Memory = TensorMemory<T, Shape, transpose_a, transpose_b>;
  using Sums = typename Memory::Sums;
  extern __shared__ __align__(16) char tensor_memory[];
  char* const chunks = tensor_memory + Memory::inbox_bytes(p.log_splits);
  const TensorPart part(p, Shape::tile);
  typename Memory::Outputs outputs(p, part, *reinterpret_cast<typename Memory::Parts*>(chunks),
                                   *reinterpret_cast<typename Memory::Inbox*>(tensor_memory));
  Sums sums(p, part, chunks);
  sums.begin();
  outputs.load_beside();
  sums.run();
  outputs.gather(sums);
  outputs.finish();
#endif
}

// -- launching -----------------------------------------------------------------------------------

template <class T, class Shape, bool transpose_a, bool transpose_b>
void launch_tile(const Context& context, const TensorArguments<T>& arguments, int64_t batch) {
  using Memory = TensorMemory<T, Shape, transpose_a, transpose_b>;
  const auto kernel = multiply_tensor_tile<T, Shape, transpose_a, transpose_b>;
  static std::array<bool, 256> allowed{};  // to have so much, on each device
  if (!allowed[size_t(context.index)]) {
    ADRET_CHECK(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize,
                                     int(Memory::most)));
    allowed[size_t(context.index)] = true;
  }
  const unsigned splits = 1u << arguments.log_splits;
  launch(context, kernel,
         {.blocks = dim3(unsigned(divide_up(arguments.columns, Shape::tile)) * splits,
                         unsigned(divide_up(arguments.rows, Shape::tile)), unsigned(batch)),
          .threads = Shape::threads,
          .shared_bytes = Memory::bytes(arguments),
          .cluster = splits},
         arguments);
}

template <class T, class Shape>
void launch_shape(const Context& context, const Product& p, const TensorArguments<T>& arguments) {
  if (p.transpose_a) {
    return p.transpose_b ? launch_tile<T, Shape, true, true>(context, arguments, p.batch)
                         : launch_tile<T, Shape, true, false>(context, arguments, p.batch);
  }
  return p.transpose_b ? launch_tile<T, Shape, false, true>(context, arguments, p.batch)
                       : launch_tile<T, Shape, false, false>(context, arguments, p.batch);
}

// The logarithm of the bytes, at most 16, that the operand's address and rows are multiples of.
template <class T>
int log_vector_of(const TensorView& operand, int64_t row_length) {
  const uint64_t bits = uint64_t(uintptr_t(operand.data)) | uint64_t(row_length) * sizeof(T) | 16;
  return std::countr_zero(bits);
}

template <class T>
void multiply_tensor_as(const Context& context, const Product& p, const ProductOperands& operands,
                        TensorTiling tiling) {
  const TensorArguments<T> arguments{
      .a = operands.a.as<const T>(),
      .b = operands.b.as<const T>(),
      .y = operands.y.as<T>(),
      .beside = operands.beside.as<T>(),
      .rows = int(p.rows),
      .columns = int(p.columns),
      .depth = int(p.depth),
      .share = int(depth_share(p.depth, tiling.splits, operands.y.dtype)),
      .log_splits = std::countr_zero(unsigned(tiling.splits)),
      .log_vector_a = log_vector_of<T>(operands.a, p.transpose_a ? p.rows : p.depth),
      .log_vector_b = log_vector_of<T>(operands.b, p.transpose_b ? p.depth : p.columns),
      .epilogue = p.epilogue,
      .accumulate = p.accumulate};
  switch (tiling.tile) {
    case 16: return launch_shape<T, Tile16>(context, p, arguments);
    case 32: return launch_shape<T, Tile32>(context, p, arguments);
    default: return launch_shape<T, Tile64>(context, p, arguments);
  }
}

}  // namespace adret::cuda
