// Derivatives of first and second order of every layer's functions for batches of 0 and 1 and for
// dimensions of size 1.
#include <adret/autograd/ops/activation.h>
#include <adret/autograd/ops/arithmetic.h>
#include <adret/autograd/ops/attention.h>
#include <adret/autograd/ops/conv.h>
#include <adret/autograd/ops/embedding.h>
#include <adret/autograd/ops/group_norm.h>
#include <adret/autograd/ops/loss.h>
#include <adret/autograd/ops/matmul.h>
#include <adret/autograd/ops/norm.h>
#include <adret/autograd/ops/pair_loss.h>
#include <adret/autograd/ops/pool.h>
#include <adret/autograd/ops/recurrent.h>
#include <adret/autograd/ops/reduce.h>
#include <adret/autograd/ops/regression_loss.h>
#include <adret/autograd/ops/resample.h>
#include <adret/autograd/ops/scan.h>
#include <adret/autograd/ops/shape.h>
#include <adret/autograd/ops/softmax.h>
#include <adret/autograd/ops/statistics.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>

#include "tests/support/gradients.h"

namespace adret {
namespace {

using namespace test;
using Inputs = std::vector<Tensor>;

// Gradients with respect to operands of these shapes.
void expect_derivatives(const char* what, const std::vector<Shape>& shapes, const TestFunction& f) {
  SCOPED_TRACE(what);
  Inputs inputs;
  for (const Shape& shape : shapes) {
    inputs.push_back(variable(shape, 11 * int(inputs.size())));
    SCOPED_TRACE(to_string(shape));
  }
  expect_gradients(f, inputs);
}

Tensor labels(int64_t n) { return Tensor::zeros({n}, {.dtype = DType::i64}); }

class EdgeShapes : public testing::TestWithParam<int64_t> {
 protected:
  const int64_t n = GetParam();  // the batch
};
INSTANTIATE_TEST_SUITE_P(Batches, EdgeShapes, testing::Values(0, 1));

TEST_P(EdgeShapes, OfConvolutions) {
  const auto conv = [](const Inputs& in) { return conv2d(in[0], in[1], in[2]); };
  expect_derivatives("conv2d", {{n, 4, 3, 2}, {3, 2, 2, 2}, {3}}, conv);
  expect_derivatives("conv2d of one pixel", {{n, 1, 1, 1}, {1, 1, 1, 1}, {1}}, conv);
  expect_derivatives("conv2d in groups of one", {{n, 3, 1, 2}, {2, 3, 1, 1}}, [](const Inputs& in) {
    return conv2d(in[0], in[1], {}, {.groups = 2, .activation = Activation::relu});
  });
  const auto of_sequences = [](const Inputs& in) { return conv1d(in[0], in[1], in[2]); };
  expect_derivatives("conv1d", {{n, 4, 2}, {3, 2, 2}, {3}}, of_sequences);
  expect_derivatives("conv1d of one place", {{n, 1, 1}, {1, 1, 1}, {1}}, of_sequences);
  const auto transposed = [](const Inputs& in) {
    return conv_transpose2d(in[0], in[1], in[2], {.stride = 2});
  };
  expect_derivatives("conv_transpose2d", {{n, 2, 3, 2}, {2, 2, 2, 3}, {3}}, transposed);
  expect_derivatives("conv_transpose2d of one pixel", {{n, 1, 1, 1}, {1, 1, 1, 1}, {1}},
                     transposed);
  const auto transposed_1d = [](const Inputs& in) {
    return conv_transpose1d(in[0], in[1], in[2], {.stride = 2});
  };
  expect_derivatives("conv_transpose1d", {{n, 3, 2}, {2, 2, 3}, {3}}, transposed_1d);
  expect_derivatives("conv_transpose1d of one place", {{n, 1, 1}, {1, 1, 1}, {1}}, transposed_1d);
}

TEST_P(EdgeShapes, OfConvolutionsWithoutChannels) {
  for (const int64_t groups : {1, 3}) {
    const auto conv = [groups](const Inputs& in) {
      return conv2d(in[0], in[1], in[2], {.padding = 1, .groups = groups});
    };
    expect_derivatives("conv2d of none", {{n, 3, 4, 0}, {3, 2, 2, 0}, {3}}, conv);
    expect_derivatives("conv2d to none", {{n, 3, 4, 3}, {0, 2, 2, 3 / groups}, {0}}, conv);
    const auto of_sequences = [groups](const Inputs& in) {
      return conv1d(in[0], in[1], in[2], {.padding = Pad::same, .groups = groups});
    };
    expect_derivatives("conv1d of none", {{n, 4, 0}, {3, 2, 0}, {3}}, of_sequences);
    const auto of_volumes = [groups](const Inputs& in) {
      return conv3d(in[0], in[1], in[2], {.padding = 1, .groups = groups});
    };
    expect_derivatives("conv3d of none", {{n, 2, 3, 2, 0}, {3, 2, 2, 2, 0}, {3}}, of_volumes);
    const auto transposed = [groups](const Inputs& in) {
      return conv_transpose2d(in[0], in[1], in[2], {.stride = 2, .groups = groups});
    };
    expect_derivatives("conv_transpose2d of none", {{n, 2, 3, 0}, {0, 2, 2, 1}, {groups}},
                       transposed);
    expect_derivatives("conv_transpose2d to none", {{n, 2, 3, 3}, {3, 2, 2, 0}, {0}}, transposed);
    const auto volumes_transposed = [groups](const Inputs& in) {
      return conv_transpose3d(in[0], in[1], in[2], {.stride = 2, .groups = groups});
    };
    expect_derivatives("conv_transpose3d of none", {{n, 2, 2, 1, 0}, {0, 2, 2, 2, 1}, {groups}},
                       volumes_transposed);
    expect_derivatives("conv_transpose3d to none", {{n, 2, 2, 1, 3}, {3, 2, 2, 2, 0}, {0}},
                       volumes_transposed);
  }
}

TEST_P(EdgeShapes, OfPoolingAndResampling) {
  for (const Shape& shape : {Shape{n, 3, 4, 2}, Shape{n, 1, 3, 1}, Shape{n, 1, 1, 1}}) {
    const Size2 kernel{std::min<int64_t>(2, shape[1]), std::min<int64_t>(2, shape[2])};
    expect_derivatives("max_pool2d", {shape},
                       [&](const Inputs& in) { return max_pool2d(in[0], kernel); });
    expect_derivatives("avg_pool2d", {shape},
                       [&](const Inputs& in) { return avg_pool2d(in[0], kernel); });
    expect_derivatives("global_avg_pool2d", {shape},
                       [](const Inputs& in) { return global_avg_pool2d(in[0]); });
    for (const Size2 size : {Size2(1), Size2(3)}) {
      expect_derivatives("adaptive_avg_pool2d", {shape}, [&](const Inputs& in) {
        return square(adaptive_avg_pool2d(in[0], size));
      });
      for (const Interpolation mode : {Interpolation::nearest, Interpolation::bilinear}) {
        expect_derivatives("interpolate", {shape}, [&](const Inputs& in) {
          return square(interpolate(in[0], size, {.mode = mode}));
        });
      }
    }
  }
}

TEST_P(EdgeShapes, OfSequencesAndVolumesResampled) {
  for (const Interpolation mode : {Interpolation::nearest, Interpolation::linear}) {
    for (const int64_t size : {1, 3}) {
      expect_derivatives("interpolate1d", {{n, 2, 1}}, [&](const Inputs& in) {
        return square(interpolate1d(in[0], size, {.mode = mode}));
      });
      expect_derivatives("interpolate3d", {{n, 1, 2, 1, 2}}, [&](const Inputs& in) {
        return square(interpolate3d(in[0], {3, size, 2}, {.mode = mode}));
      });
    }
  }
}

TEST_P(EdgeShapes, OfProducts) {
  const auto of_rows = [](const Inputs& in) { return linear(in[0], in[1], in[2]); };
  expect_derivatives("linear", {{n, 3}, {2, 3}, {2}}, of_rows);
  expect_derivatives("linear of one", {{n, 1}, {1, 1}, {1}}, of_rows);
  expect_derivatives("linear of leading dimensions", {{n, 1, 3}, {2, 3}, {2}}, of_rows);
  const auto product = [](const Inputs& in) { return matmul(in[0], in[1]); };
  expect_derivatives("matmul", {{n, 2, 3}, {3, 2}}, product);
  expect_derivatives("matmul of batches", {{n, 2, 3}, {n, 3, 1}}, product);
  expect_derivatives("matmul of one", {{n, 1, 1}, {1, 1}}, product);
  expect_derivatives("matmul of vectors", {{n}, {n}}, product);
  expect_derivatives("embedding", {{1, 1}, {n}},
                     [](const Inputs& in) { return embedding(labels(in[1].size(0)), in[0]); });
}

TEST_P(EdgeShapes, OfNormalisations) {
  for (const int64_t c : {1, 3}) {
    const std::vector<Shape> of_rows = {{n, c}, {c}, {c}}, of_images = {{n, 2, 1, c}, {c}, {c}};
    expect_derivatives("layer_norm", of_rows,
                       [](const Inputs& in) { return layer_norm(in[0], in[1], in[2]); });
    expect_derivatives("rms_norm", {{n, c}, {c}},
                       [](const Inputs& in) { return rms_norm(in[0], in[1]); });
    expect_derivatives("layer_norm_of_sum", {{n, c}, {n, c}, {c}}, [](const Inputs& in) {
      const NormedSum y = layer_norm_of_sum(in[0], in[1], in[2]);
      return y.y + square(y.sum);
    });
    expect_derivatives("group_norm", of_images,
                       [](const Inputs& in) { return group_norm(in[0], 1, in[1], in[2]); });
    expect_derivatives("instance_norm", of_images,
                       [](const Inputs& in) { return instance_norm(in[0], in[1], in[2]); });
    const Tensor mean = sequence({c}), var = square(sequence({c}, 5)) + 0.5;
    expect_derivatives("batch_norm in evaluation", of_images, [&](const Inputs& in) {
      return batch_norm(in[0], in[1], in[2], mean, var, {.training = false});
    });
    if (n == 0) continue;  // in training that is refused: there is nothing to normalise by
    expect_derivatives("batch_norm", of_images,
                       [](const Inputs& in) { return batch_norm(in[0], in[1], in[2], {}, {}); });
  }
}

// The mean of no losses is NaN, as in PyTorch, but for those that leave samples out.
TEST_P(EdgeShapes, OfLosses) {
  for (const Reduction r : {Reduction::none, Reduction::sum, Reduction::mean}) {
    for (const int64_t c : {1, 3}) {
      const Shape rows{n, c};
      const std::vector<Shape> pair = {rows, rows};
      expect_derivatives("cross_entropy", {rows}, [&](const Inputs& in) {
        return cross_entropy(in[0], labels(n), {.label_smoothing = 0.1, .reduction = r});
      });
      expect_derivatives("nll_loss", {rows}, [&](const Inputs& in) {
        return nll_loss(log_softmax(in[0]), labels(n), {.reduction = r});
      });
      if (n == 0 && r == Reduction::mean) continue;
      expect_derivatives("multi_margin_loss", {rows}, [&](const Inputs& in) {
        return multi_margin_loss(in[0], labels(n), {.reduction = r});
      });
      expect_derivatives("mse_loss", pair,
                         [&](const Inputs& in) { return mse_loss(in[0], in[1], {r}); });
      expect_derivatives("l1_loss", pair,
                         [&](const Inputs& in) { return l1_loss(in[0], in[1], {r}); });
      expect_derivatives("smooth_l1_loss", pair, [&](const Inputs& in) {
        return smooth_l1_loss(in[0], in[1], {.reduction = r});
      });
      expect_derivatives("huber_loss", pair, [&](const Inputs& in) {
        return huber_loss(in[0], in[1], {.reduction = r});
      });
      expect_derivatives("binary_cross_entropy_with_logits", pair, [&](const Inputs& in) {
        return binary_cross_entropy_with_logits(in[0], in[1], {.reduction = r});
      });
      expect_derivatives("focal_loss", {rows}, [&](const Inputs& in) {
        return focal_loss(in[0], Tensor::zeros(rows, {.dtype = DType::f64}), {.reduction = r});
      });
      expect_derivatives("kl_div", pair, [&](const Inputs& in) {
        return kl_div(in[0], in[1], {.log_target = true, .reduction = r});
      });
    }
  }
}

TEST_P(EdgeShapes, OfLossesOfPairs) {
  for (const Reduction r : {Reduction::none, Reduction::sum, Reduction::mean}) {
    if (n == 0 && r == Reduction::mean) continue;
    const Shape rows{n, 3};
    const Tensor ones = Tensor::ones({n}), all = Tensor::ones(rows);
    expect_derivatives("cosine_embedding_loss", {rows, rows}, [&](const Inputs& in) {
      return cosine_embedding_loss(in[0], in[1], ones, {.reduction = r});
    });
    expect_derivatives("margin_ranking_loss", {rows, rows}, [&](const Inputs& in) {
      return margin_ranking_loss(in[0], in[1], all, {.margin = 1, .reduction = r});
    });
    expect_derivatives("hinge_embedding_loss", {rows}, [&](const Inputs& in) {
      return hinge_embedding_loss(in[0], -all, {.margin = 1, .reduction = r});
    });
    expect_derivatives("soft_margin_loss", {rows},
                       [&](const Inputs& in) { return soft_margin_loss(in[0], all, {r}); });
    expect_derivatives("triplet_margin_loss", {rows, rows, rows}, [&](const Inputs& in) {
      return triplet_margin_loss(in[0], in[1], in[2], {.margin = 2, .reduction = r});
    });
  }
}

TEST_P(EdgeShapes, OfAttention) {
  const auto attend = [](const Inputs& in) {
    return scaled_dot_product_attention(in[0], in[1], in[2]);
  };
  expect_derivatives("attention", {{n, 2, 1, 2}, {n, 3, 1, 2}, {n, 3, 1, 2}}, attend);
  expect_derivatives("attention to one key", {{n, 3, 2, 1}, {n, 1, 2, 1}, {n, 1, 2, 1}}, attend);
  expect_derivatives("attention of one query", {{n, 1, 1, 1}, {n, 2, 1, 1}, {n, 2, 1, 1}}, attend);
  expect_derivatives("attention of one tensor", {{n, 2, 3, 1, 1}}, [](const Inputs& in) {
    return scaled_dot_product_attention_packed(in[0], {.causal = true});
  });
}

TEST_P(EdgeShapes, OfRecurrentLayers) {
  for (const auto& [steps, inputs, hidden] :
       {std::array<int64_t, 3>{1, 1, 1}, {2, 1, 2}, {1, 2, 1}}) {
    const auto shapes = [&](int64_t gates) {
      return std::vector<Shape>{{n, steps, inputs},
                                {n, hidden},
                                {gates * hidden, inputs},
                                {gates * hidden, hidden},
                                {gates * hidden}};
    };
    expect_derivatives("rnn", shapes(1), [](const Inputs& in) {
      return rnn(in[0], in[1], {in[2], in[3], in[4], in[4]}).output;
    });
    expect_derivatives("gru", shapes(3), [](const Inputs& in) {
      return gru(in[0], in[1], {in[2], in[3], in[4], in[4]}).output;
    });
    expect_derivatives("lstm", shapes(4), [](const Inputs& in) {
      return lstm(in[0], {in[1], in[1]}, {in[2], in[3], in[4], in[4]}).output;
    });
  }
}

TEST_P(EdgeShapes, OfReductionsAndActivations) {
  for (const Shape& shape : {Shape{n, 1}, Shape{n, 2}, Shape{1, n, 1}}) {
    const ReduceOptions last{.dims = {-1}};
    expect_derivatives("sum", {shape}, [&](const Inputs& in) { return square(sum(in[0], last)); });
    expect_derivatives("mean", {shape},
                       [&](const Inputs& in) { return square(mean(in[0], last)); });
    expect_derivatives("max", {shape}, [&](const Inputs& in) { return square(max(in[0], last)); });
    expect_derivatives("prod", {shape}, [&](const Inputs& in) { return prod(in[0], last); });
    expect_derivatives("logsumexp", {shape},
                       [&](const Inputs& in) { return logsumexp(in[0], last); });
    expect_derivatives("norm", {shape}, [&](const Inputs& in) { return norm(in[0], 2, last); });
    expect_derivatives("var", {shape}, [&](const Inputs& in) {
      return var(in[0], {.dims = {-1}, .correction = 0});
    });
    expect_derivatives("cumsum", {shape},
                       [&](const Inputs& in) { return square(cumsum(in[0], -1)); });
    expect_derivatives("cumprod", {shape}, [&](const Inputs& in) { return cumprod(in[0], -1); });
    expect_derivatives("softmax", {shape}, [&](const Inputs& in) { return softmax(in[0]); });
    expect_derivatives("log_softmax", {shape},
                       [&](const Inputs& in) { return log_softmax(in[0]); });
    expect_derivatives("prelu", {shape, {1}},
                       [&](const Inputs& in) { return prelu(in[0], in[1]); });
  }
}

}  // namespace
}  // namespace adret
