// Functions on a second device: copies, whole networks, and operands on different devices.
#include <adret/autograd/engine.h>
#include <adret/autograd/ops/arithmetic.h>
#include <adret/autograd/ops/conv.h>
#include <adret/autograd/ops/dropout.h>
#include <adret/autograd/ops/inplace.h>
#include <adret/autograd/ops/loss.h>
#include <adret/autograd/ops/matmul.h>
#include <adret/autograd/ops/norm.h>
#include <adret/autograd/ops/pool.h>
#include <adret/autograd/ops/reduce.h>
#include <adret/autograd/ops/regression_loss.h>
#include <adret/autograd/ops/shape.h>
#include <adret/core/error.h>
#include <adret/core/random.h>

#include "tests/support/close.h"
#include "tests/support/expect_error.h"
#include "tests/support/gradients.h"
#include "tests/support/mirror.h"

namespace adret {
namespace {

using namespace test;

constexpr Device cuda = Device::cuda();
using Values = std::vector<double>;

struct OnTwoDevices : testing::Test {
  SecondDevice second;
};

TEST_F(OnTwoDevices, ToPassesTheGradientBackToTheOldDevice) {
  const Tensor x = variable({2, 3});
  const Tensor y = x.to(cuda);
  EXPECT_EQ(y.device(), cuda);
  EXPECT_EQ(y.to_vector<double>(), x.to_vector<double>());
  const Tensor slope = grad({sum(y * y * y)}, {x}, {.create_graph = true})[0];
  EXPECT_TRUE(slope.device().is_cpu());
  Values second = x.to_vector<double>();
  for (double& value : second) value *= 6;
  expect_values(grad({sum(slope)}, {x})[0], {2, 3}, second);
}

TEST_F(OnTwoDevices, CopyInPlaceCrossesDevices) {
  NoGrad no_grad;
  const Tensor here = Tensor::from({1.0f, 2.0f}, {2}), there = Tensor::zeros({2}, {.device = cuda});
  const Tensor also_there = Tensor::zeros({2}, {.device = cuda});
  copy_(there, here);
  copy_(also_there, there);
  fill_(here, 0);
  copy_(here, also_there);
  EXPECT_EQ(here.to_vector(), (std::vector<float>{1, 2}));
}

// Gradients of a small network's weights.
std::vector<Values> network_gradients(Device device) {
  random::manual_seed(11);
  const auto place = [&](const Tensor& tensor) {
    Tensor leaf = tensor.to(device).detach();
    return leaf.set_requires_grad(true);
  };
  const Tensor x = sequence({2, 6, 6, 1}).to(device);
  const Tensor labels = Tensor::from({1, 0}, {2}).to(device);
  const std::vector<Tensor> weights = {place(sequence({2, 3, 3, 1}, 5)), place(sequence({2}, 2)),
                                       place(sequence({2, 8}, 11))};
  Tensor h = conv2d(x, weights[0], {}, {.activation = Activation::relu});
  h = batch_norm(max_pool2d(h, 2), weights[1], {}, {}, {});
  h = linear(dropout(flatten(h), 0.25, true), weights[2]);
  const Tensor loss = cross_entropy(h, labels, {.label_smoothing = 0.1});
  EXPECT_EQ(loss.device(), device);
  std::vector<Values> result;
  for (const bool create_graph : {false, true}) {
    for (const Tensor& gradient :
         grad({loss}, weights, {.create_graph = create_graph, .retain_graph = true})) {
      result.push_back(gradient.to_vector<double>());
    }
  }
  return result;
}

TEST_F(OnTwoDevices, ANetworkHasTheSameGradients) {
  const MirrorPause pause;  // what lies on the CPU is computed there
  const std::vector<Values> there = network_gradients(cuda),
                            here = network_gradients(Device::cpu());
  ASSERT_EQ(there.size(), here.size());
  for (size_t i = 0; i < here.size(); ++i) {
    expect_close(there[i], here[i], {.relative = 1e-12, .absolute = 1e-12}, std::to_string(i));
  }
}

TEST_F(OnTwoDevices, FunctionsRefuseToMixThem) {
  const Tensor here = Tensor::ones({2, 2}), there = here.to(cuda), vector = Tensor::ones({2});
  expect_error<DeviceError>([&] { return here + there; },
                            "[add] a (2, 2) is on cpu, b (2, 2) on cuda:0; move one with "
                            "to(device)");
  expect_error<DeviceError>([&] { return less(there, here); }, "[less] a (2, 2) is on cuda:0");
  expect_error<DeviceError>([&] { return matmul(here, there); }, "[matmul] a (2, 2) is on cpu");
  expect_error<DeviceError>([&] { return linear(here, there); },
                            "[linear] x (2, 2) is on cpu, weight (2, 2) on cuda:0");
  expect_error<DeviceError>([&] { return linear(there, there, vector); },
                            "[linear] x (2, 2) is on cuda:0, bias (2,) on cpu");
  expect_error<DeviceError>([&] { return concatenate({here, there}, 0); }, "[concatenate]");
  expect_error<DeviceError>([&] { return batch_norm(there, vector, {}, {}, {}); },
                            "[batch_norm] x (2, 2) is on cuda:0, weight (2,) on cpu");
  expect_error<DeviceError>(
      [&] {
        return cross_entropy(there, Tensor::from({0, 1}, {2}));
      },
      "[cross_entropy] logits (2, 2) is on cuda:0, labels (2,) on cpu");
  expect_error<DeviceError>([&] { return mse_loss(here, there); }, "[mse_loss] prediction");
  NoGrad no_grad;
  expect_error<DeviceError>([&] { return add_(here, there), 0; },
                            "[add_] to (2, 2) is on cpu, from (2, 2) on cuda:0");
}

}  // namespace
}  // namespace adret
