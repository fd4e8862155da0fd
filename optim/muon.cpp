// Muon's step, a matrix at a time: direction, Newton-Schulz iteration, weights.
#include <adret/core/compute_mode.h>
#include <adret/core/error.h>
#include <adret/core/kernels/kernel.h>
#include <adret/optim/muon.h>
#include <fmt/core.h>

#include <utility>

namespace adret {
namespace {

void check_options(const MuonOptions& options) {
  if (options.iterations < 1 || options.iterations > 20) {
    throw Error(fmt::format("[muon] iterations is {}; it must lie in 1..20", options.iterations));
  }
}

std::vector<ParameterGroup<MuonOptions>> checked(
    const std::vector<ParameterGroup<MuonOptions>>& groups) {
  for (const auto& group : groups) {
    check_options(group.options);
    for (const auto& parameter : group.parameters) {
      if (!parameter->value.defined() || parameter->value.rank() >= 2) continue;
      throw Error(fmt::format(
          "[muon] the parameter \"{}\" {} is no matrix; give biases and norms to another "
          "optimizer, such as Sgd",
          parameter->name, to_string(parameter->value.shape())));
    }
  }
  return groups;
}

Tensor like(const Tensor& x, const Shape& shape) {
  return Tensor::empty(shape, {.dtype = x.dtype(), .device = x.device()});
}

// Singular values of x (rows, columns), at most 1, are taken to about 1.
Tensor orthogonalize(Tensor x, int iterations) {
  constexpr double a = 3.4445, b = -4.7750, c = 2.0315;
  const MathMode math = compute_mode().math;
  const bool tall = x.size(0) > x.size(1);  // then G = X^T X, the smaller one
  const int64_t size = std::min(x.size(0), x.size(1));
  const Tensor gram = like(x, {size, size}), scaled = like(gram, gram.shape()),
               polynomial = like(gram, gram.shape());
  Tensor next = like(x, x.shape());
  for (int i = 0; i < iterations; ++i) {
    run(kernels::Matmul{
        .a = x, .b = x, .y = gram, .transpose_a = tall, .transpose_b = !tall, .math = math});
    run(kernels::Unary{.x = gram, .y = scaled, .alpha = c});
    run(kernels::Unary{.x = gram, .y = polynomial, .alpha = b});
    run(kernels::Matmul{.a = scaled, .b = gram, .y = polynomial, .accumulate = true, .math = math});
    run(kernels::Unary{.x = x, .y = next, .alpha = a});
    run(kernels::Matmul{.a = tall ? x : polynomial,
                        .b = tall ? polynomial : x,
                        .y = next,
                        .accumulate = true,
                        .math = math});
    std::swap(x, next);
  }
  return x;
}

}  // namespace

// The columns are those of kernels::MuonGroup.
Muon::Muon(const std::vector<ParameterGroup<MuonOptions>>& groups)
    : Optimizer(
          {.name = "muon",
           .columns = {"lr", "momentum", "nesterov", "weight_decay", "normalize"},
           .check =
               [](const Row& row) {
                 check_range("muon", "lr", row[0], 0);
                 check_range("muon", "momentum", row[1], 0, 1);
                 check_range("muon", "weight_decay", row[3], 0);
               },
           .states = [](const std::vector<Row>&) -> std::vector<StateSpec> {
             return {{.name = "momentum"}};
           }},
          checked(groups), +[](const MuonOptions& options) {
            return Row{options.lr, options.momentum, double(options.nesterov), options.weight_decay,
                       double(options.normalize)};
          }) {
  for (const auto& group : groups) iterations_.push_back(group.options.iterations);
}

void Muon::run_step() {
  for (size_t i = 0; i < arena().parameters().size(); ++i) {
    if (arena().parameters()[i]->value.grad().defined()) update(i);
  }
}

void Muon::update(size_t i) {
  const Parameter& parameter = *arena().parameters()[i];
  const Tensor& value = parameter.value;
  if (value.numel() == 0) return;
  const auto row = [](const Tensor& table, size_t index) {
    return table.alias({table.size(1)}, index * size_t(table.size(1)) * size_of(table.dtype()));
  };
  const auto group = size_t(arena().segment(i).group);
  const Tensor segment_row = row(arena().segments(), i), group_row = row(groups(), group);
  const Tensor direction = like(value, {value.size(0), value.numel() / value.size(0)});
  run(kernels::MuonDirection{.grad = value.grad(),
                             .momentum = arena().state_of(state_tensor("momentum"), i),
                             .segment = segment_row,
                             .group = group_row,
                             .direction = direction});
  const Tensor master = parameter.master();
  run(kernels::MuonStep{.value = value,
                        .master = master.defined() ? TensorView(master) : TensorView(),
                        .update = orthogonalize(direction, iterations_[group]),
                        .segment = segment_row,
                        .group = group_row});
}

}  // namespace adret
