// RMSprop.
#include <adret/core/kernels/kernel.h>
#include <adret/optim/rmsprop.h>

#include <algorithm>

namespace adret {

// The columns are those of kernels::RmsGroup.
Rmsprop::Rmsprop(const std::vector<ParameterGroup<RmspropOptions>>& groups)
    : Optimizer(
          {.name = "rmsprop",
           .columns = {"lr", "lr_decay", "alpha", "epsilon", "weight_decay", "momentum",
                       "centered"},
           .check =
               [](const Row& row) {
                 check_range("rmsprop", "lr", row[0], 0);
                 check_beta("rmsprop", "alpha", row[2]);
                 check_range("rmsprop", "epsilon", row[3], 0);
                 check_range("rmsprop", "weight_decay", row[4], 0);
                 check_range("rmsprop", "momentum", row[5], 0, 1);
               },
           .states = [](const std::vector<Row>& rows) -> std::vector<StateSpec> {
             std::vector<StateSpec> specs = {{.name = "squares"}};
             const auto any = [&](size_t column) {
               return std::ranges::any_of(rows, [&](const Row& row) { return row[column] != 0; });
             };
             if (any(6)) specs.push_back({.name = "mean"});
             if (any(5)) specs.push_back({.name = "momentum"});
             return specs;
           }},
          groups, +[](const RmspropOptions& options) {
            return Row{options.lr,
                       0,
                       options.alpha,
                       options.epsilon,
                       options.weight_decay,
                       options.momentum,
                       double(options.centered)};
          }) {}

void Rmsprop::run_step() {
  run(kernels::RmsStep{.values = arena().values(),
                       .grads = arena().gradients(),
                       .squares = state_tensor("squares"),
                       .mean = state_tensor("mean"),
                       .momentum = state_tensor("momentum"),
                       .masters = arena().masters(),
                       .segments = arena().segments(),
                       .groups = groups()});
}

}  // namespace adret
