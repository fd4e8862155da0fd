// Adam, and Adam with decoupled weight decay.
#include <adret/core/error.h>
#include <adret/core/kernels/kernel.h>
#include <adret/optim/adam.h>
#include <fmt/core.h>

#include <limits>

namespace adret {
namespace {

void check_beta(const char* what, double beta) {
  if (beta >= 0 && beta < 1) return;
  throw Error(fmt::format("[adam] {} is {}; it must be at least 0 and below 1", what, beta));
}

}  // namespace

// The columns are those of kernels::AdamGroup.
template <class Options>
AdamFamily::AdamFamily(const char* name, const std::vector<ParameterGroup<Options>>& groups)
    : Optimizer(
          {.name = name,
           .columns = {"lr", "beta1", "beta2", "epsilon", "weight_decay", "decoupled"},
           .check =
               [](const Row& row) {
                 constexpr double infinity = std::numeric_limits<double>::infinity();
                 check_range("adam", "lr", row[0], 0, infinity);
                 check_beta("beta1", row[1]);
                 check_beta("beta2", row[2]);
                 check_range("adam", "epsilon", row[3], 0, infinity);
                 check_range("adam", "weight_decay", row[4], 0, infinity);
               },
           .states = [](const std::vector<Row>&) -> std::vector<StateSpec> {
             return {{.name = "first_moment"},
                     {.name = "second_moment"},
                     {.name = "steps", .kind = StateKind::counter}};
           }},
          groups, +[](const Options& options) {
            return Row{options.lr,           options.beta1,
                       options.beta2,        options.epsilon,
                       options.weight_decay, double(std::is_same_v<Options, AdamWOptions>)};
          }) {}

void AdamFamily::run_step() {
  run(kernels::AdamStep{.values = arena().values(),
                        .grads = arena().gradients(),
                        .first = state_tensor("first_moment"),
                        .second = state_tensor("second_moment"),
                        .masters = arena().masters(),
                        .steps = state_tensor("steps"),
                        .segments = arena().segments(),
                        .groups = groups()});
}

Adam::Adam(const std::vector<ParameterGroup<AdamOptions>>& groups) : AdamFamily("adam", groups) {}
AdamW::AdamW(const std::vector<ParameterGroup<AdamWOptions>>& groups)
    : AdamFamily("adamw", groups) {}

}  // namespace adret
