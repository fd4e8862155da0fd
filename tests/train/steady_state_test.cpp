// What long trainings rest on: memory that settles, and bits that do not depend on the threads.
#include <adret/autograd/ops/loss.h>
#include <adret/core/backend.h>
#include <adret/core/random.h>
#include <adret/core/thread_pool.h>
#include <adret/layers/init.h>
#include <adret/layers/models/lenet.h>
#include <adret/layers/models/mnist_cnn.h>
#include <adret/optim/adam.h>
#include <adret/optim/sgd.h>
#include <gtest/gtest.h>

#include "tests/support/mirror.h"

namespace adret {
namespace {

struct Data {
  Tensor images, labels;
  explicit Data(int64_t n) : images(Tensor::empty({n, 28, 28, 1})) {
    init::normal_(images, 0, 1);
    std::vector<int64_t> classes = random::permutation(n, random::next(RandomStream::user), 0);
    for (int64_t& label : classes) label %= 10;
    labels = Tensor::from(classes, {n});
  }
};

void step(Module& model, Optimizer& optimizer, const Data& data) {
  optimizer.zero_grad();
  cross_entropy(model.call(data.images), data.labels).backward();
  optimizer.step();
}

TEST(SteadyState, TenThousandStepsTakeNoMoreMemoryThanTen) {
  ADRET_CPU_ONLY("it counts what the CPU's pool holds; tests/cuda has the GPU's");
  random::manual_seed(1);
  LeNet model;
  Sgd optimizer(model, {.lr = 0.001, .momentum = 0.9});
  // A last partial batch comes by now and then, as in every epoch.
  const Data batch(2), partial(1);
  MemoryPool& pool = backend_for(Device::cpu()).services().pool();
  const auto train = [&](int steps) {
    for (int i = 0; i < steps; ++i) step(model, optimizer, i % 5 == 4 ? partial : batch);
  };
  train(10);
  const MemoryStats settled = pool.stats();
  train(10000);
  const MemoryStats after = pool.stats();
  EXPECT_EQ(after.misses, settled.misses);
  EXPECT_EQ(after.reserved, settled.reserved);
  EXPECT_EQ(after.current, settled.current);
  EXPECT_EQ(after.peak, settled.peak);
}

// The parameters after a few steps.
template <class Model, class Optimizer, class Options>
std::vector<float> trained(int threads, const Options& options) {
  set_num_threads(threads);
  random::manual_seed(7);
  Model model;
  Optimizer optimizer(model, options);
  const Data data(33);
  for (int i = 0; i < 3; ++i) step(model, optimizer, data);
  std::vector<float> values;
  for (const auto& parameter : model.parameters()) {
    const std::vector<float> part = parameter->value.to_vector();
    values.insert(values.end(), part.begin(), part.end());
  }
  return values;
}

class Threads : public testing::Test {
 protected:
  void TearDown() override { set_num_threads(before_); }

 private:
  int before_ = num_threads();
};

TEST_F(Threads, OfAnyNumberTrainTheSameBits) {
  ADRET_CPU_ONLY("the GPU has no number of threads");
  const SgdOptions sgd{.lr = 0.05, .momentum = 0.9};
  const AdamOptions adam{.lr = 0.001};
  const std::vector<float> lenet = trained<LeNet, Sgd>(1, sgd),
                           cnn = trained<MnistCnn, Adam>(1, adam);
  for (int threads : {2, 3, 4}) {
    EXPECT_EQ((trained<LeNet, Sgd>(threads, sgd)), lenet) << threads << " threads";
    EXPECT_EQ((trained<MnistCnn, Adam>(threads, adam)), cnn) << threads << " threads";
  }
}

}  // namespace
}  // namespace adret
