// Lion.
#include <adret/core/kernels/kernel.h>
#include <adret/optim/lion.h>

namespace adret {

// The columns are those of kernels::LionGroup.
Lion::Lion(const std::vector<ParameterGroup<LionOptions>>& groups)
    : Optimizer(
          {.name = "lion",
           .columns = {"lr", "beta1", "beta2", "weight_decay"},
           .check =
               [](const Row& row) {
                 check_range("lion", "lr", row[0], 0);
                 check_beta("lion", "beta1", row[1]);
                 check_beta("lion", "beta2", row[2]);
                 check_range("lion", "weight_decay", row[3], 0);
               },
           .states = [](const std::vector<Row>&) -> std::vector<StateSpec> {
             return {{.name = "momentum"}};
           }},
          groups, +[](const LionOptions& options) {
            return Row{options.lr, options.beta1, options.beta2, options.weight_decay};
          }) {}

void Lion::run_step() {
  run(kernels::LionStep{.values = arena().values(),
                        .grads = arena().gradients(),
                        .momentum = state_tensor("momentum"),
                        .masters = arena().masters(),
                        .segments = arena().segments(),
                        .groups = groups()});
}

}  // namespace adret
