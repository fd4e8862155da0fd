// Laying out the block and moving in.
#include <adret/autograd/grad_mode.h>
#include <adret/autograd/step_trace.h>
#include <adret/core/backend.h>
#include <adret/core/kernels/kernel.h>
#include <adret/optim/move_together.h>

#include <cstdint>

namespace adret {

Tensor move_together(const std::vector<Tensor>& tensors) {
  if (tensors.empty()) return {};
  const NoGrad no_grad;
  std::vector<size_t> offsets;
  size_t bytes = 0;
  for (const Tensor& tensor : tensors) {
    offsets.push_back(bytes);
    bytes += (tensor.bytes() + 511) / 512 * 512;
  }
  const Tensor block =
      Tensor::zeros({int64_t(bytes)}, {.dtype = DType::u8, .device = tensors[0].device()});
  for (size_t i = 0; i < tensors.size(); ++i) {
    const Tensor place = block.segment(tensors[i].shape(), offsets[i], tensors[i].dtype());
    run(kernels::Copy{.x = tensors[i], .y = place});
    tensors[i].rebind(place);
  }
  structure_changed();
  return block;
}

}  // namespace adret
