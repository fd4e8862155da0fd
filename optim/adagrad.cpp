// Adagrad: the kernel of RMSprop with sums of squares.
#include <adret/autograd/grad_mode.h>
#include <adret/autograd/ops/inplace.h>
#include <adret/core/kernels/kernel.h>
#include <adret/optim/adagrad.h>

namespace adret {
// The columns are those of kernels::RmsGroup.
Adagrad::Adagrad(const std::vector<ParameterGroup<AdagradOptions>>& groups)
    : Optimizer(
          {.name = "adagrad",
           .columns = {"lr", "lr_decay", "alpha", "epsilon", "weight_decay", "momentum",
                       "centered"},
           .check =
               [](const Row& row) {
                 check_range("adagrad", "lr", row[0], 0);
                 check_range("adagrad", "lr_decay", row[1], 0);
                 check_range("adagrad", "epsilon", row[3], 0);
                 check_range("adagrad", "weight_decay", row[4], 0);
               },
           .states = [](const std::vector<Row>&) -> std::vector<StateSpec> {
             return {{.name = "sum"}, {.name = "steps", .kind = StateKind::counter}};
           }},
          groups, +[](const AdagradOptions& options) {
            return Row{options.lr, options.lr_decay, 1, options.epsilon, options.weight_decay, 0,
                       0};
          }) {
  const NoGrad no_grad;
  for (size_t i = 0; i < arena().parameters().size(); ++i) {
    const double value = groups[size_t(arena().segment(i).group)].options.initial_accumulator_value;
    check_range("adagrad", "initial_accumulator_value", value, 0);
    if (value != 0) fill_(arena().state_of(state_tensor("sum"), i), value);
  }
}

void Adagrad::run_step() {
  run(kernels::RmsStep{.values = arena().values(),
                       .grads = arena().gradients(),
                       .squares = state_tensor("sum"),
                       .masters = arena().masters(),
                       .steps = state_tensor("steps"),
                       .segments = arena().segments(),
                       .groups = groups()});
}

}  // namespace adret
