// A function to be timed, and what lists of them share: the shapes of ResNet-18 (images of 32x32),
// of a ViT-Ti block and of a few others. bench/peers/torch_functions.py has the same functions
// under the same names.
#pragma once

#include <adret/adret.h>

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace adret::bench {

struct FunctionCase {
  std::string name;
  std::vector<Shape> shapes;  // of inputs that get gradients, normally distributed
  std::function<Tensor(const std::vector<Tensor>&)> function;
  bool learns = true;           // has a backward pass worth a time
  bool weights_in_f32 = false;  // inputs behind the first are f32 whatever the dtype
};

using Inputs = const std::vector<Tensor>&;

struct FunctionCases {
  int64_t n;  // the batch
  TensorOptions options;
  std::vector<FunctionCase> list = {};

  Shape images(int64_t size, int64_t channels) const { return {n, size, size, channels}; }
  Shape volumes() const { return {n, 4, 16, 16, 64}; }
  Shape tokens() const { return {n, 197, 192}; }
  // What takes no part in the gradient.
  Tensor constant(const Shape& shape) const {
    return randn(shape).to(options.device).to(options.dtype);
  }
  Tensor labels(int64_t count, int64_t classes) const {
    return randint(0, classes, {count}).to(options.device);
  }

  template <class F>
  void add(const std::string& name, const std::vector<Shape>& shapes, F function,
           bool learns = true) {
    list.push_back({name, shapes, function, learns});
  }

  template <class F>
  void unary(const char* name, F f) {
    add(name, {images(32, 64)}, [f](Inputs x) { return f(x[0]); });
  }
};

}  // namespace adret::bench
