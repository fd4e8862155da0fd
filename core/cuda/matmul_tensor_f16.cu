// Products on tensor cores of operands in f16.
#include <adret/core/cuda/matmul_tensor_kernel.h>

namespace adret::cuda {

void multiply_tensor_f16(Context& context, const Product& product, const ProductOperands& operands,
                         TensorTiling tiling) {
  multiply_tensor_as<__half>(context, product, operands, tiling);
}

}  // namespace adret::cuda
