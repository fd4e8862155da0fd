// Trains a network on CIFAR-10, or tells what an image shows.
//
//   cifar10 [--model resnet18|wideresnet|mobilenetv2|vgg11|tiny] [--precision fp32|tf32|bf16|fp16]
//   cifar10 --predict IMAGE --weights FILE
//
// Reaches on CIFAR-10's test images: tiny 84 % in 6 minutes on two CPU cores; on one H200, with
// images that went through JPEG, which costs about a point, resnet18 93.5 % in 14.5 seconds of
// training (bf16), 93.9 % with --batch 256 --flip alternating --ema 0.999 --test-views 6 (94.8 % of
// the original images), and 95.0 % (95.7 % on those) with --muon-lr 0.05 besides.
#include "../command_line.h"
#include "arguments.h"

namespace {

using namespace adret;
using namespace adret::examples;
using cifar10::Arguments;

void add_training_options(CLI::App& app, Arguments& args) {
  app.add_option("--model", args.model,
                 "resnet18, wideresnet (16-8), mobilenetv2, vgg11 or tiny; default: resnet18 on a "
                 "GPU, tiny on the CPU")
      ->check(CLI::IsMember({"resnet18", "wideresnet", "mobilenetv2", "vgg11", "tiny"}));
  add_device(app, args.device);
  app.add_option("--precision", args.precision,
                 "fp32, tf32 (on a GPU), bf16 or fp16; default: bf16 on a GPU, fp32 on the CPU")
      ->check(CLI::IsMember({"fp32", "tf32", "bf16", "fp16"}));
  app.add_option("--epochs", args.epochs, "passes over the training images")
      ->check(between(1, 1000000));
  app.add_option("--batch", args.batch, "images a step")->check(between(1, 50000));
  app.add_option("--lr", args.lr, "top of the learning rate of SGD")->check(above_zero());
  app.add_option("--muon-lr", args.muon_lr,
                 "top of the learning rate of Muon, which then trains all convolutions but the "
                 "first, SGD the rest; 0: none")
      ->check(not_negative())
      ->capture_default_str();
  app.add_option("--schedule", args.schedule, "of the rates: onecycle, cosine, step or constant")
      ->check(CLI::IsMember({"onecycle", "cosine", "step", "constant"}))
      ->capture_default_str();
  app.add_option("--augment", args.augment,
                 "none; crop: moves and mirrors images; cutout: and blanks a square; mixup or "
                 "cutmix: crop, and mixes pairs")
      ->check(CLI::IsMember({"none", "crop", "cutout", "mixup", "cutmix"}))
      ->capture_default_str();
  app.add_option("--flip", args.flip,
                 "which images are mirrored: a random half, or each in every second epoch "
                 "(alternating)")
      ->check(CLI::IsMember({"random", "alternating"}))
      ->capture_default_str();
  app.add_option("--weight-decay", args.weight_decay, "of weights, not of biases and norms")
      ->check(below_one())
      ->capture_default_str();
  app.add_option("--label-smoothing", args.label_smoothing, "share given to all classes alike")
      ->check(below_one())
      ->capture_default_str();
  app.add_option("--ema", args.ema,
                 "decay of the averaged weights that are tested and saved; 0: none")
      ->check(below_one())
      ->capture_default_str();
}

void add_other_options(CLI::App& app, Arguments& args) {
  add_data(app, args.data, "CIFAR-10's binary files");
  add_seed(app, args.seed,
           "of weights, order and augmentation; the same seed trains the same weights");
  add_threads(app, args.threads);
  app.add_option("--workers", args.workers, "loader threads; 0: the set lies on the device")
      ->check(between(0, 1024))
      ->capture_default_str();
  add_mode(app, args.mode);
  app.add_option("--test-views", args.test_views,
                 "of each image in the final test: 1, 2 (also mirrored), 6 (also moved by a pixel)")
      ->check(CLI::IsMember({1, 2, 6}))
      ->capture_default_str();
  app.add_option("--save", args.save, "file for the weights; default: cifar10-MODEL.safetensors");
  app.add_flag(
      "--json", args.json,
      "one JSON object an epoch on standard output and one at the end, nothing else there");
  CLI::Option* const predict =
      app.add_option("--predict", args.predict,
                     "image file: prints the probabilities of the ten classes and ends");
  CLI::Option* const weights =
      app.add_option("--weights", args.weights, "weights for --predict, as training saved them");
  predict->needs(weights);
  weights->needs(predict);
}

}  // namespace

int main(int argc, char** argv) {
  Arguments args;
  CLI::App app("Trains a network on CIFAR-10, or tells what an image shows.");
  add_training_options(app, args);
  add_other_options(app, args);
  return run_program("cifar10", app, argc, argv, [&] {
    set_num_threads(args.threads);
    if (app.count("--predict") == 0) {
      cifar10::train(args);
    } else {
      cifar10::predict(args);
    }
  });
}
