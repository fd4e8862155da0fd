// Stochastic gradient descent with momentum.
#include <adret/core/error.h>
#include <adret/core/kernels/kernel.h>
#include <adret/optim/sgd.h>

#include <algorithm>

namespace adret {

// The columns are those of kernels::SgdGroup.
Sgd::Sgd(const std::vector<ParameterGroup<SgdOptions>>& groups)
    : Optimizer(
          {.name = "sgd",
           .columns = {"lr", "momentum", "weight_decay", "nesterov"},
           .check =
               [](const Row& row) {
                 check_range("sgd", "lr", row[0], 0);
                 check_range("sgd", "momentum", row[1], 0, 1);
                 check_range("sgd", "weight_decay", row[2], 0);
                 if (row[3] != 0 && row[1] == 0) {
                   throw Error("[sgd] nesterov needs a momentum above 0, such as 0.9");
                 }
               },
           .states = [](const std::vector<Row>& rows) -> std::vector<StateSpec> {
             const bool any = std::ranges::any_of(rows, [](const Row& row) { return row[1] > 0; });
             return any ? std::vector<StateSpec>{{.name = "momentum"}} : std::vector<StateSpec>{};
           }},
          groups, +[](const SgdOptions& options) {
            return Row{options.lr, options.momentum, options.weight_decay,
                       double(options.nesterov)};
          }) {}

void Sgd::run_step() {
  run(kernels::SgdStep{.values = arena().values(),
                       .grads = arena().gradients(),
                       .momentum = state_tensor("momentum"),
                       .masters = arena().masters(),
                       .segments = arena().segments(),
                       .groups = groups()});
}

}  // namespace adret
