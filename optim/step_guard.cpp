// The decision, made on the device by the kernels of loss scaling and small ones.
#include <adret/autograd/grad_mode.h>
#include <adret/core/backend.h>
#include <adret/core/error.h>
#include <adret/core/kernels/kernel.h>
#include <adret/core/tensor_view.h>
#include <adret/optim/move_together.h>
#include <adret/optim/step_guard.h>
#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <limits>
#include <map>

namespace adret {
namespace {

using kernels::Segment;

constexpr std::array floating{DType::f32, DType::f64, DType::bf16, DType::f16};

constexpr size_t column_of_active = offsetof(Segment, active) / sizeof(int64_t);

Tensor row_of(const Tensor& table, size_t row) {
  return table.alias({1, table.size(1)}, row * size_t(table.size(1)) * size_of(table.dtype()));
}

std::vector<Tensor> buffers_of(const Module& model) {
  std::vector<Tensor> buffers;
  for (const NamedTensor& buffer : model.named_buffers()) {
    if (buffer.tensor.numel() > 0) buffers.push_back(buffer.tensor);
  }
  return buffers;
}

// Whether all elements are finite, into the counts and the table.
kernels::UpdateLossScale look(const TensorView& gradients, const Tensor& segments,
                              const Tensor& scale, const Tensor& counts) {
  return {.grads = gradients,
          .segments = segments,
          .scale = scale,
          .counts = counts,
          .lowest = 1,
          .largest = 1,
          .growth_interval = std::numeric_limits<int64_t>::max()};
}

}  // namespace

StepGuard::StepGuard(Module& model, const std::vector<Optimizer*>& optimizers,
                     const StepGuardOptions& options)
    : model_(model), optimizers_(optimizers), options_(options) {
  if (optimizers_.empty()) throw Error("[StepGuard] the list of optimizers is empty");
  const FunctionScope scope("step guard");
  const NoGrad no_grad;
  const Device device = optimizers_[0]->arena().device();
  const TensorOptions words{.dtype = DType::i64, .device = device};
  scale_ = Tensor::ones({}, {.device = device});
  counts_ = Tensor::zeros({2}, words);
  before_ = Tensor::zeros({}, words);
  zero_ = Tensor::zeros({}, words);
  row_ = Tensor::full({kernels::segment_columns}, 1, {.dtype = DType::boolean, .device = device});
  std::array<Segment, floating.size()> rows{};
  for (size_t i = 0; i < rows.size(); ++i) {
    rows[i] = {.length = 1, .dtype = int64_t(floating[i]), .active = 1, .has_gradient = 1};
  }
  loss_rows_ = Tensor::empty({int64_t(rows.size()), kernels::segment_columns}, words);
  upload(loss_rows_, rows.data());
  arena_ = move_together(buffers_of(model_));
  find_buffers();
}

bool StepGuard::moved(const std::vector<Tensor>& buffers) const {
  return !std::ranges::equal(buffers, places_, {}, &Tensor::data);
}

// Buffers that lie in one storage are copied with what is between them: a block of theirs.
void StepGuard::find_buffers() {
  const std::vector<Tensor> buffers = buffers_of(model_);
  if (!moved(buffers)) return;
  const FunctionScope scope("step guard");
  struct Extent {
    Tensor first;
    const std::byte* end = nullptr;
  };
  std::map<const Storage*, Extent> extents;
  places_.clear();
  ranges_.clear();
  for (const Tensor& buffer : buffers) {
    places_.push_back(buffer.data());
    Extent& extent = extents[TensorView(buffer).storage];
    if (!extent.first.defined() || buffer.data() < extent.first.data()) extent.first = buffer;
    extent.end =
        std::max(extent.end, static_cast<const std::byte*>(buffer.data()) + buffer.bytes());
  }
  for (const auto& [storage, extent] : extents) {
    const int64_t bytes = extent.end - static_cast<const std::byte*>(extent.first.data());
    const Tensor place = extent.first.segment({bytes}, 0, DType::u8);
    ranges_.push_back(
        {.place = place,
         .saved = Tensor::zeros({bytes}, {.dtype = DType::u8, .device = place.device()})});
  }
}

void StepGuard::begin() {
  const FunctionScope scope("step guard");
  find_buffers();
  is_begun_ = true;
  if (options_.goes_on) run(kernels::Copy{.x = counts_.alias({}, sizeof(int64_t)), .y = before_});
  for (const auto& [place, saved] : ranges_) run(kernels::Copy{.x = place, .y = saved});
}

void StepGuard::add_loss(const Tensor& loss) {
  const FunctionScope scope("step guard");
  const auto* dtype = std::ranges::find(floating, loss.dtype());
  if (loss.numel() != 1 || dtype == floating.end()) {
    throw ShapeError(fmt::format("[StepGuard] the loss is {}; wanted one floating element",
                                 to_string(TensorView(loss))));
  }
  TensorView bytes = loss;  // an arena of one segment
  bytes.shape = {int64_t(loss.bytes())};
  bytes.dtype = DType::u8;
  run(look(bytes, row_of(loss_rows_, size_t(dtype - floating.begin())), scale_, counts_));
}

Tensor StepGuard::good() {
  const Tensor good = row_.alias({}, column_of_active);
  run(kernels::Binary{.a = counts_.alias({}, sizeof(int64_t)),
                      .b = before_,
                      .y = good,
                      .op = kernels::BinaryOp::equal});
  return good;
}

Tensor StepGuard::decide() {
  const FunctionScope scope("step guard");
  for (Optimizer* optimizer : optimizers_) {
    ParameterArena& arena = optimizer->arena();
    if (arena.decided_on_device()) {
      throw Error(
          "[StepGuard] decide() was called behind LossScaler::unscale or a second time before "
          "step(); call it once for a step, and without a loss scale, which decides by itself");
    }
    if (!arena.collect_to_decide()) continue;
    run(look(arena.gradients(), arena.segments(), scale_, counts_));
  }
  is_begun_ = false;
  return apply();
}

Tensor StepGuard::add_norm(const Tensor& norm) {
  const auto is_wide = [](Optimizer* optimizer) {
    return std::ranges::any_of(optimizer->arena().parameters(), [](const auto& parameter) {
      return parameter->value.dtype() == DType::f64;
    });
  };
  if (std::ranges::none_of(optimizers_, is_wide)) return good();  // sums of f32 fit into f64
  add_loss(norm);
  return apply();
}

Tensor StepGuard::apply() {
  const FunctionScope scope("step guard");
  const Tensor decided = good();
  for (Optimizer* optimizer : optimizers_) {
    if (!optimizer->arena().decided_on_device()) continue;
    const Tensor& table = optimizer->arena().segments();
    run(kernels::Select{.condition = row_, .a = table, .b = zero_, .y = table});
  }
  for (const auto& [place, saved] : ranges_) {
    run(kernels::Select{.condition = decided, .a = place, .b = saved, .y = place});
  }
  return decided;
}

void StepGuard::abandon() {
  const FunctionScope scope("step guard");
  is_begun_ = false;
  for (const auto& [place, saved] : ranges_) run(kernels::Copy{.x = saved, .y = place});
}

bool StepGuard::failed() const { return !row_.to_vector<bool>()[column_of_active]; }

void StepGuard::reset() {
  const std::array<int64_t, 2> counts{};
  upload(counts_, counts.data());
  upload(before_, counts.data());
  std::array<uint8_t, size_t(kernels::segment_columns)> row;
  row.fill(1);
  upload(row_, row.data());
}

}  // namespace adret
