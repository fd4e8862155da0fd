// The networks by name, and what each is trained with.
#include "arguments.h"

namespace cifar10 {

std::unique_ptr<Module> build(const std::string& model) {
  if (model == "resnet18") return std::make_unique<ResNet>(resnet18());
  if (model == "wideresnet")
    return std::make_unique<WideResNet>(WideResNet({.depth = 16, .width = 8}));
  if (model == "mobilenetv2") return std::make_unique<MobileNetV2>();
  if (model == "vgg11") return std::make_unique<Vgg>(vgg11({.batch_norm = true}));
  if (model == "tiny") return std::make_unique<TinyResNet>();
  throw Error("[cifar10] unknown model " + model +
              "; there are resnet18, wideresnet, mobilenetv2, vgg11 and tiny");
}

Recipe recipe_of(const std::string& model) {
  if (model == "tiny") return {.epochs = 6, .batch = 128, .lr = 0.1};
  if (model == "mobilenetv2") return {.epochs = 30, .batch = 512, .lr = 0.2};
  if (model == "vgg11") return {.epochs = 30, .batch = 512, .lr = 0.2};
  return {.epochs = 30, .batch = 512, .lr = 0.4};
}

}  // namespace cifar10
