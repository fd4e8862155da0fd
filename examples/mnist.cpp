// Trains a network on MNIST, or tells which digit an image shows.
//
//   mnist [--model mlp|lenet|cnn] [--device cpu|cuda|auto] [--data DIR] ...
//   mnist --predict digit.png --weights FILE
//
// Reaches on MNIST's test images, any seed: mlp 97.5 % in 5 epochs, lenet 98.9 % in 5, cnn 98.9 %
// in 3.
#include <adret/adret.h>
#include <fmt/core.h>

#include <CLI/CLI.hpp>
#include <filesystem>
#include <future>
#include <iostream>
#include <memory>

#include "command_line.h"

namespace {

using namespace adret;
using namespace adret::examples;

struct Arguments {
  std::string model = "lenet", device = "auto", data, save, weights, predict;
  int64_t epochs = 0, batch = 64;  // epochs 0: the model's own number
  double lr = 0.003;
  uint64_t seed = 1;
  int threads = num_threads(), workers = 0;
  StepMode mode = StepMode::automatic;
  bool json = false, tf32 = false;
};

std::unique_ptr<Module> build(const std::string& model) {
  if (model == "mlp") return std::make_unique<Mlp>();
  if (model == "lenet") return std::make_unique<LeNet>();
  if (model == "cnn") return std::make_unique<MnistCnn>();
  throw Error("[mnist] unknown model " + model + "; there are mlp, lenet and cnn");
}

TensorDataset dataset_on(Device device, const Mnist::Part& set) {
  return {set.images.to(device), set.labels.to(device), 10};
}

void train(Arguments args) {
  if (args.epochs == 0) args.epochs = args.model == "cnn" ? 3 : 5;
  if (args.save.empty()) args.save = "mnist-" + args.model + ".safetensors";
  check_can_save("mnist", args.save);
  ComputeMode mode = compute_mode();
  if (args.tf32) mode.math = MathMode::tf32;
  const ComputeModeScope scope(mode);
  random::manual_seed(args.seed);
  // A GPU takes half a second to be made ready, and so does reading the data.
  std::future<Mnist> reading =
      std::async(std::launch::async, [&args] { return load_mnist(args.data); });
  const Device device = choose_training_device("mnist", args.device);
  const Mnist data = reading.get();
  for (const std::string& warning : data.warnings) std::cerr << "mnist: " << warning << "\n";

  const Normalize normalize = Normalize::fit(data.train.images);
  // The images are few enough to stay on the device; loader threads work on the CPU.
  const Device place = args.workers > 0 ? Device::cpu() : device;
  const DataLoader train_loader(
      dataset_on(place, data.train),
      {.batch_size = args.batch, .shuffle = true, .workers = args.workers, .transform = normalize});
  const DataLoader test_loader(
      dataset_on(place, data.test),
      {.batch_size = 500, .workers = args.workers, .transform = normalize});

  const std::unique_ptr<Module> model = build(args.model);
  model->to(device);
  if (!args.json) std::cout << summary(*model, {1, 28, 28, 1}) << std::endl;
  Adam optimizer(*model, {.lr = args.lr});
  Trainer trainer(
      *model, optimizer,
      {.epochs = args.epochs,
       .schedule = one_cycle_lr({.max_lr = args.lr, .steps = args.epochs * train_loader.batches()}),
       .mode = args.mode});

  const std::vector<EpochReport> reports = trainer.fit(
      train_loader, test_loader,
      show_progress(args.epochs, train_loader.samples(), args.json, [](const EpochReport& report) {
        return fmt::format("loss {:.4f}, test loss {:.4f}, test accuracy {:.2f} %",
                           report.train_loss, *report.test_loss, 100 * *report.test_accuracy);
      }));

  check_finite("mnist", *reports.back().test_loss);
  save_weights(*model, args.save,
               {{"model", args.model},
                {"data", data.name},
                {"mean", fmt::format("{}", normalize.mean()[0])},
                {"std", fmt::format("{}", normalize.std()[0])}});
  if (!args.json) {
    fmt::print("{} test accuracy {:.2f} %\nweights in {}\n", data.name,
               100 * *reports.back().test_accuracy, std::filesystem::absolute(args.save).string());
  }
}

void predict(const Arguments& args) {
  if (args.weights.empty())
    throw Error("[mnist] --predict needs --weights FILE, as training saved it");
  const Metadata metadata = read_tensors(args.weights).metadata;
  const auto trained = metadata.find("model");
  const std::string name = trained == metadata.end() ? args.model : trained->second;
  const std::unique_ptr<Module> model = build(name);
  load_weights(*model, args.weights);
  model->eval();

  const Normalize normalize(number_of("mnist", metadata, "mean").value_or(0.1307),
                            number_of("mnist", metadata, "std").value_or(0.3081));
  const Tensor image = load_digit(args.predict).reshape({1, 28, 28, 1});
  NoGrad off;
  const std::vector<float> probabilities = softmax(model->call(normalize(image))).to_vector();
  for (size_t digit = 0; digit < probabilities.size(); ++digit) {
    fmt::print("{}  {:.4f}\n", digit, probabilities[digit]);
  }
}

}  // namespace

int main(int argc, char** argv) {
  Arguments args;
  CLI::App app("Trains a network on MNIST, or tells which digit an image shows.");
  app.add_option("--model", args.model, "network: mlp, lenet or cnn")
      ->check(CLI::IsMember({"mlp", "lenet", "cnn"}))
      ->capture_default_str();
  add_device(app, args.device);
  app.add_flag("--tf32", args.tf32, "on a GPU, products with operands rounded to TF32");
  add_data(app, args.data, "the four MNIST files");
  app.add_option("--epochs", args.epochs, "passes over the training images; default: 5, cnn 3")
      ->check(between(1, 1000000));
  app.add_option("--batch", args.batch, "images a step")
      ->check(between(1, 1000000))
      ->capture_default_str();
  app.add_option("--lr", args.lr, "top of the one-cycle learning rate of Adam")
      ->check(above_zero())
      ->capture_default_str();
  add_seed(app, args.seed, "of weights, order and dropout; the same seed trains the same weights");
  add_threads(app, args.threads);
  app.add_option("--workers", args.workers, "loader threads; 0: none besides the training")
      ->check(between(0, 1024))
      ->capture_default_str();
  add_mode(app, args.mode);
  app.add_option("--save", args.save, "file for the weights; default: mnist-MODEL.safetensors");
  app.add_flag("--json", args.json,
               "one JSON object an epoch on standard output, nothing else there");
  app.add_option("--predict", args.predict,
                 "image of a digit: prints the ten probabilities and ends");
  app.add_option("--weights", args.weights, "weights for --predict");
  return run_program("mnist", app, argc, argv, [&] {
    set_num_threads(args.threads);
    if (args.predict.empty()) {
      train(args);
    } else {
      predict(args);
    }
  });
}
