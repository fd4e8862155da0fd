// The math mode of a scope reaches every product of a function, its gradients' included.
#include <adret/autograd/engine.h>
#include <adret/autograd/ops/arithmetic.h>
#include <adret/autograd/ops/conv.h>
#include <adret/autograd/ops/matmul.h>
#include <adret/autograd/ops/reduce.h>
#include <adret/core/compute_mode.h>
#include <adret/core/kernels/kernel.h>

#include "tests/support/gradients.h"

#include <functional>
#include <map>
#include <string>
#include <vector>

namespace adret {
namespace {

using namespace test;

// Counts the products that run, by kernel and mode.
class ProductModes final : public Decorator {
 public:
  std::map<std::string, int> exact, tf32;
  std::vector<std::string> tf32_texts;

  void run(const Kernel& call) override {
    std::visit(
        [&](const auto& kernel) {
          if constexpr (requires { kernel.math; }) {
            const bool fast = kernel.math == MathMode::tf32;
            ++(fast ? tf32 : exact)[kernel.name];
            if (fast) tf32_texts.push_back(to_string(call));
          }
        },
        call.any());
    forward(call);
  }
};

ComputeMode tf32_mode() {
  ComputeMode mode = compute_mode();
  mode.math = MathMode::tf32;
  return mode;
}

struct Case {
  const char* name;
  std::function<Tensor(const std::vector<Tensor>&)> function;
  std::vector<Shape> operands;
  std::map<std::string, int> products;  // of the forward and the first derivative
};

const Case cases[] = {
    {"matmul",
     [](const auto& in) { return matmul(in[0], in[1]); },
     {{3, 4}, {4, 2}},
     {{"matmul", 3}}},
    {"linear",
     [](const auto& in) { return linear(in[0], in[1], in[2], {.activation = Activation::gelu}); },
     {{3, 4}, {2, 4}, {2}},
     {{"linear_forward", 1}, {"linear_backward_input", 1}, {"linear_backward_weight", 1}}},
    {"conv2d",
     [](const auto& in) { return conv2d(in[0], in[1], in[2]); },
     {{1, 4, 4, 2}, {3, 3, 3, 2}, {3}},
     {{"conv2d_forward", 1}, {"conv2d_backward_input", 1}, {"conv2d_backward_weight", 1}}},
};

std::vector<Tensor> operands_of(const Case& test) {
  std::vector<Tensor> operands;
  for (const Shape& shape : test.operands) operands.push_back(variable(shape));
  return operands;
}

TEST(MathMode, OfTheForwardIsThatOfItsGradientsWhereverTheyRun) {
  for (const Case& test : cases) {
    SCOPED_TRACE(test.name);
    const std::vector<Tensor> operands = operands_of(test);
    ProductModes seen;
    Tensor loss;
    {
      const ComputeModeScope scope(tf32_mode());
      loss = sum(test.function(operands));
    }
    loss.backward();
    EXPECT_EQ(seen.tf32, test.products);
    EXPECT_TRUE(seen.exact.empty());
    for (const std::string& text : seen.tf32_texts) EXPECT_TRUE(text.ends_with(" tf32")) << text;
  }
}

TEST(MathMode, OfAnExactForwardStaysExactInAScope) {
  for (const Case& test : cases) {
    SCOPED_TRACE(test.name);
    const std::vector<Tensor> operands = operands_of(test);
    ProductModes seen;
    const Tensor loss = sum(test.function(operands));
    const ComputeModeScope scope(tf32_mode());
    loss.backward();
    EXPECT_EQ(seen.exact, test.products);
    EXPECT_TRUE(seen.tf32.empty());
  }
}

TEST(MathMode, ReachesTheSecondDerivative) {
  for (const Case& test : cases) {
    SCOPED_TRACE(test.name);
    const std::vector<Tensor> operands = operands_of(test);
    ProductModes seen;
    Tensor loss;
    {
      const ComputeModeScope scope(tf32_mode());
      loss = sum(square(test.function(operands)));
    }
    const std::vector<Tensor> first = grad({loss}, operands, {.create_graph = true});
    sum(square(first[0])).backward();
    EXPECT_TRUE(seen.exact.empty());
  }
}

}  // namespace
}  // namespace adret
