// Times whole training steps: forward, cross-entropy, backward, SGD with momentum. Prints one JSON
// line a case, comparable with bench/peers.
#include <adret/autograd/ops/loss.h>
#include <adret/core/backend.h>
#include <adret/core/error.h>
#include <adret/core/kernels/kernel.h>
#include <adret/core/random.h>
#include <adret/core/tensor.h>
#include <adret/core/thread_pool.h>
#include <adret/layers/models/lenet.h>
#include <adret/layers/models/mlp.h>
#include <adret/layers/models/mnist_cnn.h>
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

namespace {

using namespace adret;

struct Case {
  std::string workload, precision, mode;
  int64_t batch = 0;
};

Case parse_case(const std::string& text) {
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
  if (result.precision != "fp32" || result.mode != "eager") {
    throw Error("[train_step] the CPU trains in precision fp32 and mode eager; got " + text);
  }
  return result;
}

std::unique_ptr<Module> build(const std::string& workload) {
  if (workload == "mlp") return std::make_unique<Mlp>();
  if (workload == "lenet") return std::make_unique<LeNet>();
  if (workload == "cnn") return std::make_unique<MnistCnn>();
  throw Error("[train_step] unknown workload " + workload + "; there are mlp, lenet and cnn");
}

Tensor random_images(int64_t batch) {
  const Tensor x = Tensor::empty({batch, 28, 28, 1});
  run(kernels::RandomNormal{
      .y = x, .step = random::step_word(Device::cpu()), .key = random::next(RandomStream::user)});
  return x;
}

Tensor random_labels(int64_t batch) {
  std::vector<int64_t> labels = random::permutation(batch, random::next(RandomStream::user), 0);
  for (int64_t& label : labels) label %= 10;
  return Tensor::from(labels, {batch});
}

// Milliseconds of each block of steps, at least 50 ms long, for `seconds`.
std::vector<double> time_blocks(const std::function<void(int)>& step, double seconds) {
  for (int i = 0; i < 10; ++i) step(i);
  std::vector<double> blocks;
  int steps = 4;
  for (const double end = steady_seconds() + seconds;
       steady_seconds() < end || blocks.size() < 5;) {
    const double begin = steady_seconds();
    for (int i = 0; i < steps; ++i) step(i);
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

nlohmann::ordered_json measure(const Case& test, double seconds) {
  random::manual_seed(0);
  const std::unique_ptr<Module> model = build(test.workload);
  Sgd optimizer(*model, {.lr = 0.05, .momentum = 0.9, .weight_decay = 5e-4});
  std::vector<std::pair<Tensor, Tensor>> batches;
  for (int i = 0; i < 4; ++i)
    batches.emplace_back(random_images(test.batch), random_labels(test.batch));
  const MemoryPool& pool = backend_for(Device::cpu()).services().pool();
  const double ms = median(time_blocks(
      [&](int i) {
        const auto& [images, labels] = batches[size_t(i % 4)];
        optimizer.zero_grad();
        cross_entropy(model->call(images), labels).backward();
        optimizer.step();
      },
      seconds));
  return {{"workload", test.workload},
          {"batch", test.batch},
          {"precision", test.precision},
          {"mode", test.mode},
          {"ms_per_step", ms},
          {"items_per_s", double(test.batch) / ms * 1e3},
          {"peak_mib", double(pool.stats().peak) / (1 << 20)},
          {"threads", num_threads()},
          {"cpu_arch", cpu_arch()}};
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app("Times training steps; a line of JSON per case.");
  std::vector<std::string> cases;
  double seconds = 3;
  int threads = num_threads();
  app.add_option("cases", cases, "workload:batch:precision:mode, as lenet:64:fp32:eager")
      ->required();
  app.add_option("--seconds", seconds, "how long to measure each case")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
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
    for (const std::string& text : cases) {
      fmt::print("{}\n", measure(parse_case(text), seconds).dump());
      std::fflush(stdout);
    }
  } catch (const std::exception& error) {
    fmt::print(stderr, "train_step: {}\n", error.what());
    return 1;
  }
}
