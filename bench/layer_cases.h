// Convolutions, products of matrices, recurrent layers and normalisation.
#pragma once

#include "function_cases.h"

namespace adret::bench {

struct LayerCases : FunctionCases {
  LayerCases(int64_t n, const TensorOptions& options) : FunctionCases{n, options} {
    convolutions();
    products();
    norms();
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
    add("conv_transpose1d", {{n, 256, 64}, {64, 4, 64}},
        [](Inputs x) { return conv_transpose1d(x[0], x[1], {}, {.stride = 2, .padding = 1}); });
    add("conv3d", {volumes(), {64, 3, 3, 3, 64}},
        [](Inputs x) { return conv3d(x[0], x[1], {}, {.padding = 1}); });
    add("conv_transpose3d", {volumes(), {64, 2, 2, 2, 64}},
        [](Inputs x) { return conv_transpose3d(x[0], x[1], {}, {.stride = 2}); });
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
    add("einsum", {tokens(), {3, 64, 192}}, [](Inputs x) {
      return einsum("bnd,hed->bhne", {x[0], x[1]});
    });
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
      add("rnn" + size, weights(1), [](Inputs x) {
        return rnn(x[0], {}, {x[1], x[2], x[3], x[4]}).output;
      });
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
};

}  // namespace adret::bench
