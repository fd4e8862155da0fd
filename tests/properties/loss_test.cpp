// Losses: each element's against its definition, how sums and means follow, and slopes.
#include <adret/autograd/ops/activation.h>
#include <adret/autograd/ops/arithmetic.h>
#include <adret/autograd/ops/likelihood_loss.h>
#include <adret/autograd/ops/loss.h>
#include <adret/autograd/ops/pair_loss.h>
#include <adret/autograd/ops/reduce.h>
#include <adret/autograd/ops/regression_loss.h>
#include <adret/autograd/ops/softmax.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <numbers>

#include "tests/support/random_case.h"

namespace adret {
namespace {

using namespace test;

using Loss = std::function<Tensor(const Inputs&, Reduction)>;

// The mean of no losses is NaN; f32 gives f32, in which nothing is far off.
void expect_loss(Draw& draw, const Inputs& inputs, const Loss& loss) {
  const Tensor each = loss(inputs, Reduction::none);
  EXPECT_EQ(each.dtype(), DType::f64);
  expect_array(loss(inputs, Reduction::sum), sum(each));
  expect_array(loss(inputs, Reduction::mean), mean(each));
  Inputs narrow;
  for (const Tensor& input : inputs) {
    narrow.push_back(input.dtype() == DType::f64 ? input.to(DType::f32) : input);
  }
  const Tensor of_narrow = loss(narrow, Reduction::none);
  EXPECT_EQ(of_narrow.dtype(), DType::f32);
  expect_array(of_narrow, each, 1e-4);
  const Reduction reduction = draw.one_of<Reduction>(
      each.numel() > 0 ? std::vector{Reduction::none, Reduction::sum, Reduction::mean}
                       : std::vector{Reduction::none, Reduction::sum});
  expect_slope([&](const Inputs& in) { return loss(in, reduction); }, inputs, draw);
}

// (prediction, target), whose difference is never at a kink.
Inputs two(Draw& draw) {
  const Shape shape = draw.shape(0, 3);
  return {draw.numbers(shape), draw.numbers(shape) + 0.25 / 64};
}

// f(|prediction - target|)
template <class F>
Array of_distances(const Inputs& in, F f) {
  const Array prediction(in[0]), target(in[1]);
  return tabulate(prediction.shape,
                  [&](const Index& at) { return f(std::abs(prediction.at(at) - target.at(at))); });
}

TEST(LossProperties, OfDifferences) {
  for_random_cases("mse_loss", [](Draw& draw) {
    const Inputs in = two(draw);
    expect_array(mse_loss(in[0], in[1], {Reduction::none}), square(in[0] - in[1]));
    expect_loss(draw, in,
                [](const Inputs& in, Reduction r) { return mse_loss(in[0], in[1], {r}); });
  });
  for_random_cases("l1_loss", [](Draw& draw) {
    const Inputs in = two(draw);
    expect_array(l1_loss(in[0], in[1], {Reduction::none}), abs(in[0] - in[1]));
    expect_loss(draw, in, [](const Inputs& in, Reduction r) { return l1_loss(in[0], in[1], {r}); });
  });
  for_random_cases("smooth_l1_loss", [](Draw& draw) {
    const double beta = draw.integer(0, 3) / 2.0;
    const Inputs in = two(draw);
    expect_array(
        smooth_l1_loss(in[0], in[1], {beta, Reduction::none}),
        of_distances(in, [&](double d) { return d < beta ? d * d / (2 * beta) : d - beta / 2; }));
    expect_loss(draw, in, [&](const Inputs& in, Reduction r) {
      return smooth_l1_loss(in[0], in[1], {beta, r});
    });
  });
  for_random_cases("huber_loss", [](Draw& draw) {
    const double delta = draw.integer(1, 4) / 2.0;
    const Inputs in = two(draw);
    expect_array(huber_loss(in[0], in[1], {delta, Reduction::none}),
                 of_distances(in, [&](double d) {
                   return d < delta ? d * d / 2 : delta * (d - delta / 2);
                 }));
    expect_loss(draw, in, [&](const Inputs& in, Reduction r) {
      return huber_loss(in[0], in[1], {delta, r});
    });
  });
}

// -- classes ------------------------------------------------------------------

// (scores (..., C), labels (...)), some of which are ignored.
struct Classes {
  Inputs inputs;
  Tensor weights, narrow_weights;

  Classes(Draw& draw, int64_t lowest_label) {
    const Shape samples = draw.shape(0, 2);
    const int64_t classes = draw.integer(1, 6);
    inputs = {
        draw.numbers(samples.inserted(samples.rank(), classes)),
        draw.integers(samples, lowest_label, classes - 1, draw.chance() ? DType::i32 : DType::i64)};
    if (draw.chance()) weights = draw.numbers({classes}, DType::f64, 0.25, 2);
    if (weights.defined()) narrow_weights = weights.to(DType::f32);
  }
  double weight(int64_t label) const { return weights.defined() ? Array(weights).at({label}) : 1; }
  const Tensor& weights_for(const Tensor& x) const {
    return x.dtype() == DType::f64 ? weights : narrow_weights;
  }
};

// A weighted mean is the sum divided by the weights of the samples that count.
Tensor weighted_mean(const Tensor& each, const Classes& c) {
  const Array labels(c.inputs[1]);
  double total = 0;
  for (double label : labels.values) {
    if (label >= 0) total += c.weight(int64_t(label));
  }
  return sum(each) / (total > 0 ? total : 1);
}

TEST(LossProperties, OfLabels) {
  for_random_cases("cross_entropy", [](Draw& draw) {
    const Classes c(draw, -1);
    const double smoothing = draw.one_of<double>({0, 0.1});
    const auto loss = [&](const Inputs& in, Reduction r) {
      return cross_entropy(in[0], in[1], {smoothing, -1, r, c.weights_for(in[0])});
    };
    const Tensor each = loss(c.inputs, Reduction::none);
    const Array logits(log_softmax(c.inputs[0])), labels(c.inputs[1]);
    const int64_t classes = c.inputs[0].size(-1);
    expect_array(each, tabulate(each.shape(), [&](const Index& at) {
                   double loss = 0;
                   for (int64_t k = 0; k < classes && labels.at(at) >= 0; ++k) {
                     const double share =
                         smoothing / double(classes) + (k == labels.at(at) ? 1 - smoothing : 0);
                     loss -= share * c.weight(k) * logits.at(inserted(at, int(at.size()), k));
                   }
                   return loss;
                 }));
    expect_array(loss(c.inputs, Reduction::sum), sum(each));
    expect_array(loss(c.inputs, Reduction::mean), weighted_mean(each, c));
    for (const Reduction r : {Reduction::none, Reduction::sum, Reduction::mean}) {
      expect_slope([&](const Inputs& in) { return loss(in, r); }, c.inputs, draw);
    }
  });
  for_random_cases("nll_loss", [](Draw& draw) {
    const Classes c(draw, -1);
    const auto loss = [&](const Inputs& in, Reduction r) {
      return nll_loss(in[0], in[1], {-1, r, c.weights_for(in[0])});
    };
    const Tensor each = loss(c.inputs, Reduction::none);
    const Array x(c.inputs[0]), labels(c.inputs[1]);
    expect_array(each, tabulate(each.shape(), [&](const Index& at) {
                   const auto label = int64_t(labels.at(at));
                   return label < 0 ? 0
                                    : -c.weight(label) * x.at(inserted(at, int(at.size()), label));
                 }));
    expect_array(loss(c.inputs, Reduction::sum), sum(each));
    expect_array(loss(c.inputs, Reduction::mean), weighted_mean(each, c));
    for (const Reduction r : {Reduction::none, Reduction::sum, Reduction::mean}) {
      expect_slope([&](const Inputs& in) { return loss(in, r); }, c.inputs, draw);
    }
  });
}

TEST(LossProperties, OfMargins) {
  for_random_cases("multi_margin_loss", [](Draw& draw) {
    const Classes c(draw, 0);
    const int p = int(draw.integer(1, 2));
    const double margin = draw.number(0.5, 2) + 0.25 / 64;
    const Array x(c.inputs[0]), labels(c.inputs[1]);
    const int64_t classes = c.inputs[0].size(-1);
    const auto of_sample = [&](const Index& at) {
      const auto label = int64_t(labels.at(at));
      const auto score = [&](int64_t k) { return x.at(inserted(at, int(at.size()), k)); };
      double total = 0;
      for (int64_t k = 0; k < classes; ++k) {
        if (k != label) total += std::pow(std::max(0.0, margin - score(label) + score(k)), p);
      }
      return c.weight(label) * total / double(classes);
    };
    expect_array(
        multi_margin_loss(c.inputs[0], c.inputs[1], {p, margin, Reduction::none, c.weights}),
        tabulate(c.inputs[1].shape(), of_sample));
    expect_loss(draw, c.inputs, [&](const Inputs& in, Reduction r) {
      return multi_margin_loss(in[0], in[1], {p, margin, r, c.weights_for(in[0])});
    });
  });
}

// Shares of the classes instead of labels.
TEST(LossProperties, OfShares) {
  for_random_cases("cross_entropy", [](Draw& draw) {
    const Shape shape = draw.shape(0, 2).inserted(0, draw.integer(1, 5));
    const Tensor logits = draw.numbers(shape), shares = softmax(draw.numbers(shape));
    if (shape[-1] == 0) return;
    const auto loss = [&](const Inputs& in, Reduction r) {
      return cross_entropy(in[0], in[1], {.reduction = r});
    };
    const Tensor expected = -sum(log_softmax(logits) * shares, {.dims = {-1}});
    expect_array(loss({logits, shares}, Reduction::none), expected);
    expect_loss(draw, {logits, shares}, loss);
  });
}

// -- probabilities ------------------------------------------------------------

TEST(LossProperties, OfProbabilities) {
  for_random_cases("binary_cross_entropy_with_logits", [](Draw& draw) {
    const Shape shape = draw.shape(0, 3);
    const Tensor logits = draw.numbers(shape, DType::f64, -6, 6),
                 targets = draw.numbers(shape, DType::f64, 0, 1);
    const auto loss = [](const Inputs& in, Reduction r) {
      return binary_cross_entropy_with_logits(in[0], in[1], {.reduction = r});
    };
    expect_array(loss({logits, targets}, Reduction::none),
                 -(targets * logsigmoid(logits) + (1 - targets) * logsigmoid(-logits)));
    expect_loss(draw, {logits, targets}, loss);
    const Tensor weight = draw.numbers(draw.stretched_to(shape), DType::f64, 0, 2),
                 pos_weight = draw.numbers(draw.stretched_to(shape), DType::f64, 0, 2);
    expect_slope(
        [](const Inputs& in) {
          return binary_cross_entropy_with_logits(in[0], in[1], {in[2], in[3], Reduction::none});
        },
        {logits, targets, weight, pos_weight}, draw);
  });
  for_random_cases("focal_loss", [](Draw& draw) {
    const Shape shape = draw.shape(0, 3);
    const Tensor logits = draw.numbers(shape, DType::f64, -6, 6),
                 targets = draw.integers(shape, 0, 1, DType::f32);
    const double alpha = draw.one_of<double>({-1, 0, 0.25, 1}),
                 gamma = draw.one_of<double>({0, 1, 2, 2.5});
    const auto loss = [&](const Inputs& in, Reduction r) {
      return focal_loss(in[0], targets.to(in[0].dtype()), {alpha, gamma, r});
    };
    const Array x(logits), is_one(targets);
    expect_array(loss({logits}, Reduction::none), tabulate(shape, [&](const Index& at) {
                   const double sign = is_one.at(at) > 0 ? 1 : -1;
                   const double p = 1 / (1 + std::exp(-sign * x.at(at)));
                   const double balance = alpha < 0 ? 1 : sign > 0 ? alpha : 1 - alpha;
                   return -balance * std::pow(1 - p, gamma) * std::log(p);
                 }));
    expect_loss(draw, {logits}, loss);
  });
  for_random_cases("kl_div", [](Draw& draw) {
    const Shape shape = draw.shape(0, 3);
    const bool log_target = draw.chance();
    const Tensor x = draw.numbers(shape), shares = draw.numbers(shape, DType::f64, 0, 1);
    const auto loss = [&](const Inputs& in, Reduction r) {
      return kl_div(in[0], in[1], {.log_target = log_target, .reduction = r});
    };
    const Tensor target = log_target ? log(shares) : shares;
    expect_array(loss({x, target}, Reduction::none), shares * (log(shares) - x));
    expect_loss(draw, {x, target}, loss);
  });
}

// -- pairs --------------------------------------------------------------------

// Vectors (..., C) and labels 1 or -1.
struct Vectors {
  Tensor a, b, c, labels;

  explicit Vectors(Draw& draw) {
    const Shape samples = draw.shape(0, 2);
    const Shape shape = samples.inserted(samples.rank(), draw.integer(2, 5));
    a = draw.numbers(shape);
    b = draw.numbers(shape) + 0.25 / 64;  // no two have an element in common
    c = draw.numbers(shape) + 0.375 / 64;
    labels = draw.truths(samples).to(DType::f32) * 2 - 1;
  }
  // Of f(index of an element) over the vector of a sample.
  template <class F>
  double sum_over(const Index& sample, F f) const {
    double total = 0;
    for (int64_t k = 0; k < a.size(-1); ++k) total += f(inserted(sample, int(sample.size()), k));
    return total;
  }
};

TEST(LossProperties, OfVectors) {
  for_random_cases("cosine_similarity", [](Draw& draw) {
    const Shape shape = draw.shape(1, 3);
    const int dim = draw.dim(shape);
    const Tensor a = draw.numbers(shape), b = draw.numbers(shape);
    const ReduceOptions along{.dims = {dim}};
    expect_array(cosine_similarity(a, b, {.dim = dim}),
                 shape[dim] == 0
                     ? sum(a, along)
                     : sum(a * b, along) / sqrt(sum(square(a), along) * sum(square(b), along)));
    expect_slope([&](const Inputs& in) { return cosine_similarity(in[0], in[1], {.dim = dim}); },
                 {a, b}, draw);
  });
  for_random_cases("cosine_embedding_loss", [](Draw& draw) {
    const Vectors v(draw);
    const double margin = draw.number(-0.5, 0.5);
    const Array a(v.a), b(v.b), labels(v.labels);
    const auto of_sample = [&](const Index& at) {
      const double product = v.sum_over(at, [&](const Index&k) { return a.at(k) * b.at(k); }),
                   of_a = v.sum_over(at, [&](const Index&k) { return a.at(k) * a.at(k); }),
                   of_b = v.sum_over(at, [&](const Index&k) { return b.at(k) * b.at(k); });
      const double cosine = product / std::sqrt(of_a * of_b);
      return labels.at(at) > 0 ? 1 - cosine : std::max(0.0, cosine - margin);
    };
    expect_array(cosine_embedding_loss(v.a, v.b, v.labels, {margin, Reduction::none}),
                 tabulate(v.labels.shape(), of_sample));
    expect_loss(draw, {v.a, v.b, v.labels}, [&](const Inputs& in, Reduction r) {
      return cosine_embedding_loss(in[0], in[1], in[2], {margin, r});
    });
  });
  for_random_cases("triplet_margin_loss", [](Draw& draw) {
    const Vectors v(draw);
    const TripletMarginOptions options{
        .margin = draw.number(0.5, 2), .p = draw.one_of<double>({1, 2, 3}), .swap = draw.chance()};
    const Array a(v.a), b(v.b), c(v.c);
    const auto of_sample = [&](const Index& at) {
      const auto distance = [&](const Array& one, const Array& other) {
        return std::pow(v.sum_over(at,
                                   [&](const Index& k) {
                                     const double d = std::abs(one.at(k) - other.at(k) + 1e-6);
                                     return std::pow(d, options.p);
                                   }),
                        1 / options.p);
      };
      const double negative =
          options.swap ? std::min(distance(a, c), distance(b, c)) : distance(a, c);
      return std::max(0.0, options.margin + distance(a, b) - negative);
    };
    TripletMarginOptions apart = options;
    apart.reduction = Reduction::none;
    expect_array(triplet_margin_loss(v.a, v.b, v.c, apart), tabulate(v.labels.shape(), of_sample));
    expect_loss(draw, {v.a, v.b, v.c}, [&](const Inputs& in, Reduction r) {
      TripletMarginOptions reduced = options;
      reduced.reduction = r;
      return triplet_margin_loss(in[0], in[1], in[2], reduced);
    });
  });
}

TEST(LossProperties, OfLikelihoods) {
  for_random_cases("poisson_nll_loss", [](Draw& draw) {
    const Shape shape = draw.shape(0, 3);
    const PoissonNllOptions options{
        .log_input = draw.chance(), .full = draw.chance(), .epsilon = 1e-3};
    const double low = options.log_input ? -2 : 0.25;
    const Inputs in = {draw.numbers(shape, DType::f64, low, 3),
                       draw.numbers(shape, DType::f64, 0.25, 5)};
    const Array x(in[0]), target(in[1]);
    const auto with = [&](Reduction reduction) {
      PoissonNllOptions reduced = options;
      reduced.reduction = reduction;
      return reduced;
    };
    const auto of_element = [&](const Index& at) {
      const double t = target.at(at), rate = options.log_input ? std::exp(x.at(at)) : x.at(at);
      const double log_rate = options.log_input ? x.at(at) : std::log(rate + 1e-3);
      const double rest =
          t * std::log(t) - t + 0.5 * std::log(2 * std::numbers::pi * t);  // Stirling's
      return rate - t * log_rate + (options.full && t > 1 ? rest : 0);
    };
    expect_array(poisson_nll_loss(in[0], in[1], with(Reduction::none)),
                 tabulate(shape, of_element));
    expect_loss(draw, in, [&](const Inputs& in, Reduction r) {
      return poisson_nll_loss(in[0], in[1], with(r));
    });
  });
  for_random_cases("gaussian_nll_loss", [](Draw& draw) {
    const Shape shape = draw.shape(0, 3);
    const bool full = draw.chance();
    const Inputs in = {draw.numbers(shape), draw.numbers(shape),
                       draw.numbers(shape, DType::f64, 0.25, 4)};
    const Array x(in[0]), target(in[1]), variance(in[2]);
    const auto of_element = [&](const Index& at) {
      const double off = x.at(at) - target.at(at), v = variance.at(at);
      const double rest = full ? 0.5 * std::log(2 * std::numbers::pi) : 0;
      return 0.5 * (std::log(v) + off * off / v) + rest;
    };
    const auto loss = [&](const Inputs& in, Reduction r) {
      return gaussian_nll_loss(in[0], in[1], in[2], {.full = full, .reduction = r});
    };
    expect_array(loss(in, Reduction::none), tabulate(shape, of_element));
    expect_loss(draw, in, loss);
  });
}

TEST(LossProperties, OfSignedLabels) {
  for_random_cases("margin_ranking_loss", [](Draw& draw) {
    const Shape shape = draw.shape(0, 3);
    const Tensor labels = draw.truths(shape).to(DType::f32) * 2 - 1;
    const double margin = draw.number(-1, 1) + 0.25 / 64;
    const Inputs in = {draw.numbers(shape), draw.numbers(shape), labels};
    const Array a(in[0]), b(in[1]), sign(labels);
    expect_array(margin_ranking_loss(in[0], in[1], labels, {margin, Reduction::none}),
                 tabulate(shape, [&](const Index& at) {
                   return std::max(0.0, margin - sign.at(at) * (a.at(at) - b.at(at)));
                 }));
    expect_loss(draw, in, [&](const Inputs& in, Reduction r) {
      return margin_ranking_loss(in[0], in[1], in[2], {margin, r});
    });
  });
  for_random_cases("hinge_embedding_loss", [](Draw& draw) {
    const Shape shape = draw.shape(0, 3);
    const Tensor labels = draw.truths(shape).to(DType::f32) * 2 - 1;
    const double margin = draw.number(0, 2) + 0.25 / 64;
    const Inputs in = {draw.numbers(shape), labels};
    const Array x(in[0]), sign(labels);
    expect_array(hinge_embedding_loss(in[0], labels, {margin, Reduction::none}),
                 tabulate(shape, [&](const Index& at) {
                   return sign.at(at) > 0 ? x.at(at) : std::max(0.0, margin - x.at(at));
                 }));
    expect_loss(draw, in, [&](const Inputs& in, Reduction r) {
      return hinge_embedding_loss(in[0], in[1], {margin, r});
    });
  });
  for_random_cases("soft_margin_loss", [](Draw& draw) {
    const Shape shape = draw.shape(0, 3);
    const Tensor labels = draw.truths(shape).to(DType::f32) * 2 - 1;
    const Inputs in = {draw.numbers(shape, DType::f64, -9, 9), labels};
    const Array x(in[0]), sign(labels);
    expect_array(soft_margin_loss(in[0], labels, {Reduction::none}),
                 tabulate(shape, [&](const Index& at) {
                   return std::log1p(std::exp(-sign.at(at) * x.at(at)));
                 }));
    expect_loss(draw, in,
                [](const Inputs& in, Reduction r) { return soft_margin_loss(in[0], in[1], {r}); });
  });
}

}  // namespace
}  // namespace adret
