// The training steps that the benchmarks run: a case names a model, a batch and a precision.
#pragma once

#include <adret/autograd/ops/loss.h>
#include <adret/core/compute_mode.h>
#include <adret/core/error.h>
#include <adret/core/kernels/kernel.h>
#include <adret/core/random.h>
#include <adret/core/tensor.h>
#include <adret/layers/models/lenet.h>
#include <adret/layers/models/mlp.h>
#include <adret/layers/models/mnist_cnn.h>
#include <adret/layers/models/resnet.h>
#include <adret/optim/sgd.h>
#include <adret/train/step.h>

#include <algorithm>
#include <cstdlib>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace adret::bench {

struct Case {
  std::string workload, precision, mode;
  int64_t batch = 0;
};

// Of "lenet:64:fp32:eager"; without a mode it is eager. Throws Error for anything else, and for a
// precision that the device does not have.
inline Case parse_case(const std::string& text, Device device) {
  std::vector<std::string> parts;
  for (size_t begin = 0, end; begin <= text.size(); begin = end + 1) {
    end = std::min(text.find(':', begin), text.size());
    parts.push_back(text.substr(begin, end - begin));
  }
  const std::string wanted =
      "[case] a case is workload:batch:precision:mode, as lenet:64:fp32:eager; got " + text;
  if (parts.size() == 3) parts.push_back("eager");
  if (parts.size() != 4) throw Error(wanted);
  Case result{.workload = parts[0], .precision = parts[2], .mode = parts[3]};
  result.batch = std::atoll(parts[1].c_str());
  if (result.batch < 1) throw Error(wanted);
  const bool known =
      result.precision == "fp32" || result.precision == "tf32" || result.precision == "bf16";
  if (!known || (result.mode != "eager" && result.mode != "graph")) {
    throw Error("[case] precisions are fp32, tf32 and bf16, modes are eager and graph; got " +
                text);
  }
  if (device.is_cpu() && result.precision != "fp32") {
    throw Error("[case] on the CPU the precision is fp32; got " + text);
  }
  return result;
}

// A model to be trained, and the images it takes.
struct Workload {
  std::unique_ptr<Module> model;
  int64_t size = 28, channels = 1, classes = 10;
};

inline Workload build(const std::string& name) {
  if (name == "mlp") return {.model = std::make_unique<Mlp>()};
  if (name == "lenet") return {.model = std::make_unique<LeNet>()};
  if (name == "cnn") return {.model = std::make_unique<MnistCnn>()};
  if (name == "resnet18") {
    return {.model = std::make_unique<ResNet>(resnet18()), .size = 32, .channels = 3};
  }
  if (name == "resnet50") {
    const ResNetOptions imagenet{.classes = 1000, .stem = Stem::imagenet};
    return {.model = std::make_unique<ResNet>(resnet50(imagenet)),
            .size = 224,
            .channels = 3,
            .classes = imagenet.classes};
  }
  throw Error("[case] unknown workload " + name +
              "; there are mlp, lenet, cnn, resnet18 and resnet50");
}

inline Tensor random_images(const Shape& shape) {
  const Tensor x = Tensor::empty(shape);
  run(kernels::RandomNormal{
      .y = x, .step = random::step_word(Device::cpu()), .key = random::next(RandomStream::user)});
  return x;
}

inline Tensor random_labels(int64_t batch, int64_t classes) {
  std::vector<int64_t> labels = random::permutation(batch, random::next(RandomStream::user), 0);
  for (int64_t& label : labels) label %= classes;
  return Tensor::from(labels, {batch});
}

// A model with its optimizer, and four batches of random data, on a device. A step is the forward
// pass, cross-entropy, the backward pass and SGD with momentum; in the mode graph it is replayed.
class Training {
 public:
  Training(const Case& test, Device device)
      : step_([this](const Tensor& images, const Tensor& labels) { return learn(images, labels); },
              {.mode = test.mode == "graph" ? StepMode::graph : StepMode::eager}) {
    Workload workload = build(test.workload);
    model_ = std::move(workload.model);
    random::manual_seed(0);
    model_->to(device);
    if (test.precision == "bf16") model_->to(DType::bf16);
    optimizer_ = std::make_unique<Sgd>(
        *model_, SgdOptions{.lr = 0.05, .momentum = 0.9, .weight_decay = 5e-4});
    const Shape images{test.batch, workload.size, workload.size, workload.channels};
    for (int i = 0; i < 4; ++i) {
      batches_.emplace_back(random_images(images).to(device),
                            random_labels(test.batch, workload.classes).to(device));
    }
  }

  void step(int i) {
    const auto& [images, labels] = batches_[size_t(i % 4)];
    random::begin_step(i);
    step_(images, labels);
  }
  const StepReport& report() const { return step_.report(); }

 private:
  Tensor learn(const Tensor& images, const Tensor& labels) {
    optimizer_->zero_grad();
    const Tensor loss = cross_entropy(model_->call(images), labels);
    loss.backward();
    optimizer_->step();
    return loss;
  }

  std::unique_ptr<Module> model_;
  std::unique_ptr<Sgd> optimizer_;
  std::vector<std::pair<Tensor, Tensor>> batches_;
  Step step_;
};

// This thread's mode, in the case's precision.
inline ComputeMode mode_of(const Case& test) {
  ComputeMode mode = compute_mode();
  if (test.precision == "tf32") mode.math = MathMode::tf32;
  return mode;
}

}  // namespace adret::bench
