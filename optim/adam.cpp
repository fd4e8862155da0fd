// Adam, AdamW, NAdam and RAdam: one kernel by different rules.
#include <adret/core/kernels/kernel.h>
#include <adret/optim/adam.h>

#include <type_traits>

namespace adret {
namespace {

using kernels::AdamRule;

template <class Options>
constexpr bool is_nadam = std::is_same_v<Options, NAdamOptions>;

template <class Options>
constexpr const char* name_of() {
  if (std::is_same_v<Options, AdamOptions>) return "adam";
  if (std::is_same_v<Options, AdamWOptions>) return "adamw";
  return is_nadam<Options> ? "nadam" : "radam";
}

template <class Options>
constexpr AdamRule rule_of() {
  if (is_nadam<Options>) return AdamRule::nadam;
  return std::is_same_v<Options, RAdamOptions> ? AdamRule::radam : AdamRule::adam;
}

template <class Options>
bool is_decoupled(const Options& options) {
  if constexpr (requires { options.decoupled_weight_decay; }) {
    return options.decoupled_weight_decay;
  } else {
    return std::is_same_v<Options, AdamWOptions>;
  }
}

// The columns are those of kernels::AdamGroup, of NAdam those of kernels::NAdamGroup.
template <class Options>
std::vector<std::string> columns() {
  std::vector<std::string> list = {"lr", "beta1", "beta2", "epsilon", "weight_decay", "decoupled"};
  if (is_nadam<Options>) list.push_back("momentum_decay");
  return list;
}

template <class Options>
std::vector<double> row_of(const Options& options) {
  std::vector<double> row = {options.lr,      options.beta1,        options.beta2,
                             options.epsilon, options.weight_decay, double(is_decoupled(options))};
  if constexpr (is_nadam<Options>) row.push_back(options.momentum_decay);
  return row;
}

template <class Options>
void check_row(const std::vector<double>& row) {
  constexpr const char* name = name_of<Options>();
  check_range(name, "lr", row[0], 0);
  check_beta(name, "beta1", row[1]);
  check_beta(name, "beta2", row[2]);
  check_range(name, "epsilon", row[3], 0);
  check_range(name, "weight_decay", row[4], 0);
  if (is_nadam<Options>) check_range(name, "momentum_decay", row[6], 0);
}

}  // namespace

template <class Options>
AdamFamily::AdamFamily(const std::vector<ParameterGroup<Options>>& groups)
    : Optimizer({.name = name_of<Options>(),
                 .columns = columns<Options>(),
                 .check = check_row<Options>,
                 .states = [](const std::vector<Row>&) -> std::vector<StateSpec> {
                   std::vector<StateSpec> specs = {{.name = "first_moment"},
                                                   {.name = "second_moment"},
                                                   {.name = "steps", .kind = StateKind::counter}};
                   if (is_nadam<Options>) {
                     specs.push_back({.name = "momentum_product", .kind = StateKind::factor});
                   }
                   return specs;
                 }},
                groups, row_of<Options>),
      rule_(rule_of<Options>()) {}

void AdamFamily::run_step() {
  run(kernels::AdamStep{.values = arena().values(),
                        .grads = arena().gradients(),
                        .first = state_tensor("first_moment"),
                        .second = state_tensor("second_moment"),
                        .masters = arena().masters(),
                        .steps = state_tensor("steps"),
                        .products = state_tensor("momentum_product"),
                        .segments = arena().segments(),
                        .groups = groups(),
                        .rule = rule_});
}

Adam::Adam(const std::vector<ParameterGroup<AdamOptions>>& groups) : AdamFamily(groups) {}
AdamW::AdamW(const std::vector<ParameterGroup<AdamWOptions>>& groups) : AdamFamily(groups) {}
NAdam::NAdam(const std::vector<ParameterGroup<NAdamOptions>>& groups) : AdamFamily(groups) {}
RAdam::RAdam(const std::vector<ParameterGroup<RAdamOptions>>& groups) : AdamFamily(groups) {}

}  // namespace adret
