// Trains a network with the layer: on two spirals, or on MNIST where its folder is given.
//
//   train [FOLDER_OF_MNIST]
//
// Reaches 99 % of the spirals' test points, and 97 % of MNIST's test images.
#include <adret/adret.h>

#include <cmath>
#include <cstdio>
#include <numbers>

#include "learnable_swish.h"

using namespace adret;

namespace {

struct Network : Layer<Network> {
  Linear& first;
  LearnableSwish& first_swish;
  Linear& second;
  LearnableSwish& second_swish;
  Linear& last;

  Network(int64_t features, int64_t classes)
      : first(add("first", Linear(features, 64))),
        first_swish(add("first_swish", LearnableSwish(64))),
        second(add("second", Linear(64, 64))),
        second_swish(add("second_swish", LearnableSwish(64))),
        last(add("last", Linear(64, classes))) {}
  Tensor forward(const Tensor& x) {
    return last(second_swish(second(first_swish(first(flatten(x))))));
  }
};

// n points (x, y) on two arms that turn around the origin, and which arm each is on.
TensorDataset spirals(int64_t n, Device device) {
  const Tensor radii = Tensor::empty({n});
  init::uniform_(radii, 0.1, 1);
  std::vector<float> points;
  std::vector<int32_t> arms;
  for (const float radius : radii.to_vector()) {
    const int32_t arm = int32_t(arms.size() % 2);
    const float angle = (3 * radius + float(arm)) * std::numbers::pi_v<float>;
    points.push_back(radius * std::cos(angle));
    points.push_back(radius * std::sin(angle));
    arms.push_back(arm);
  }
  return {Tensor::from(points, {n, 2}).to(device), Tensor::from(arms, {n}).to(device), 2};
}

void train(Network& model, const DataLoader& training, const DataLoader& test, int64_t epochs) {
  Adam optimizer(model, {.lr = 0.003});
  Trainer trainer(model, optimizer, {.epochs = epochs});
  trainer.fit(training, test, {.on_epoch_end = [](const EpochReport& report) {
                std::printf("epoch %2d  loss %.4f  test loss %.4f  test accuracy %.2f %%\n",
                            int(report.epoch), report.train_loss, *report.test_loss,
                            100 * *report.test_accuracy);
              }});
}

void train_on_spirals(Device device) {
  const DataLoader training(spirals(4096, device), {.batch_size = 64, .shuffle = true});
  const DataLoader test(spirals(1024, device), {.batch_size = 512});
  Network model(2, 2);
  model.to(device);
  train(model, training, test, 10);
}

void train_on_mnist(const char* folder, Device device) {
  const Mnist data = load_mnist(folder);
  const Normalize normalize = Normalize::fit(data.train.images);
  const auto loader = [&](const Mnist::Part& part, int64_t batch, bool shuffle) {
    return DataLoader(TensorDataset(part.images.to(device), part.labels.to(device), 10),
                      {.batch_size = batch, .shuffle = shuffle, .transform = normalize});
  };
  Network model(28 * 28, 10);
  model.to(device);
  train(model, loader(data.train, 64, true), loader(data.test, 500, false), 3);
}

}  // namespace

int main(int argc, char** argv) {
  try {
    random::manual_seed(1);
    const Device device = Device::best();
    std::printf("training on %s\n", to_string(device).c_str());
    if (argc > 1) {
      train_on_mnist(argv[1], device);
    } else {
      train_on_spirals(device);
    }
  } catch (const std::exception& error) {
    std::fprintf(stderr, "train: %s\n", error.what());
    return 1;
  }
}
