// The functions that bench/functions times, on the shapes of ResNet-18 (images of 32x32), of a
// ViT-Ti block and of a few others. bench/peers/torch_functions.py has the same under the same
// names.
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

  void convolution(int64_t size, int64_t in, int64_t out, int64_t kernel, int64_t stride) {
    add("conv2d/" + std::to_string(in) + "-" + std::to_string(out) + "@" + std::to_string(size) +
            " " + std::to_string(kernel) + "x" + std::to_string(kernel) + " s" +
            std::to_string(stride),
        {images(size, in), {out, kernel, kernel, in}}, [=](Inputs x) {
          return conv2d(x[0], x[1], {},
                        {.stride = stride, .padding = kernel == 16 ? 0 : kernel / 2});
        });
  }
  void convolutions() {
    convolution(32, 3, 64, 3, 1);
    convolution(32, 64, 64, 3, 1);
    convolution(32, 64, 128, 3, 2);
    convolution(32, 64, 128, 1, 2);
    convolution(16, 128, 128, 3, 1);
    convolution(8, 256, 256, 3, 1);
    convolution(4, 512, 512, 3, 1);
    convolution(224, 3, 192, 16, 16);
    add("conv_transpose2d", {images(16, 64), {64, 2, 2, 64}},
        [](Inputs x) { return conv_transpose2d(x[0], x[1], {}, {.stride = 2}); });
    add("conv1d", {{n, 256, 64}, {64, 3, 64}},
        [](Inputs x) { return conv1d(x[0], x[1], {}, {.padding = 1}); });
  }

  void products() {
    const auto linear_case = [&](int64_t in, int64_t out) {
      add("linear/" + std::to_string(in) + "-" + std::to_string(out),
          {{n, 197, in}, {out, in}, {out}}, [](Inputs x) { return linear(x[0], x[1], x[2]); });
    };
    linear_case(192, 576);
    linear_case(192, 768);
    linear_case(768, 192);
    add("linear/512-10", {{n, 512}, {10, 512}, {10}},
        [](Inputs x) { return linear(x[0], x[1], x[2]); });
    add("matmul/scores", {{n, 3, 197, 64}, {n, 3, 64, 197}},
        [](Inputs x) { return matmul(x[0], x[1]); });
    add("attention", {{n, 197, 3, 64}, {n, 197, 3, 64}, {n, 197, 3, 64}},
        [](Inputs x) { return scaled_dot_product_attention(x[0], x[1], x[2]); });
    for (const int64_t units : {128, 512, 1024}) {
      const auto weights = [&](int64_t gates) {
        return std::vector<Shape>{{n, 32, units / 2},
                                  {gates * units, units / 2},
                                  {gates * units, units},
                                  {gates * units},
                                  {gates * units}};
      };
      const std::string size = "/" + std::to_string(units);
      add("lstm" + size, weights(4), [](Inputs x) {
        return lstm(x[0], {}, {x[1], x[2], x[3], x[4]}).output;
      });
      add("gru" + size, weights(3), [](Inputs x) {
        return gru(x[0], {}, {x[1], x[2], x[3], x[4]}).output;
      });
    }
  }

  void norms() {
    const size_t first = list.size();
    for (const int64_t channels : {64, 512}) {
      const int64_t size = 2048 / channels;
      const Tensor mean = Tensor::zeros({channels}, {.device = options.device}),
                   var = Tensor::ones({channels}, {.device = options.device});
      add("batch_norm/" + std::to_string(channels) + "@" + std::to_string(size),
          {images(size, channels), {channels}, {channels}},
          [=](Inputs x) { return batch_norm(x[0], x[1], x[2], mean, var); });
    }
    add("layer_norm", {tokens(), {192}, {192}},
        [](Inputs x) { return layer_norm(x[0], x[1], x[2]); });
    add("rms_norm", {tokens(), {192}}, [](Inputs x) { return rms_norm(x[0], x[1]); });
    add("group_norm", {images(32, 64), {64}, {64}},
        [](Inputs x) { return group_norm(x[0], 32, x[1], x[2]); });
    add("instance_norm", {images(32, 64), {64}, {64}},
        [](Inputs x) { return instance_norm(x[0], x[1], x[2]); });
    for (size_t i = first; i < list.size(); ++i) list[i].weights_in_f32 = true;
    add("softmax", {{n, 3, 197, 197}}, [](Inputs x) { return softmax(x[0], -1); });
    add("log_softmax", {{n, 1000}}, [](Inputs x) { return log_softmax(x[0], -1); });
  }

  template <class F>
  void unary(const char* name, F f) {
    add(name, {images(32, 64)}, [f](Inputs x) { return f(x[0]); });
  }
  void elementwise() {
    unary("relu", [](const Tensor& x) { return relu(x); });
    unary("leaky_relu", [](const Tensor& x) { return leaky_relu(x); });
    unary("gelu", [](const Tensor& x) { return gelu(x); });
    unary("silu", [](const Tensor& x) { return silu(x); });
    unary("mish", [](const Tensor& x) { return mish(x); });
    unary("elu", [](const Tensor& x) { return elu(x); });
    unary("softplus", [](const Tensor& x) { return softplus(x); });
    unary("hardswish", [](const Tensor& x) { return hardswish(x); });
    unary("sigmoid", [](const Tensor& x) { return sigmoid(x); });
    unary("tanh", [](const Tensor& x) { return tanh(x); });
    unary("exp", [](const Tensor& x) { return exp(x); });
    unary("log1p of square", [](const Tensor& x) { return log1p(square(x)); });
    unary("sin", [](const Tensor& x) { return sin(x); });
    unary("erf", [](const Tensor& x) { return erf(x); });
    unary("abs", [](const Tensor& x) { return abs(x); });
    unary("clamp", [](const Tensor& x) { return clamp(x, -0.5, 0.5); });
    unary("pow", [](const Tensor& x) { return pow(x, 3); });
    unary("floor", [](const Tensor& x) { return floor(x); });
    unary("dropout", [](const Tensor& x) { return dropout(x, 0.1, true); });
    const std::vector<Shape> two = {images(32, 64), images(32, 64)};
    add("add", two, [](Inputs x) { return x[0] + x[1]; });
    add("multiply", two, [](Inputs x) { return x[0] * x[1]; });
    add("divide", two, [](Inputs x) { return x[0] / x[1]; });
    add("maximum", two, [](Inputs x) { return maximum(x[0], x[1]); });
    add("atan2", two, [](Inputs x) { return atan2(x[0], x[1]); });
    add("add of channels", {images(32, 64), {64}}, [](Inputs x) { return x[0] + x[1]; });
    add(
        "less", two, [](Inputs x) { return less(x[0], x[1]); }, false);
    const Tensor chosen = less(constant(images(32, 64)), constant(images(32, 64)));
    add("where", two, [=](Inputs x) { return where(chosen, x[0], x[1]); });
    add("masked_fill", {images(32, 64)}, [=](Inputs x) { return masked_fill(x[0], chosen, 1); });
  }

  void reductions() {
    unary("sum", [](const Tensor& x) { return sum(x); });
    unary("mean of pixels", [](const Tensor& x) { return mean(x, {.dims = {1, 2}}); });
    unary("sum to channels", [](const Tensor& x) { return sum(x, {.dims = {0, 1, 2}}); });
    unary("var", [](const Tensor& x) { return var(x, {.dims = {-1}}); });
    unary("norm", [](const Tensor& x) { return norm(x); });
    unary("logsumexp", [](const Tensor& x) { return logsumexp(x, {.dims = {-1}}); });
    unary("max", [](const Tensor& x) { return max_with_indices(x, {.dim = -1}).values; });
    add(
        "argmax", {tokens()}, [](Inputs x) { return argmax(x[0], {.dim = -1}); }, false);
    add("cumsum", {tokens()}, [](Inputs x) { return cumsum(x[0], 1); });
    add("sort", {tokens()}, [](Inputs x) { return sort(x[0]).values; });
    add("topk", {tokens()}, [](Inputs x) { return topk(x[0], 5).values; });
  }

  void shapes() {
    add("permute", {tokens()}, [](Inputs x) { return permute(x[0], {0, 2, 1}); });
    unary("pad", [](const Tensor& x) { return pad(x, {{0, 0}, {1, 1}, {1, 1}, {0, 0}}); });
    unary("pad, reflect", [](const Tensor& x) {
      return pad(x, {{0, 0}, {1, 1}, {1, 1}, {0, 0}}, {.mode = PadMode::reflect});
    });
    unary("flip", [](const Tensor& x) { return flip(x, {2}); });
    unary("roll", [](const Tensor& x) { return roll(x, {3}, {1}); });
    unary("repeat", [](const Tensor& x) { return repeat(x, {1, 2, 1, 1}); });
    add("concatenate", {images(32, 64), images(32, 32)}, [](Inputs x) {
      return concatenate({x[0], x[1]}, 3);
    });
    unary("max_pool2d",
          [](const Tensor& x) { return max_pool2d(x, 3, {.stride = 2, .padding = 1}); });
    unary("avg_pool2d", [](const Tensor& x) { return avg_pool2d(x, 2); });
    add("global_avg_pool2d", {images(4, 512)}, [](Inputs x) { return global_avg_pool2d(x[0]); });
    unary("adaptive_avg_pool2d", [](const Tensor& x) { return adaptive_avg_pool2d(x, 7); });
    unary("interpolate, nearest", [](const Tensor& x) { return interpolate(x, 64); });
    unary("interpolate, bilinear",
          [](const Tensor& x) { return interpolate(x, 64, {.mode = Interpolation::bilinear}); });
    unary("pixel_shuffle", [](const Tensor& x) { return pixel_shuffle(x, 2); });
  }

  void indexing() {
    const Tensor places = randint(0, 192, tokens()).to(options.device),
                 words = labels(n * 197, 10000);
    add("gather", {tokens()}, [=](Inputs x) { return gather(x[0], 2, places); });
    add("scatter_add", {tokens(), tokens()},
        [=](Inputs x) { return scatter_add(x[0], 2, places, x[1]); });
    add("embedding", {{10000, 192}}, [=](Inputs x) { return embedding(words, x[0]); });
    add("index_select", {{n * 197, 192}},
        [=, rows = labels(n * 99, n * 197)](Inputs x) { return index_select(x[0], 0, rows); });
    add(
        "one_hot", {}, [few = labels(n * 197, 100)](Inputs) { return one_hot(few, 100); }, false);
  }

  void losses() {
    const Tensor classes = labels(n, 1000), target = constant(images(32, 64));
    add("cross_entropy/1000", {{n, 1000}}, [=](Inputs x) { return cross_entropy(x[0], classes); });
    add("nll_loss/1000", {{n, 1000}}, [=](Inputs x) { return nll_loss(x[0], classes); });
    unary("mse_loss", [=](const Tensor& x) { return mse_loss(x, target); });
    unary("l1_loss", [=](const Tensor& x) { return l1_loss(x, target); });
    unary("smooth_l1_loss", [=](const Tensor& x) { return smooth_l1_loss(x, target); });
    unary("bce_with_logits", [=, target = sigmoid(target)](const Tensor& x) {
      return binary_cross_entropy_with_logits(x, target);
    });
    unary("kl_div",
          [=, target = softmax(target, -1)](const Tensor& x) { return kl_div(x, target); });
  }
};

inline std::vector<FunctionCase> function_cases(int64_t batch, const TensorOptions& options) {
  FunctionCases cases{batch, options};
  cases.convolutions();
  cases.products();
  cases.norms();
  cases.elementwise();
  cases.reductions();
  cases.shapes();
  cases.indexing();
  cases.losses();
  return std::move(cases.list);
}

}  // namespace adret::bench
