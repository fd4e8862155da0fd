// Steps of the optimizers, with ResNet-18's parameters. They have no gradient of their own.
#pragma once

#include <memory>

#include "function_cases.h"

namespace adret::bench {

struct OptimizerCases : FunctionCases {
  OptimizerCases(int64_t n, const TensorOptions& options) : FunctionCases{n, options} {
    step<Sgd>("sgd", SgdOptions{.lr = 1e-5, .momentum = 0.9});
    step<Adam>("adam", AdamOptions{.lr = 1e-5});
    step<AdamW>("adamw", AdamWOptions{.lr = 1e-5});
    step<Rmsprop>("rmsprop", RmspropOptions{.lr = 1e-5});
  }

  // A model with gradients, made when first asked for.
  template <class Optimizer, class Options>
  void step(const std::string& name, const Options& update) {
    struct State {
      ResNet model = resnet18();
      std::unique_ptr<Optimizer> optimizer;
    };
    const auto made = std::make_shared<std::unique_ptr<State>>();
    const auto make = [=, options = options] {
      auto state = std::make_unique<State>();
      state->model.to(options.device);
      state->model.to(options.dtype);
      state->optimizer = std::make_unique<Optimizer>(state->model, update);
      const GradMode grad_mode(true);
      const Tensor x = randn({2, 32, 32, 3}).to(options.device).to(options.dtype);
      sum(state->model(x)).backward();
      return state;
    };
    add(
        name + " step", {},
        [=](Inputs) {
          if (!*made) *made = make();
          (*made)->optimizer->step();
          return Tensor();
        },
        false);
  }
};

}  // namespace adret::bench
