// Laying out the block and moving in.
#include <adret/autograd/grad_mode.h>
#include <adret/autograd/step_trace.h>
#include <adret/core/backend.h>
#include <adret/core/kernels/kernel.h>
#include <adret/optim/move_together.h>

#include <cstddef>

namespace adret {

Together move_together(const std::vector<Tensor>& tensors) {
  if (tensors.empty()) return {};
  const NoGrad no_grad;
  int64_t bytes = 0;
  for (const Tensor& tensor : tensors) bytes += padded_bytes(int64_t(tensor.bytes()));
  Together together{
      .block = Tensor::zeros({bytes}, {.dtype = DType::u8, .device = tensors[0].device()})};
  size_t offset = 0;
  for (const Tensor& tensor : tensors) {
    const auto make_place = [&] {
      return together.block.segment(tensor.shape(), offset, tensor.dtype());
    };
    together.places.push_back(make_place());
    together.moved.push_back(!tensor.has_views());
    run(kernels::Copy{.x = tensor, .y = together.places.back()});
    // A place of its own, as what shares its version would be a view.
    if (together.moved.back()) tensor.rebind(make_place());
    offset += size_t(padded_bytes(int64_t(tensor.bytes())));
  }
  structure_changed();
  return together;
}

}  // namespace adret
