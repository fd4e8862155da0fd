// Products on tensor cores of operands in bf16.
#include <adret/core/cuda/matmul_tensor_kernel.h>

namespace adret::cuda {

void multiply_tensor_bf16(Context& context, const Product& product, const ProductOperands& operands,
                          TensorTiling tiling) {
  multiply_tensor_as<__nv_bfloat16>(context, product, operands, tiling);
}

}  // namespace adret::cuda
