// Initial weights of the convolutional models.
#include <adret/layers/linear.h>
#include <adret/layers/models/blocks.h>

namespace adret::blocks {

void init_convolutions_(Module& model, init::FanMode fan) {
  for (const NamedModule& entry : model.named_modules()) {
    const auto* conv = dynamic_cast<const Conv2d*>(entry.module);
    if (conv == nullptr) continue;
    init::kaiming_normal_(conv->weight, {.fan = fan});
    if (conv->options.bias) init::constant_(conv->bias, 0);
  }
}

void init_linear_(Module& model) {
  for (const NamedModule& entry : model.named_modules()) {
    const auto* linear = dynamic_cast<const Linear*>(entry.module);
    if (linear == nullptr) continue;
    init::normal_(linear->weight, 0, 0.01);
    if (linear->options.bias) init::constant_(linear->bias, 0);
  }
}

}  // namespace adret::blocks
