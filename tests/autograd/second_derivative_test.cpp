// Second derivatives through whole networks.
#include <adret/autograd/engine.h>
#include <adret/autograd/ops/activation.h>
#include <adret/autograd/ops/arithmetic.h>
#include <adret/autograd/ops/conv.h>
#include <adret/autograd/ops/loss.h>
#include <adret/autograd/ops/matmul.h>
#include <adret/autograd/ops/norm.h>
#include <adret/autograd/ops/pool.h>
#include <adret/autograd/ops/reduce.h>
#include <adret/autograd/ops/shape.h>
#include <adret/autograd/ops/softmax.h>
#include <adret/core/backend.h>

#include "tests/support/gradients.h"

namespace adret {
namespace {

using namespace test;
using Inputs = std::vector<Tensor>;

// (|d(critic)/dx| - 1)^2 over the samples, as in Gulrajani et al. 2017.
Tensor gradient_penalty(const Tensor& scores, const Tensor& x) {
  const Tensor dx = grad({sum(scores)}, {x}, {.create_graph = true})[0];
  const Tensor norms = sqrt(sum(square(dx), {.dims = {1, 2, 3}}) + 1e-12);
  return mean(square(norms - 1));
}

// Values: PyTorch 1.13.
TEST(SecondDerivative, OfAGradientPenaltyHasPyTorchsValues) {
  const Tensor x = variable({2, 4, 4, 1}), kernel = variable({2, 3, 3, 1}, 5);
  const Tensor bias = variable({2}, 9), weight = variable({1, 8}, 11), offset = variable({1}, 13);
  for (const bool fused : {false, true}) {
    const Tensor hidden = fused ? conv2d(x, kernel, bias, {.activation = Activation::relu})
                                : relu(conv2d(x, kernel, bias));
    const Tensor penalty = gradient_penalty(linear(flatten(hidden), weight, offset), x);
    expect_values(penalty, {}, {14.33048018});
    const std::vector<Tensor> d = grad({penalty}, {kernel, weight});
    expect_values(
        d[0], {2, 3, 3, 1},
        {-2.931380749, -1.239053674, 3.779277059, -2.810707359, -1.126428027, 3.139131315,
         -2.19676766, -1.136632743, 3.260457025, 0.1710703444, 0.5384101549, -4.113464777,
         0.0281303879, 1.478900186, -3.538882757, 0.3275136328, 1.549966563, -3.149880946});
    expect_values(d[1], {1, 8},
                  {-3.325668439, -3.907512771, 10.20398674, -6.049980951, -1.717800231, 3.927937065,
                   -7.497972204, 9.928022784});
  }
}

TEST(SecondDerivative, OfANetworkWithPoolingAndNormalisation) {
  const Tensor labels = Tensor::from({1, 0}, {2});
  const auto network = [&](const Inputs& in) {
    Tensor h = max_pool2d(gelu(conv2d(in[0], in[1])), 2, {.stride = 1});
    h = tanh(batch_norm(h, in[2], {}, {}, {}));
    return cross_entropy(linear(flatten(h), in[3]), labels, {.label_smoothing = 0.1});
  };
  expect_gradients(network, {variable({2, 4, 3, 1}), variable({2, 2, 2, 1}, 5), variable({2}, 2),
                             variable({2, 4}, 11)});
}

// Outputs that their own nodes saved, and graphs that no backward walked, are all given back.
TEST(SecondDerivative, LeavesNoMemoryBehind) {
  const Tensor x = variable({2, 4, 4, 1}), kernel = variable({2, 3, 3, 1}, 5);
  const auto step = [&](bool walk) {
    const Tensor h = conv2d(x, kernel, {}, {.activation = Activation::relu});
    const Tensor y = sum(softmax(sqrt(exp(sigmoid(tanh(max_pool2d(h, 2)))))) * log_softmax(h));
    if (walk) grad({sum(square(grad({y}, {x}, {.create_graph = true})[0]))}, {kernel});
  };
  const auto in_use = [] { return backend_for(Device::cpu()).services().pool().stats().current; };
  step(true);
  const size_t before = in_use();
  for (int i = 0; i < 100; ++i) step(i % 2 == 0);
  EXPECT_EQ(in_use(), before);
}

}  // namespace
}  // namespace adret
