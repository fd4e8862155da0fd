// The decision, made on the device by the kernels of loss scaling and small ones.
#include <adret/autograd/grad_mode.h>
#include <adret/autograd/step_trace.h>
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
  check_optimizers("StepGuard", optimizers_);
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
  is_finite_ = Tensor::ones({}, {.dtype = DType::boolean, .device = device});
  arena_ = move_together(buffers_of(model_)).block;
  find_buffers();
}

StepGuard::~StepGuard() {
  if (is_begun_) end();
}

bool StepGuard::moved(const std::vector<Tensor>& buffers) const {
  return !std::ranges::equal(buffers, places_, {}, &Tensor::data);
}

// Buffers that lie in one block of theirs are copied together, with what is between them: in the
// guard's own places that others have left, else the padding.
void StepGuard::find_buffers() {
  std::vector<Tensor> buffers = buffers_of(model_);
  if (!moved(buffers)) return;
  const FunctionScope scope("step guard");
  places_.clear();
  for (const Tensor& buffer : buffers) places_.push_back(buffer.data());
  std::ranges::sort(buffers, {}, &Tensor::data);
  ranges_.clear();
  for (size_t first = 0, next; first < buffers.size(); first = next) {
    const Tensor& start = buffers[first];
    const bool own = arena_.defined() && start.storage() == arena_.storage();
    size_t end = start.byte_offset() + start.bytes();
    for (next = first + 1; next < buffers.size(); ++next) {
      const Tensor& buffer = buffers[next];
      if (buffer.storage() != start.storage()) break;
      // Padding is there between those that moved together, which have no views yet.
      const size_t reach = buffer.has_views() ? end : size_t(padded_bytes(int64_t(end)));
      if (!own && buffer.byte_offset() > reach) break;
      end = std::max(end, buffer.byte_offset() + buffer.bytes());
    }
    const auto bytes = int64_t(end - start.byte_offset());
    ranges_.push_back(
        {.place = start.segment({bytes}, 0, DType::u8),
         .saved = Tensor::zeros({bytes}, {.dtype = DType::u8, .device = start.device()})});
  }
}

void StepGuard::save() {
  for (const auto& [place, saved] : ranges_) run(kernels::Copy{.x = place, .y = saved});
  is_begun_ = true;
}

void StepGuard::end() {
  is_begun_ = false;
  for (Optimizer* optimizer : optimizers_) optimizer->arena().await_decide(false);
}

void StepGuard::begin() {
  if (is_begun_) {
    throw Error(
        "[StepGuard] begin() was called a second time before decide(); call abandon() for a step "
        "that is given up");
  }
  const FunctionScope scope("step guard");
  find_buffers();
  save();
  for (Optimizer* optimizer : optimizers_) optimizer->arena().await_decide(true);
  // A replay saves before its kernels, as those may end before they have.
  if (StepTrace* trace = StepTrace::current()) trace->before_replay([this] { save(); });
  if (options_.continue_after_failure) {
    run(kernels::Copy{.x = counts_.alias({}, sizeof(int64_t)), .y = before_});
  }
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

// Whether no failure counts.
Tensor StepGuard::compare(const Tensor& result) const {
  run(kernels::Binary{.a = counts_.alias({}, sizeof(int64_t)),
                      .b = before_,
                      .y = result,
                      .op = kernels::BinaryOp::equal});
  return result;
}

Tensor StepGuard::is_finite() { return compare(is_finite_); }

Tensor StepGuard::decide() {
  const FunctionScope scope("step guard");
  const auto is_decided = [](Optimizer* one) { return one->arena().decided_on_device(); };
  if (std::ranges::any_of(optimizers_, is_decided)) {
    throw Error(
        "[StepGuard] decide() was called behind LossScaler::unscale or a second time before "
        "step(); call it once for a step, and without a loss scale, which decides by itself");
  }
  if (!is_begun_) {
    throw Error("[StepGuard] decide() was called for no step; call begin() before its forward");
  }
  for (Optimizer* optimizer : optimizers_) {
    ParameterArena& arena = optimizer->arena();
    if (!arena.collect_to_decide()) continue;
    run(look(arena.gradients(), arena.segments(), scale_, counts_));
  }
  const Tensor decided = apply();
  end();
  if (StepTrace* trace = StepTrace::current()) {
    trace->after_replay([this] { end(); });
  }
  return decided;
}

Tensor StepGuard::add_norm(const Tensor& norm) {
  const auto is_wide = [](Optimizer* optimizer) {
    return std::ranges::any_of(optimizer->arena().parameters(), [](const auto& parameter) {
      return parameter->value.dtype() == DType::f64;
    });
  };
  if (std::ranges::none_of(optimizers_, is_wide)) {
    return row_.alias({}, column_of_active);  // sums of f32 fit into f64
  }
  add_loss(norm);
  return apply();
}

Tensor StepGuard::apply() {
  const FunctionScope scope("step guard");
  const Tensor decided = compare(row_.alias({}, column_of_active));
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
  if (!is_begun_) return;
  const FunctionScope scope("step guard");
  for (const auto& [place, saved] : ranges_) run(kernels::Copy{.x = saved, .y = place});
  const Tensor failures = counts_.alias({}, sizeof(int64_t));
  if (options_.continue_after_failure) {
    run(kernels::Copy{.x = before_, .y = failures});
  } else {  // of the steps before all are there, which the last decision tells
    const Tensor decided = row_.alias({}, column_of_active);
    run(kernels::Select{.condition = decided, .a = zero_, .b = failures, .y = failures});
  }
  end();
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
