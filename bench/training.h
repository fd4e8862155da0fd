// The training steps that the benchmarks run: a case names a model, a batch and a precision.
#pragma once

#include <adret/autograd/ops/create.h>
#include <adret/autograd/ops/loss.h>
#include <adret/core/compute_mode.h>
#include <adret/core/error.h>
#include <adret/core/kernels/kernel.h>
#include <adret/core/random.h>
#include <adret/core/tensor.h>
#include <adret/layers/models/gpt2.h>
#include <adret/layers/models/lenet.h>
#include <adret/layers/models/mlp.h>
#include <adret/layers/models/mnist_cnn.h>
#include <adret/layers/models/resnet.h>
#include <adret/layers/models/vit.h>
#include <adret/optim/adam.h>
#include <adret/optim/sgd.h>
#include <adret/optim/step_guard.h>
#include <adret/train/step.h>

#include <algorithm>
#include <cstdlib>
#include <memory>
#include <optional>
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
  if (!known || (result.mode != "eager" && result.mode != "graph" && result.mode != "guarded")) {
    throw Error(
        "[case] precisions are fp32, tf32 and bf16, modes are eager, graph and guarded; got " +
        text);
  }
  if (device.is_cpu() && result.precision != "fp32") {
    throw Error("[case] on the CPU the precision is fp32; got " + text);
  }
  return result;
}

// A model to be trained, and the images it takes, or with `context` the tokens.
struct Workload {
  std::unique_ptr<Module> model;
  int64_t size = 28, channels = 1, classes = 10;
  int64_t context = 0;
  bool adamw = false;  // as transformers are trained
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
  if (name == "vit_s") {
    return {.model = std::make_unique<Vit>(vit_small()),
            .size = 224,
            .channels = 3,
            .classes = 1000,
            .adamw = true};
  }
  if (name == "gpt2") {
    const Gpt2Options options{.vocabulary = 50304, .dropout = 0};  // a multiple of 128
    return {.model = std::make_unique<Gpt2>(options),
            .classes = options.vocabulary,
            .context = options.context,
            .adamw = true};
  }
  throw Error("[case] unknown workload " + name +
              "; there are mlp, lenet, cnn, resnet18, resnet50, vit_s and gpt2");
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

// A batch of random inputs and labels.
inline std::pair<Tensor, Tensor> random_batch(const Workload& workload, int64_t batch) {
  if (workload.context > 0) {
    const Shape tokens{batch, workload.context};
    return {randint(0, workload.classes, tokens), randint(0, workload.classes, tokens)};
  }
  return {random_images({batch, workload.size, workload.size, workload.channels}),
          random_labels(batch, workload.classes)};
}

// A model with its optimizer, and four batches of random data, on a device. A step is the forward
// pass, cross-entropy, the backward pass and SGD with momentum, or AdamW; in the mode graph it is
// replayed, in guarded too and with a StepGuard.
class Training {
 public:
  Training(const Case& test, Device device)
      : step_([this](const Tensor& inputs, const Tensor& labels) { return learn(inputs, labels); },
              {.mode = test.mode == "eager" ? StepMode::eager : StepMode::graph}) {
    Workload workload = build(test.workload);
    model_ = std::move(workload.model);
    random::manual_seed(0);
    model_->to(device);
    if (test.precision == "bf16") model_->to(DType::bf16);
    if (workload.adamw) {
      optimizer_ = std::make_unique<AdamW>(*model_, AdamWOptions{.lr = 3e-4});
    } else {
      optimizer_ = std::make_unique<Sgd>(
          *model_, SgdOptions{.lr = 0.05, .momentum = 0.9, .weight_decay = 5e-4});
    }
    if (test.mode == "guarded") guard_.emplace(*model_, *optimizer_);
    for (int i = 0; i < 4; ++i) {
      const auto [inputs, labels] = random_batch(workload, test.batch);
      batches_.emplace_back(inputs.to(device), labels.to(device));
    }
  }

  void step(int i) {
    const auto& [inputs, labels] = batches_[size_t(i % 4)];
    random::begin_step(i);
    step_(inputs, labels);
  }
  const StepReport& report() const { return step_.report(); }

 private:
  Tensor learn(const Tensor& inputs, const Tensor& labels) {
    if (guard_) guard_->begin();
    optimizer_->zero_grad();
    const Tensor loss = cross_entropy(model_->call(inputs), labels);
    loss.backward();
    if (guard_) {
      guard_->add_loss(loss);
      guard_->decide();
    }
    optimizer_->step();
    return loss;
  }

  std::unique_ptr<Module> model_;
  std::unique_ptr<Optimizer> optimizer_;
  std::optional<StepGuard> guard_;
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
