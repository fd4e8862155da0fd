// Networks on a second device beside the same on the CPU: weights, masks, gradients, steps.
#include <adret/autograd/ops/arithmetic.h>
#include <adret/autograd/ops/conv.h>
#include <adret/autograd/ops/dropout.h>
#include <adret/autograd/ops/loss.h>
#include <adret/autograd/ops/matmul.h>
#include <adret/autograd/ops/reduce.h>
#include <adret/core/decorators/shadow.h>
#include <adret/core/random.h>
#include <adret/layers/activation.h>
#include <adret/layers/dropout.h>
#include <adret/layers/flatten.h>
#include <adret/layers/init.h>
#include <adret/layers/models/lenet.h>
#include <adret/layers/models/mlp.h>
#include <adret/layers/models/mnist_cnn.h>
#include <adret/layers/norm.h>
#include <adret/layers/pool.h>
#include <adret/layers/sequential.h>
#include <adret/optim/adam.h>
#include <adret/optim/sgd.h>

#include <functional>
#include <memory>

#include "tests/support/guarded.h"
#include "tests/support/second_device_test.h"

namespace adret {
namespace {

using namespace test;

struct Networks : OnSecondDevice {
  void SetUp() override { random::manual_seed(5); }
};

Tensor random_tensor(const Shape& shape, uint32_t seed) {
  return Tensor::from(random_values(shape.numel(), seed), shape).to(DType::f32);
}

Tensor labels_of(int64_t n) {
  std::vector<int32_t> labels;
  for (int64_t i = 0; i < n; ++i) labels.push_back(int32_t(i * 7 % 10));
  return Tensor::from(labels, {n});
}

// Every layer there is.
std::unique_ptr<Module> varied_network() {
  return std::make_unique<Sequential>(
      Conv2d(1, 8, {.kernel = 5, .stride = 2, .padding = 2, .bias = false}), BatchNorm2d(8), ReLU(),
      Conv2d(8, 8, {.kernel = 3, .padding = 2, .dilation = 2, .groups = 4}), GELU(),
      MaxPool2d(3, {.stride = 2, .padding = 1}),
      Conv2d(8, 8, {.kernel = 3, .padding = 1, .groups = 8}), Tanh(), AvgPool2d(2), Dropout(0.3),
      Flatten(), Linear(72, 24), Sigmoid(), Linear(24, 10));
}

struct NamedNetwork {
  const char* name;
  std::function<std::unique_ptr<Module>()> make;
};
const NamedNetwork networks[] = {{"mlp", [] { return std::make_unique<Mlp>(); }},
                                 {"lenet", [] { return std::make_unique<LeNet>(); }},
                                 {"cnn", [] { return std::make_unique<MnistCnn>(); }},
                                 {"varied", varied_network}};

TEST_F(Networks, OfOneSeedStartEqualWhereverTheyAreMade) {
  for (const Shape& shape : {Shape{16, 3, 3, 5}, Shape{101, 7}}) {
    for (DType dtype : {DType::f32, DType::f64}) {
      for (const auto& fill : std::vector<std::function<void(const Tensor&)>>{
               [](const Tensor& x) { init::normal_(x, 0.5, 2); },
               [](const Tensor& x) { init::uniform_(x, -1, 3); },
               [](const Tensor& x) { init::kaiming_normal_(x); },
               [](const Tensor& x) { init::xavier_uniform_(x); }}) {
        const Tensor here = Tensor::empty(shape, {.dtype = dtype}),
                     there = Tensor::empty(shape, {.dtype = dtype, .device = second});
        random::manual_seed(9);
        fill(here);
        random::manual_seed(9);
        fill(there);
        EXPECT_EQ(values_of(there), values_of(here)) << to_string(shape) << name(dtype);
      }
    }
  }
}

TEST_F(Networks, DrawTheSameMasksInEveryStep) {
  const Tensor here = random_tensor({33, 77}, 1), there = here.to(second);
  for (int64_t step : {0, 1, 1000, 3}) {
    for (double p : {0.1, 0.5}) {
      random::begin_step(step);
      const std::vector<double> mask = values_of(dropout(here, p, true));
      random::begin_step(step);
      const std::vector<double> mask_there = values_of(dropout(there, p, true));
      size_t different = 0;
      for (size_t i = 0; i < mask.size(); ++i) different += (mask[i] == 0) != (mask_there[i] == 0);
      EXPECT_EQ(different, 0u) << "step " << step << " p " << p;
      EXPECT_LE(relative_difference(mask_there, mask), 1e-6);
    }
  }
}

// Logits, then the gradient of every parameter for a loss times `scale`, then every buffer.
std::vector<Tensor> forward_and_backward(Module& model, const Tensor& images, const Tensor& labels,
                                         double scale = 1) {
  random::begin_step(0);
  const Tensor logits = model.call(images);
  (cross_entropy(logits, labels) * scale).backward();
  std::vector<Tensor> result{logits.detach()};
  for (const auto& parameter : model.parameters()) result.push_back(parameter->value.grad());
  for (const NamedTensor& buffer : model.named_buffers()) result.push_back(buffer.tensor);
  return result;
}

TEST_F(Networks, HaveTheGradientsOfTheCpu) {
  for (const NamedNetwork& network : networks) {
    for (int64_t batch : {1, 13}) {
      const Tensor images = random_tensor({batch, 28, 28, 1}, 3), labels = labels_of(batch);
      random::manual_seed(2);
      const std::unique_ptr<Module> here = network.make();
      random::manual_seed(2);
      const std::unique_ptr<Module> there = network.make();
      there->to(second);
      const auto expected = forward_and_backward(*here, images, labels);
      const auto actual = forward_and_backward(*there, images.to(second), labels.to(second));
      ASSERT_EQ(actual.size(), expected.size());
      for (size_t i = 0; i < actual.size(); ++i) {
        // f32 through up to fourteen layers, sums of up to 9216 products.
        expect_alike(actual[i], expected[i], 1e-4,
                     std::string(network.name) + " of batch " + std::to_string(batch) +
                         ", tensor " + std::to_string(i));
      }
    }
  }
}

double norm_of(const std::vector<double>& values) {
  double sum = 0;
  for (double v : values) sum += v * v;
  return std::sqrt(sum);
}

TEST_F(Networks, HaveNearlyTheSameGradientsIn16Bits) {
  const Tensor images = random_tensor({13, 28, 28, 1}, 3), labels = labels_of(13);
  const double scale = 1024;  // f16 knows nothing below 6e-8
  for (const NamedNetwork& network : networks) {
    random::manual_seed(2);
    const std::unique_ptr<Module> here = network.make();
    const auto expected = forward_and_backward(*here, images, labels, scale);
    for (DType dtype : {DType::bf16, DType::f16}) {
      random::manual_seed(2);
      const std::unique_ptr<Module> there = network.make();
      there->to(second);
      there->to(dtype);
      const auto actual =
          forward_and_backward(*there, images.to(second).to(dtype), labels.to(second), scale);
      for (size_t i = 0; i < actual.size(); ++i) {
        const std::vector<double> e = values_of(expected[i]), a = values_of(actual[i]);
        if (!is_floating(expected[i].dtype())) continue;  // a count of batches
        std::vector<double> difference;
        for (size_t j = 0; j < e.size(); ++j) difference.push_back(a[j] - e[j]);
        // Each layer rounds by 2^-9 or 2^-12 of its values; where a ReLU or the winner of a window
        // turns over, a part of the gradient moves (8 % in f16 on the CPU, for LeNet).
        EXPECT_LE(norm_of(difference), (dtype == DType::bf16 ? 0.3 : 0.15) * norm_of(e))
            << network.name << " in " << name(dtype) << ", tensor " << i << ": "
            << norm_of(difference) / norm_of(e);
      }
    }
  }
}

// pytorch/pytorch#79270, #107514: f32 is exact by default, not rounded to 10 bits unasked.
TEST_F(Networks, MultiplyF32Exactly) {
  const auto compare = [](const Tensor& y, const Tensor& exact, const char* what) {
    // A sum of n products wanders by sqrt(n) roundings of 6e-8; TF32 would be off by about 3e-4.
    expect_alike(y, exact, 1e-5, what);
  };
  for (int64_t depth : {64, 784, 4096}) {
    const Tensor a = random_tensor({128, depth}, 1), b = random_tensor({depth, 96}, 2);
    compare(matmul(a.to(second), b.to(second)), matmul(a.to(DType::f64), b.to(DType::f64)),
            "matmul");
  }
  const Tensor x = random_tensor({4, 14, 14, 64}, 3), weight = random_tensor({32, 3, 3, 64}, 4);
  compare(conv2d(x.to(second), weight.to(second)), conv2d(x.to(DType::f64), weight.to(DType::f64)),
          "conv2d");
}

using MakeOptimizer = std::function<std::unique_ptr<Optimizer>(Module&)>;
const std::vector<std::pair<const char*, MakeOptimizer>> optimizers = {
    {"sgd",
     [](Module& m) {
       return std::make_unique<Sgd>(
           m, SgdOptions{.lr = 0.1, .momentum = 0.9, .weight_decay = 1e-3, .nesterov = true});
     }},
    {"adam", [](Module& m) { return std::make_unique<Adam>(m, AdamOptions{.lr = 0.01}); }},
};

// The weights and the norm of the gradients after five steps with given gradients.
std::vector<Tensor> stepped(const MakeOptimizer& make, Device device) {
  random::manual_seed(4);
  LeNet model;
  model.to(device);
  const std::unique_ptr<Optimizer> optimizer = make(model);
  Tensor norm;
  for (uint32_t step = 0; step < 5; ++step) {
    uint32_t seed = 100 * step;
    Tensor loss = Tensor::zeros({}, {.device = device});
    for (const auto& parameter : model.parameters()) {
      if (seed++ % 7 == 3) continue;  // some get no gradient, the others this one
      const Tensor gradient = random_tensor(parameter->value.shape(), seed).to(device);
      loss = loss + sum(parameter->value * gradient);
    }
    loss.backward();
    norm = optimizer->clip_norm(3);
    optimizer->clip_value(0.05);
    optimizer->set_lr(0.1 / (step + 1));
    optimizer->step();
    optimizer->zero_grad();
  }
  std::vector<Tensor> result{norm};
  for (const auto& parameter : model.parameters()) result.push_back(parameter->value.clone());
  for (const NamedTensor& state : optimizer->state().tensors) result.push_back(state.tensor);
  return result;
}

TEST_F(Networks, TakeTheStepsOfTheCpu) {
  for (const auto& [name, make] : optimizers) {
    const std::vector<Tensor> there = stepped(make, second), here = stepped(make, Device::cpu());
    ASSERT_EQ(there.size(), here.size());
    for (size_t i = 0; i < here.size(); ++i) {
      // f32, five steps; the order of the operations may differ in the last bits.
      expect_alike(there[i], here[i], 2e-6, std::string(name) + ", tensor " + std::to_string(i));
    }
  }
}

TEST_F(Networks, DifferInNoCallOfAShadowRun) {
  for (const NamedNetwork& network : networks) {
    const std::unique_ptr<Module> model = network.make();
    Sgd optimizer(*model, {.lr = 0.01, .momentum = 0.9});
    Shadow shadow;
    for (int step = 0; step < 2; ++step) {
      optimizer.zero_grad();
      cross_entropy(model->call(random_tensor({8, 28, 28, 1}, 6)), labels_of(8)).backward();
      optimizer.step();
    }
    EXPECT_GT(shadow.compared(), 20);
    for (const ShadowDifference& difference : shadow.differences()) {
      ADD_FAILURE() << network.name << ": " << to_string(difference);
    }
  }
}

}  // namespace
}  // namespace adret
