// Times whole training steps: forward, cross-entropy, backward, SGD with momentum. Prints one JSON
// line a case, comparable with bench/peers.
//
//   train_step lenet:64:tf32:eager ... [--device cpu|cuda|auto] [--seconds S]
//   train_step lenet:64:tf32:eager --first-step    the time from the start of the process
#include <adret/autograd/ops/loss.h>
#include <adret/core/backend.h>
#include <adret/core/compute_mode.h>
#include <adret/core/error.h>
#include <adret/core/kernels/kernel.h>
#include <adret/core/random.h>
#include <adret/core/tensor.h>
#include <adret/core/thread_pool.h>
#include <adret/layers/models/lenet.h>
#include <adret/layers/models/mlp.h>
#include <adret/layers/models/mnist_cnn.h>
#include <adret/layers/models/resnet.h>
#include <adret/optim/sgd.h>
#include <adret/train/progress.h>
#include <fmt/core.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdlib>
#include <functional>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "../examples/process_clock.h"

namespace {

using namespace adret;

struct Case {
  std::string workload, precision, mode;
  int64_t batch = 0;
};

Case parse_case(const std::string& text, Device device) {
  std::vector<std::string> parts;
  for (size_t begin = 0, end; begin <= text.size(); begin = end + 1) {
    end = std::min(text.find(':', begin), text.size());
    parts.push_back(text.substr(begin, end - begin));
  }
  const std::string wanted =
      "[train_step] a case is workload:batch:precision:mode, as lenet:64:fp32:eager; got " + text;
  if (parts.size() != 4) throw Error(wanted);
  Case result{.workload = parts[0], .precision = parts[2], .mode = parts[3]};
  result.batch = std::atoll(parts[1].c_str());
  if (result.batch < 1) throw Error(wanted);
  const bool known =
      result.precision == "fp32" || result.precision == "tf32" || result.precision == "bf16";
  if (!known || result.mode != "eager") {
    throw Error("[train_step] precisions are fp32, tf32 and bf16, the mode is eager; got " + text);
  }
  if (device.is_cpu() && result.precision != "fp32") {
    throw Error("[train_step] on the CPU the precision is fp32; got " + text);
  }
  return result;
}

std::unique_ptr<Module> build(const std::string& workload) {
  if (workload == "mlp") return std::make_unique<Mlp>();
  if (workload == "lenet") return std::make_unique<LeNet>();
  if (workload == "cnn") return std::make_unique<MnistCnn>();
  if (workload == "resnet18") return std::make_unique<ResNet>(resnet18());
  throw Error("[train_step] unknown workload " + workload +
              "; there are mlp, lenet, cnn and resnet18");
}

Shape image_shape(const std::string& workload, int64_t batch) {
  return workload == "resnet18" ? Shape{batch, 32, 32, 3} : Shape{batch, 28, 28, 1};
}

Tensor random_images(const Shape& shape) {
  const Tensor x = Tensor::empty(shape);
  run(kernels::RandomNormal{
      .y = x, .step = random::step_word(Device::cpu()), .key = random::next(RandomStream::user)});
  return x;
}

Tensor random_labels(int64_t batch) {
  std::vector<int64_t> labels = random::permutation(batch, random::next(RandomStream::user), 0);
  for (int64_t& label : labels) label %= 10;
  return Tensor::from(labels, {batch});
}

// A model with its optimizer, and four batches of random data, on a device.
class Training {
 public:
  Training(const Case& test, Device device) : model_(build(test.workload)) {
    random::manual_seed(0);
    model_->to(device);
    if (test.precision == "bf16") model_->to(DType::bf16);
    optimizer_ = std::make_unique<Sgd>(
        *model_, SgdOptions{.lr = 0.05, .momentum = 0.9, .weight_decay = 5e-4});
    for (int i = 0; i < 4; ++i) {
      batches_.emplace_back(random_images(image_shape(test.workload, test.batch)).to(device),
                            random_labels(test.batch).to(device));
    }
  }

  void step(int i) {
    const auto& [images, labels] = batches_[size_t(i % 4)];
    optimizer_->zero_grad();
    cross_entropy(model_->call(images), labels).backward();
    optimizer_->step();
  }

 private:
  std::unique_ptr<Module> model_;
  std::unique_ptr<Sgd> optimizer_;
  std::vector<std::pair<Tensor, Tensor>> batches_;
};

// Milliseconds of a step in each block of steps, at least 50 ms long, for `seconds`.
std::vector<double> time_blocks(Training& training, DeviceServices& services, double seconds) {
  for (int i = 0; i < 10; ++i) training.step(i);
  services.synchronize();
  std::vector<double> blocks;
  int steps = 4;
  for (const double end = steady_seconds() + seconds;
       steady_seconds() < end || blocks.size() < 5;) {
    const double begin = steady_seconds();
    for (int i = 0; i < steps; ++i) training.step(i);
    services.synchronize();
    const double elapsed = steady_seconds() - begin;
    if (elapsed < 0.05 && blocks.empty()) {
      steps *= 2;
      continue;
    }
    blocks.push_back(elapsed / steps * 1e3);
  }
  return blocks;
}

double median(std::vector<double> values) {
  std::nth_element(values.begin(), values.begin() + std::ptrdiff_t(values.size() / 2),
                   values.end());
  return values[values.size() / 2];
}

nlohmann::ordered_json describe(const Case& test, Device device) {
  return {{"workload", test.workload},
          {"batch", test.batch},
          {"precision", test.precision},
          {"mode", test.mode},
          {"device", to_string(device)}};
}

nlohmann::ordered_json measure(const Case& test, Device device, double seconds) {
  DeviceServices& services = backend_for(device).services();
  services.pool().reset_peak();
  Training training(test, device);
  const double ms = median(time_blocks(training, services, seconds));
  nlohmann::ordered_json result = describe(test, device);
  result["ms_per_step"] = ms;
  result["items_per_s"] = double(test.batch) / ms * 1e3;
  result["peak_mib"] = double(services.pool().stats().peak) / (1 << 20);
  if (device.is_cpu()) {
    result["threads"] = num_threads();
    result["cpu_arch"] = cpu_arch();
  }
  return result;
}

nlohmann::ordered_json measure_first_step(const Case& test, Device device) {
  Training training(test, device);
  const double before = adret::examples::seconds_since_start();
  training.step(0);
  backend_for(device).services().synchronize();
  nlohmann::ordered_json result = describe(test, device);
  result["before_first_step_s"] = before;
  result["first_step_s"] = adret::examples::seconds_since_start();
  return result;
}

ComputeMode mode_of(const Case& test) {
  ComputeMode mode = compute_mode();
  if (test.precision == "tf32") mode.math = MathMode::tf32;
  return mode;
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app("Times training steps; a line of JSON per case.");
  std::vector<std::string> cases;
  double seconds = 3;
  int threads = num_threads();
  std::string device_name = "auto";
  bool first_step = false;
  app.add_option("cases", cases, "workload:batch:precision:mode, as lenet:64:fp32:eager")
      ->required();
  app.add_option("--seconds", seconds, "how long to measure each case")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  app.add_option("--device", device_name, "cpu, cuda, cuda:N, or auto: a GPU if there is one")
      ->capture_default_str();
  app.add_flag("--first-step", first_step,
               "of one case: seconds from the start of the process to the end of the first step");
  app.add_option("--threads", threads, "CPU threads")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : 1;
  }
  try {
    set_num_threads(threads);
    const Device device = Device::parse(device_name);
    if (first_step && cases.size() > 1) throw Error("[train_step] --first-step is of one case");
    for (const std::string& text : cases) {
      const Case test = parse_case(text, device);
      const ComputeModeScope scope(mode_of(test));
      const auto result =
          first_step ? measure_first_step(test, device) : measure(test, device, seconds);
      fmt::print("{}\n", result.dump());
      std::fflush(stdout);
    }
  } catch (const std::exception& error) {
    fmt::print(stderr, "train_step: {}\n", error.what());
    return 1;
  }
}
