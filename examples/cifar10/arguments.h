// The flags of the example, and its two jobs.
#pragma once

#include <adret/adret.h>

#include <cstdint>
#include <memory>
#include <string>

namespace cifar10 {

using namespace adret;

struct Arguments {
  std::string model;  // empty: resnet18 on a GPU, tiny on the CPU
  std::string device = "auto", precision, data, save, weights, predict;
  std::string schedule = "onecycle", augment = "cutout", flip = "random";
  int64_t epochs = 0, batch = 0;  // 0: the model's own number
  double lr = 0;                  // 0: the model's own
  double muon_lr = 0;             // 0: Sgd for all parameters
  double label_smoothing = 0.1, weight_decay = 5e-4, ema = 0;
  uint64_t seed = 1;
  int threads = num_threads(), workers = 0;
  int64_t test_views = 1;
  StepMode mode = StepMode::automatic;
  bool json = false;
};

// What a network is trained with unless told otherwise.
struct Recipe {
  int64_t epochs, batch;
  double lr;  // top of the schedule
};

// Throws Error for a name that is none of resnet18, wideresnet, mobilenetv2, vgg11 and tiny.
std::unique_ptr<Module> build(const std::string& model);
Recipe recipe_of(const std::string& model);

void train(Arguments args);
void predict(const Arguments& args);

}  // namespace cifar10
