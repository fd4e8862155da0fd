// Writes into existing tensors; their versions rise, so that saved tensors notice.
#include <adret/autograd/grad_mode.h>
#include <adret/autograd/ops/check.h>
#include <adret/autograd/ops/inplace.h>
#include <adret/autograd/step_trace.h>
#include <adret/core/backend.h>
#include <adret/core/error.h>
#include <adret/core/holds.h>
#include <adret/core/kernels/kernel.h>
#include <fmt/core.h>

namespace adret {
namespace {

using namespace kernels;

void check_no_grad(const char* function) {
  if (!grad_enabled()) return;
  throw Error(fmt::format(
      "[{}] writes in place, which is not recorded; put it in a scope with NoGrad, or use a "
      "function that returns a new tensor",
      function));
}

// Refuses memory shared in part: which elements are read before they are written would be chance.
void check_operands(const char* function, const Tensor& to, const Tensor& from) {
  check_no_grad(function);
  check::shape(function, {"from", from}, to.shape());
  if (from.dtype() != to.dtype()) check::refuse_unlike(function, {"to", to}, {"from", from});
  if (from.storage() != to.storage() || from.byte_offset() == to.byte_offset()) return;
  const size_t distance = from.byte_offset() > to.byte_offset()
                              ? from.byte_offset() - to.byte_offset()
                              : to.byte_offset() - from.byte_offset();
  if (distance < to.bytes()) check::refuse(function, "to and from share part of their memory");
}

void copy_between_devices(const Tensor& to, const Tensor& from) {
  const bool up = from.device().is_cpu(), down = to.device().is_cpu();
  const CopyKind kind = up     ? CopyKind::host_to_device
                        : down ? CopyKind::device_to_host
                               : CopyKind::device_to_device;
  const Device device = down ? from.device() : to.device();
  if (kind != CopyKind::device_to_device) {
    return copy_memory(device, to.data(), from.data(), from.bytes(), kind);
  }
  // Neither device knows what the other one does with the memory.
  backend_for(from.device()).services().synchronize();
  copy_memory(device, to.data(), from.data(), from.bytes(), kind);
  backend_for(device).services().synchronize();
}

}  // namespace

void fill_(const Tensor& x, double value) {
  const FunctionScope scope("fill_");
  check_no_grad("fill_");
  check_holds("fill_", value, x.dtype());
  run(Fill{.y = x, .value = value});
  raise_version(x);
}

void copy_(const Tensor& to, const Tensor& from) {
  const FunctionScope scope("copy_");
  check_operands("copy_", to, from);
  if (to.data() == from.data()) return;
  if (to.device() == from.device()) {
    run(Copy{.x = from, .y = to});
  } else {
    copy_between_devices(to, from);
  }
  raise_version(to);
}

void add_(const Tensor& to, const Tensor& from) {
  const FunctionScope scope("add_");
  check_operands("add_", to, from);
  check::number("add_", {"to", to});
  check::same_device("add_", {"to", to}, {"from", from});
  run(Binary{.a = to, .b = from, .y = to, .op = BinaryOp::add});
  raise_version(to);
}

}  // namespace adret
