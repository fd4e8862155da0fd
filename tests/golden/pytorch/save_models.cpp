// Writes trained weights of image models into a folder, each with its logits in the metadata, for
// vision_golden.py to load into PyTorch's models.
#include <adret/autograd/grad_mode.h>
#include <adret/autograd/ops/loss.h>
#include <adret/core/random.h>
#include <adret/layers/models/densenet.h>
#include <adret/layers/models/mobilenet_v2.h>
#include <adret/layers/models/resnet.h>
#include <adret/optim/sgd.h>
#include <adret/train/weights.h>
#include <fmt/format.h>

#include "tests/support/hashed.h"

namespace {

using namespace adret;

// Two steps move the weights, the running statistics and the number of batches.
void save_trained(Module& model, const std::string& name, const std::filesystem::path& folder) {
  Sgd optimizer(model, {.lr = 0.05, .momentum = 0.9});
  for (int step = 0; step < 2; ++step) {
    optimizer.zero_grad();
    cross_entropy(model.call(test::hashed_images("training", 4, 32)),
                  test::hashed_labels("training", 4))
        .backward();
    optimizer.step();
  }
  model.eval();
  const NoGrad no_grad;
  const auto logits = model.call(test::hashed_images("images", 2, 32)).to_vector<float>();
  save_weights(
      model, folder / (name + ".safetensors"),
      {{"model", name}, {"size", "32"}, {"logits", fmt::format("[{}]", fmt::join(logits, ", "))}});
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) {
    fmt::print(stderr, "usage: save_models FOLDER\n");
    return 1;
  }
  random::manual_seed(1);
  ResNet resnet = resnet18();
  save_trained(resnet, "cifar_resnet18", argv[1]);
  MobileNetV2 mobilenet;
  save_trained(mobilenet, "cifar_mobilenet_v2", argv[1]);
  DenseNet densenet({2, 3, 4, 2}, {.growth = 12, .bn_size = 3, .channels = 24});
  save_trained(densenet, "cifar_densenet_small", argv[1]);
}
