// Products on tensor cores of operands in f32, rounded to TF32.
#include <adret/core/cuda/matmul_tensor_kernel.h>

namespace adret::cuda {

void multiply_tensor_f32(Context& context, const Product& product, const ProductOperands& operands,
                         TensorTiling tiling) {
  multiply_tensor_as<float>(context, product, operands, tiling);
}

}  // namespace adret::cuda
