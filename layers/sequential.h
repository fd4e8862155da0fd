// Layers one behind the other.
#pragma once

#include <adret/layers/module.h>

namespace adret {

// Sequential(Flatten(), Linear(784, 256), ReLU(), Linear(256, 10)): each layer takes one tensor and
// returns one. The layers are named "0", "1", ...
class Sequential : public Layer<Sequential> {
 public:
  template <class... Layers>
  requires(sizeof...(Layers) != 1 ||
           !(std::same_as<Layers, Sequential> || ...)) explicit Sequential(Layers... layers) {
    (append(std::move(layers)), ...);
  }

  // Adds a layer behind the others, named by its place or as said, and returns it.
  template <OneTensorLayer L>
  L& append(L layer) {
    return append(std::to_string(size()), std::move(layer));
  }
  template <OneTensorLayer L>
  L& append(const std::string& name, L layer) {
    return add(name, std::move(layer));
  }

  size_t size() const { return children().size(); }
  Tensor forward(const Tensor& x);
  Sequential rebuild() const;
};

}  // namespace adret
