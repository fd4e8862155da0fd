// Whoever takes a function to call says so when it gets an empty one, before anything runs.
#include <adret/autograd/checkpoint.h>
#include <adret/autograd/gradcheck.h>
#include <adret/autograd/hooks.h>
#include <adret/core/error.h>
#include <adret/layers/linear.h>
#include <adret/optim/lbfgs.h>
#include <adret/optim/lr_schedule.h>
#include <adret/optim/sgd.h>
#include <adret/train/progress.h>
#include <adret/train/step.h>
#include <adret/train/trainer.h>
#include <gtest/gtest.h>

#include <functional>
#include <sstream>
#include <utility>
#include <vector>

#include "tests/support/expect_error.h"

namespace adret {
namespace {

using namespace test;

using OfList = std::function<Tensor(const std::vector<Tensor>&)>;
using OfOne = std::function<Tensor(const Tensor&)>;

TEST(EmptyFunctions, AreRefusedByName) {
  Linear model(2, 2), other(2, 2);
  Sgd sgd(model, {.lr = 1});
  Lbfgs lbfgs(other);
  Tensor x = Tensor::ones({2}, {.dtype = DType::f64});
  x.set_requires_grad(true);
  std::ostringstream out;
  Tensor (*const pointer)(const Tensor&) = nullptr;
  const std::vector<std::pair<std::function<void()>, const char*>> cases = {
      {[&] { lbfgs.step(Lbfgs::Closure()); }, "[lbfgs] the closure is empty"},
      {[&] { checkpoint(OfList(), std::vector<Tensor>{x}); }, "[checkpoint] the function is empty"},
      {[&] { checkpoint(OfOne(), x); }, "[checkpoint] the function is empty"},
      {[&] { checkpoint(pointer, x); }, "[checkpoint] the function is empty"},
      {[&] { gradcheck(OfList(), {x}); }, "[gradcheck] the function is empty"},
      {[&] { add_gradient_hook(x, {}); }, "[add_gradient_hook] the hook is empty"},
      {[&] { model.add_forward_hook({}); }, "[module] the hook is empty"},
      {[&] { model.add_forward_pre_hook({}); }, "[module] the hook is empty"},
      {[&] { model.add_backward_hook({}); }, "[module] the hook is empty"},
      {[&] { Step{OfOne()}; }, "[Step] the function is empty"},
      {[&] { Step{pointer}; }, "[Step] the function is empty"},
      {[&] { sequence_lr({{}}, {}); }, "[sequence_lr] schedule 0 is empty"},
      {[&] { Trainer(model, sgd, {.loss = {}}); }, "[Trainer] the loss is empty"},
      {[&] { Trainer(model, sgd, {.clock = {}}); }, "[Trainer] the clock is empty"},
      {[&] { ProgressBar(out, {.clock = {}}); }, "[ProgressBar] the clock is empty"}};
  for (const auto& [call, text] : cases) {
    expect_error<Error>([&, &call = call] { return call(), 0; }, text);
  }
}

}  // namespace
}  // namespace adret
