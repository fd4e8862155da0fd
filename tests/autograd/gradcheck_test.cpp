// The gradient check itself: it finds wrong gradients of first and second order and says where.
#include <adret/autograd/gradcheck.h>
#include <adret/autograd/node.h>
#include <adret/autograd/ops/arithmetic.h>
#include <adret/core/error.h>

#include "tests/support/expect_error.h"
#include "tests/support/gradients.h"

namespace adret {
namespace {

using namespace test;
using Inputs = std::vector<Tensor>;

// x * c with a derivative in which one element is wrong.
struct WrongInOneElement final : Node {
  const char* name() const override { return "wrong"; }
  std::vector<Tensor> backward(const std::vector<Tensor>& grads) override {
    return {grads[0] * Tensor::from({3.0, 3.0, 3.0, 3.5}, {2, 2})};
  }
};

Tensor wrong(const Tensor& x) {
  const Tensor y = x.detach() * 3;
  record<WrongInOneElement>({y}, {x});
  return y;
}

// x^2 whose derivative is right, but built outside the graph.
struct CutBackward final : Node {
  explicit CutBackward(const Tensor& x) : x(x) {}
  const char* name() const override { return "cut"; }
  std::vector<Tensor> backward(const std::vector<Tensor>& grads) override {
    return {grads[0] * (x * 2)};
  }
  Tensor x;
};

Tensor cut(const Tensor& x) {
  const Tensor y = x.detach() * x.detach();
  record<CutBackward>({y}, {x}, x.detach());
  return y;
}

TEST(Gradcheck, NamesTheInputTheElementAndBothValues) {
  const Tensor constant = sequence({2, 2}), x = variable({2, 2});
  const std::string text =
      gradcheck([](const Inputs& in) { return in[0] + wrong(in[1]); }, {constant, x});
  // The last weight is cos(1.7 * 3 + 0.4) = 0.7087: times 3.5 and times 3.
  EXPECT_NE(text.find("[gradcheck] input 1 (2, 2), element 3 at (1, 1): backward gives 2.48"),
            std::string::npos)
      << text;
  EXPECT_NE(text.find("central differences 2.12"), std::string::npos) << text;
}

TEST(Gradcheck, FindsAGradientThatIsNotDifferentiable) {
  const Inputs inputs = {variable({3})};
  const auto function = [](const Inputs& in) { return cut(in[0]); };
  EXPECT_EQ(gradcheck(function, inputs), "");
  const std::string text = gradcheck(function, inputs, {.second = true});
  EXPECT_NE(text.find("[gradcheck] gradient of the gradient, input 0 (3,), element 0"),
            std::string::npos)
      << text;
}

TEST(Gradcheck, LeavesInputsAsTheyWere) {
  const Tensor x = variable({2, 2});
  const std::vector<double> before = x.to_vector<double>();
  EXPECT_EQ(gradcheck([](const Inputs& in) { return square(in[0]); }, {x}), "");
  EXPECT_EQ(x.to_vector<double>(), before);
  EXPECT_FALSE(x.grad().defined());
}

TEST(Gradcheck, WantsF64) {
  Tensor x = Tensor::ones({2});
  x.set_requires_grad(true);
  expect_error<ShapeError>(
      [&] { return gradcheck([](const Inputs& in) { return square(in[0]); }, {x}); },
      "[gradcheck] input (2,) is f32, wanted f64; convert it with to(DType::f64)");
}

TEST(Gradcheck, LooksAtSomeElements) {
  // Element 3 is the wrong one; every third is looked at, 0 and 3.
  const Tensor x = variable({2, 2});
  const auto function = [](const Inputs& in) { return wrong(in[0]); };
  EXPECT_NE(gradcheck(function, {x}, {.elements = 2}), "");
  EXPECT_EQ(gradcheck(function, {x}, {.elements = 1}), "");  // element 0 alone
  int calls = 0;
  const auto counted = [&](const Inputs& in) { return ++calls, in[0] * 2.0; };
  EXPECT_EQ(gradcheck(counted, {variable({100})}, {.elements = 10}), "");
  EXPECT_EQ(calls, 1 + 2 * 10);  // every 11th
}

}  // namespace
}  // namespace adret
