// Layers one behind the other.
#include <adret/layers/sequential.h>

namespace adret {

Tensor Sequential::forward(const Tensor& x) {
  Tensor h = x;
  for (const auto& layer : children()) h = layer->call(h);
  return h;
}

Sequential Sequential::rebuild() const {
  Sequential copy;
  for (const auto& layer : children()) copy.adopt(layer->name(), Module::rebuild(*layer));
  return copy;
}

}  // namespace adret
