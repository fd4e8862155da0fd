// Matrix products on tensor cores by a kernel of our own, epilogue included, in one launch.
#pragma once

#include <adret/core/cuda/matmul_plan.h>

#include <vector>

namespace adret::cuda {

// How a product is laid on the device: blocks have square tiles of y, of 16, 32 or 64; a power of
// two of them, up to 8, share the depth of a tile (a cluster).
struct TensorTiling {
  int tile, splits;
  bool operator==(const TensorTiling&) const = default;
};

// Those that can compute the product, the likely fastest first. None for what tensor cores would
// not compute (f64, f32 without TF32), for devices before sm_80, and for very large operands.
std::vector<TensorTiling> tensor_tilings(const cudaDeviceProp& device, const Product& product,
                                         DType dtype);

void multiply_tensor(Context& context, const Product& product, const ProductOperands& operands,
                     TensorTiling tiling);

// -- for the files of the kernel -----------------------------------------------------------------

constexpr int most_tensor_splits = 8;
// Of the depth, in one product of fragments.
constexpr int tensor_step_bytes = 32;

// How much of the depth each of `splits` blocks takes, the last ones less: whole steps.
int64_t depth_share(int64_t depth, int splits, DType dtype);

// multiply_tensor in one dtype. They are compiled apart, as each has many kernels.
void multiply_tensor_f32(Context&, const Product&, const ProductOperands&, TensorTiling);
void multiply_tensor_bf16(Context&, const Product&, const ProductOperands&, TensorTiling);
void multiply_tensor_f16(Context&, const Product&, const ProductOperands&, TensorTiling);

}  // namespace adret::cuda
