// Muon's direction and step: a launch that leaves partial sums of squares, and one that adds them
// up in every block and scales.
#include <adret/core/cuda/kernels.h>
#include <adret/core/cuda/launch.h>
#include <adret/core/cuda/team.h>
#include <adret/core/cuda/workspace.h>

namespace adret::cuda {

using kernels::MuonGroup;
using kernels::Segment;

namespace {

constexpr int threads = 256;
constexpr int most_blocks = threads;  // a thread reads one partial sum

Grid grid_of(int64_t count) {
  const int64_t blocks = std::min<int64_t>(divide_up(count, 4 * threads), most_blocks);
  return {.blocks = dim3(unsigned(blocks)), .threads = dim3(threads)};
}

// Of a launch of the same grid before this one.
__device__ double sum_of_partials(const double* partials) {
  Total<double> total;
  if (threadIdx.x < gridDim.x) total.value = partials[threadIdx.x];
  return Block().reduce(total).value;
}

__device__ void write_partial(double* partials, double sum) {
  const double total = Block().reduce(Total<double>{sum}).value;
  if (threadIdx.x == 0) partials[blockIdx.x] = total;
}

template <class T>
struct Direction {
  const T* grad;
  Accumulator<T>* momentum;
  const Segment* segment;
  const MuonGroup* group;
  T* direction;
  int64_t count;
  double epsilon;

  __device__ Accumulator<T> gradient(int64_t i) const {
    return widen(grad[i]) * Accumulator<T>(segment->unscale);
  }
  // Before normalisation, from the new momentum.
  __device__ Accumulator<T> at(int64_t i, Accumulator<T> mu) const {
    return group->nesterov != 0 ? fma(mu, momentum[i], gradient(i)) : momentum[i];
  }
};

template <class T>
__global__ void __launch_bounds__(threads) update_momentum(Direction<T> call, double* partials) {
  begin_kernel();
  using A = Accumulator<T>;
  if (!call.segment->active) return;
  const A mu = A(call.group->momentum);
  A sum = 0;
  for (int64_t i = first_item(); i < call.count; i += all_threads()) {
    call.momentum[i] = fma(mu, call.momentum[i], call.gradient(i));
    const A direction = call.at(i, mu);
    sum += direction * direction;
  }
  write_partial(partials, double(sum));
}

template <class T>
__global__ void __launch_bounds__(threads)
    normalize_direction(Direction<T> call, const double* partials) {
  begin_kernel();
  using A = Accumulator<T>;
  const bool active = call.segment->active != 0;
  A scale = 0;
  if (active) scale = A(1 / (sqrt(sum_of_partials(partials)) + call.epsilon));
  const A mu = A(call.group->momentum);
  for (int64_t i = first_item(); i < call.count; i += all_threads()) {
    call.direction[i] = narrow<T>(active ? call.at(i, mu) * scale : A(0));
  }
}

template <class T>
struct Step {
  T* value;
  Accumulator<T>* master;  // may be null
  const T* update;
  const Segment* segment;
  const MuonGroup* group;
  int64_t count, rows;

  __device__ Accumulator<T> weight(int64_t i) const { return master ? master[i] : widen(value[i]); }
};

template <class T>
__global__ void __launch_bounds__(threads) sum_squares(Step<T> call, double* partials) {
  begin_kernel();
  if (!call.segment->active || call.group->normalize == 0) return;
  Accumulator<T> sum = 0;
  for (int64_t i = first_item(); i < call.count; i += all_threads()) {
    const auto weight = call.weight(i);
    sum += weight * weight;
  }
  write_partial(partials, double(sum));
}

template <class T>
__global__ void __launch_bounds__(threads) apply_update(Step<T> call, const double* partials) {
  begin_kernel();
  using A = Accumulator<T>;
  if (!call.segment->active) return;
  const MuonGroup group = *call.group;
  double scale = 1 - group.lr * group.weight_decay;
  if (group.normalize != 0) {
    const double norm = sqrt(sum_of_partials(partials));
    if (norm > 0) scale *= sqrt(double(call.rows)) / norm;
  }
  const A keep = A(scale), lr = A(group.lr);
  for (int64_t i = first_item(); i < call.count; i += all_threads()) {
    const A next = fma(-lr, widen(call.update[i]), keep * call.weight(i));
    if (call.master) call.master[i] = next;
    call.value[i] = narrow<T>(next);
  }
}

}  // namespace

void run(Context& context, const kernels::MuonDirection& call) {
  dispatch_float(call.grad.dtype, call.name, [&](auto zero) {
    using T = decltype(zero);
    const Grid grid = grid_of(call.grad.numel());
    const Workspace partials(context, most_blocks * sizeof(double));
    const Direction<T> direction{.grad = call.grad.as<T>(),
                                 .momentum = call.momentum.as<Accumulator<T>>(),
                                 .segment = call.segment.as<Segment>(),
                                 .group = call.group.as<MuonGroup>(),
                                 .direction = call.direction.as<T>(),
                                 .count = call.grad.numel(),
                                 .epsilon = call.epsilon};
    launch(context, update_momentum<T>, grid, direction, partials.as<double>());
    launch(context, normalize_direction<T>, grid, direction, partials.as<double>());
  });
}

void run(Context& context, const kernels::MuonStep& call) {
  dispatch_float(call.value.dtype, call.name, [&](auto zero) {
    using T = decltype(zero);
    const Grid grid = grid_of(call.value.numel());
    const Workspace partials(context, most_blocks * sizeof(double));
    const Step<T> step{.value = call.value.as<T>(),
                       .master = call.master.defined() ? call.master.as<Accumulator<T>>() : nullptr,
                       .update = call.update.as<T>(),
                       .segment = call.segment.as<Segment>(),
                       .group = call.group.as<MuonGroup>(),
                       .count = call.value.numel(),
                       .rows = call.value.shape[0]};
    launch(context, sum_squares<T>, grid, step, partials.as<double>());
    launch(context, apply_update<T>, grid, step, partials.as<double>());
  });
}

}  // namespace adret::cuda
