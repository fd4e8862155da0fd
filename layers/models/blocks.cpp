// Initial weights of the convolutional models.
#include <adret/layers/init.h>
#include <adret/layers/models/blocks.h>

namespace adret::blocks {

void init_convolutions_(Module& model) {
  for (const NamedModule& entry : model.named_modules()) {
    const auto* conv = dynamic_cast<const Conv2d*>(entry.module);
    if (conv == nullptr) continue;
    init::kaiming_normal_(conv->weight, {.fan = init::FanMode::out});
    if (conv->options.bias) init::constant_(conv->bias, 0);
  }
}

}  // namespace adret::blocks
