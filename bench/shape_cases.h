// Reductions, scans, sorting, pooling, and what moves elements.
#pragma once

#include "function_cases.h"

namespace adret::bench {

struct ShapeCases : FunctionCases {
  ShapeCases(int64_t n, const TensorOptions& options) : FunctionCases{n, options} {
    reductions();
    shapes();
    indexing();
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
    add("cumprod", {tokens()}, [](Inputs x) { return cumprod(x[0], 1); });
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
    add("stack", {tokens(), tokens()}, [](Inputs x) { return stack({x[0], x[1]}, 1); });
    unary("max_pool2d",
          [](const Tensor& x) { return max_pool2d(x, 3, {.stride = 2, .padding = 1}); });
    add("max_pool1d", {{n, 256, 64}}, [](Inputs x) { return max_pool1d(x[0], 2); });
    add("max_pool3d", {volumes()}, [](Inputs x) { return max_pool3d(x[0], 2); });
    add("avg_pool1d", {{n, 256, 64}}, [](Inputs x) { return avg_pool1d(x[0], 2); });
    add("avg_pool3d", {volumes()}, [](Inputs x) { return avg_pool3d(x[0], 2); });
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
};

}  // namespace adret::bench
