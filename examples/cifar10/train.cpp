// Training, and the test behind it.
#include <fmt/format.h>

#include <future>
#include <iostream>
#include <nlohmann/json.hpp>
#include <utility>

#include "../command_line.h"
#include "../test_views.h"
#include "arguments.h"
#include "optimizers.h"

namespace cifar10 {
namespace {

using namespace adret::examples;

// What the flags left open, by the device.
void choose_defaults(Arguments& args, Device device) {
  if (args.model.empty()) args.model = device.is_cpu() ? "tiny" : "resnet18";
  if (args.precision.empty()) args.precision = device.is_cpu() ? "fp32" : "bf16";
  if (device.is_cpu() && args.precision == "tf32") {
    throw Error("[cifar10] the CPU has no tf32; choose --precision fp32, or a GPU with --device");
  }
  if (args.precision == "fp16" && args.muon_lr > 0) {
    throw Error(
        "[cifar10] got --muon-lr with --precision fp16, whose loss scaling serves one optimizer; "
        "choose bf16 or fp32, or leave out --muon-lr");
  }
  const Recipe recipe = recipe_of(args.model);
  if (args.epochs == 0) args.epochs = recipe.epochs;
  if (args.batch == 0) args.batch = recipe.batch;
  if (args.lr == 0) args.lr = recipe.lr * double(args.batch) / double(recipe.batch);
}

DType dtype_of(const std::string& precision) {
  if (precision == "bf16") return DType::bf16;
  return precision == "fp16" ? DType::f16 : DType::f32;
}

Augment augmentation(const Arguments& args, const Normalize& normalize) {
  AugmentOptions options{.normalize = normalize};
  if (args.augment != "none") {
    options.crop = {.padding = 4, .border = Border::reflect};
    options.flip = args.flip == "alternating" ? Flip::alternating : Flip::random;
  }
  if (args.augment == "cutout") options.cutout = 7;
  return Augment(options);
}

// Behind the augmentation: nothing, or the mixing of pairs.
std::function<void(Batch&)> mixing(const Arguments& args) {
  if (args.augment == "mixup") return Mixup({.num_classes = 10, .alpha = 0.2});
  if (args.augment == "cutmix") return Cutmix({.num_classes = 10, .probability = 0.5});
  return {};
}

// On the device, where a set of this size fits; or made by threads on the CPU and copied.
DataLoader training_loader(const Arguments& args, const Cifar::Part& set, Device device,
                           const Augment& augment) {
  const std::function<void(Batch&)> mix = mixing(args);
  LoaderOptions options{.batch_size = args.batch,
                        .shuffle = true,
                        // Whole batches alone, but a set that is smaller than one.
                        .drop_last = set.images.size(0) >= args.batch,
                        .workers = args.workers,
                        .transform = mix,
                        .device = device};
  if (args.workers == 0) {
    return DataLoader(ImageDataset(set.images.to(device), set.labels.to(device), 10, augment),
                      options);
  }
  options.transform = [augment, mix](Batch& batch) {
    augment(batch);
    if (mix) mix(batch);
  };
  return DataLoader(set.dataset(), options);
}

DataLoader test_loader(const Cifar::Part& set, const Normalize& normalize) {
  return DataLoader(ImageDataset(set.images, set.labels, 10, Augment({.normalize = normalize})),
                    {.batch_size = 1000, .device = set.images.device()});
}

TrainerOptions trainer_options(const Arguments& args) {
  TrainerOptions options{.epochs = args.epochs, .mode = args.mode};
  if (args.precision == "fp16") options.loss_scale = LossScaleOptions();
  if (args.ema > 0) options.average = WeightAverageOptions{.decay = args.ema};
  const double smoothing = args.label_smoothing;
  options.loss = [smoothing](const Tensor& logits, const Tensor& targets) {
    return cross_entropy(logits, targets, {.label_smoothing = smoothing});
  };
  return options;
}

ConfusionMatrix test(Module& model, const Cifar::Part& set, const Normalize& normalize,
                     int64_t views) {
  ConfusionMatrix matrix(10);
  matrix.add(test_logits(model, set.images, normalize, views, 1000), set.labels.to(Device::cpu()));
  return matrix;
}

void print_test(const Arguments& args, const Cifar& data, const ConfusionMatrix& matrix,
                const std::vector<EpochReport>& epochs) {
  double seconds = 0, waited = 0;
  for (const EpochReport& epoch : epochs) {
    seconds += epoch.seconds;
    waited += epoch.seconds * epoch.waiting;
  }
  if (args.json) {
    nlohmann::ordered_json line{{"test_accuracy", matrix.accuracy()},
                                {"seconds", seconds},
                                {"waiting", seconds > 0 ? waited / seconds : 0}};
    for (int64_t c = 0; c < matrix.classes(); ++c) {
      line["classes"][data.classes[size_t(c)]] = matrix.recall(c);
      std::vector<int64_t> row;  // of the images of a class, how many were taken for each
      for (int64_t taken = 0; taken < matrix.classes(); ++taken) {
        row.push_back(matrix.count(c, taken));
      }
      line["confusion"].push_back(row);
    }
    std::cout << line << std::endl;
    return;
  }
  fmt::print("{}\n", to_string(matrix));
  for (int64_t c = 0; c < matrix.classes(); ++c) {
    fmt::print("{:<10}  {:6.2f} % found\n", data.classes[size_t(c)], 100 * matrix.recall(c));
  }
  fmt::print("test accuracy {:.2f} % after {:.1f} s of training, {:.1f} % of them waiting\n",
             100 * matrix.accuracy(), seconds, seconds > 0 ? 100 * waited / seconds : 0);
}

std::string join(const auto& values) { return fmt::format("{}", fmt::join(values, ",")); }

void save(const Arguments& args, const Module& model, const Cifar& data,
          const Normalize& normalize) {
  save_weights(model, args.save,
               {{"model", args.model},
                {"data", data.name},
                {"mean", join(normalize.mean())},
                {"std", join(normalize.std())},
                {"classes", join(data.classes)}});
  if (!args.json) {
    fmt::print("weights in {}\n", std::filesystem::absolute(args.save).string());
  }
}

}  // namespace

void train(Arguments args) {
  random::manual_seed(args.seed);
  if (!args.save.empty()) check_can_save("cifar10", args.save);
  // A GPU takes half a second to be made ready, and so does reading the data.
  std::future<Cifar> reading =
      std::async(std::launch::async, [data = args.data] { return load_cifar10(data); });
  const Device device = choose_training_device("cifar10", args.device);
  choose_defaults(args, device);
  if (args.save.empty()) args.save = "cifar10-" + args.model + ".safetensors";
  check_can_save("cifar10", args.save);
  ComputeMode mode = compute_mode();
  if (args.precision == "tf32") mode.math = MathMode::tf32;
  const ComputeModeScope scope(mode);
  const Cifar data = reading.get();
  for (const std::string& warning : data.warnings) std::cerr << "cifar10: " << warning << "\n";

  const DType dtype = dtype_of(args.precision);
  const Normalize normalize = Normalize::fit(data.train.images, dtype);
  const DataLoader loader =
      training_loader(args, data.train, device, augmentation(args, normalize));
  const std::unique_ptr<Module> model = build(args.model);
  model->to(device);
  model->to(dtype);
  if (!args.json) std::cout << summary(*model, {1, 32, 32, 3}) << std::endl;
  const Optimizers optimizers = make_optimizers(*model, args, args.epochs * loader.batches());
  Trainer trainer(*model, optimizers.list, trainer_options(args));

  const Cifar::Part test_set{data.test.images.to(device), data.test.labels.to(device), 10};
  const std::vector<EpochReport> epochs = trainer.fit(
      loader, test_loader(test_set, normalize),
      show_progress(args.epochs, loader.samples(), args.json, [](const EpochReport& report) {
        return fmt::format("loss {:.4f}, test accuracy {:.2f} %, waited {:.1f} %",
                           report.train_loss, 100 * *report.test_accuracy, 100 * report.waiting);
      }));

  check_finite("cifar10", *epochs.back().test_loss);
  std::optional<AveragedWeights> averaged;
  if (trainer.average()) averaged.emplace(*trainer.average());
  print_test(args, data, test(*model, test_set, normalize, args.test_views), epochs);
  save(args, *model, data, normalize);
}

}  // namespace cifar10
