// LAMB.
#include <adret/core/kernels/kernel.h>
#include <adret/optim/lamb.h>

namespace adret {

// The columns are those of kernels::LambGroup.
Lamb::Lamb(const std::vector<ParameterGroup<LambOptions>>& groups)
    : Optimizer(
          {.name = "lamb",
           .columns = {"lr", "beta1", "beta2", "epsilon", "weight_decay"},
           .check =
               [](const Row& row) {
                 check_range("lamb", "lr", row[0], 0);
                 check_beta("lamb", "beta1", row[1]);
                 check_beta("lamb", "beta2", row[2]);
                 check_range("lamb", "epsilon", row[3], 0);
                 check_range("lamb", "weight_decay", row[4], 0);
               },
           .states = [](const std::vector<Row>&) -> std::vector<StateSpec> {
             return {{.name = "first_moment"},
                     {.name = "second_moment"},
                     {.name = "steps", .kind = StateKind::counter}};
           }},
          groups, +[](const LambOptions& options) {
            return Row{options.lr, options.beta1, options.beta2, options.epsilon,
                       options.weight_decay};
          }) {}

void Lamb::run_step() {
  run(kernels::LambStep{.values = arena().values(),
                        .grads = arena().gradients(),
                        .first = state_tensor("first_moment"),
                        .second = state_tensor("second_moment"),
                        .masters = arena().masters(),
                        .steps = state_tensor("steps"),
                        .segments = arena().segments(),
                        .groups = groups()});
}

}  // namespace adret
