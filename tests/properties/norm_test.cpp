// Normalisations: of batches, layers, groups, instances, by root mean squares.
#include <adret/autograd/ops/arithmetic.h>
#include <adret/autograd/ops/group_norm.h>
#include <adret/autograd/ops/norm.h>

#include <algorithm>
#include <cmath>
#include <functional>

#include "tests/support/random_case.h"

namespace adret {
namespace {

using namespace test;

// -- the definition -----------------------------------------------------------

// Which elements are normalised together, and which share a parameter, by a number for each index.
struct Grouping {
  int64_t groups, parameters;
  std::function<int64_t(const Index&)> group, parameter;
};

struct Formula {
  double epsilon;
  bool centered = true;
};

// (x - mean) / sqrt(variance + epsilon) * weight + bias.
Array normalised(const Array& x, const Grouping& g, const Formula& f, const Tensor& weight,
                 const Tensor& bias) {
  std::vector<double> counts(size_t(g.groups)), means = counts, squares = counts;
  const std::vector<Index> all = indices_of(x.shape);
  for (const Index& at : all) counts[size_t(g.group(at))] += 1;
  for (const Index& at : all) {
    const auto i = size_t(g.group(at));
    if (f.centered) means[i] += x.at(at) / counts[i];
  }
  for (const Index& at : all) {
    const auto i = size_t(g.group(at));
    squares[i] += (x.at(at) - means[i]) * (x.at(at) - means[i]) / counts[i];
  }
  const auto of = [&](const Tensor& parameters, const Index& at, double otherwise) {
    return parameters.defined() ? Array(parameters).values[size_t(g.parameter(at))] : otherwise;
  };
  return tabulate(x.shape, [&](const Index& at) {
    const auto i = size_t(g.group(at));
    const double y = (x.at(at) - means[i]) / std::sqrt(squares[i] + f.epsilon);
    return y * of(weight, at, 1) + of(bias, at, 0);
  });
}

Tensor maybe(Draw& draw, const Shape& shape) {
  return draw.chance() ? draw.numbers(shape) : Tensor();
}

// The defined ones of the operands, and all of them again from those.
struct Operands {
  std::vector<bool> defined;
  Inputs inputs;

  explicit Operands(const Inputs& all) {
    for (const Tensor& tensor : all) {
      defined.push_back(tensor.defined());
      if (tensor.defined()) inputs.push_back(tensor);
    }
  }
  Inputs restored(const Inputs& some) const {
    Inputs all;
    size_t next = 0;
    for (bool is_there : defined) all.push_back(is_there ? some[next++] : Tensor());
    return all;
  }
  Inputs converted(DType dtype) const {
    Inputs some;
    for (const Tensor& input : inputs) some.push_back(input.to(dtype));
    return restored(some);
  }
};

template <class Call>
void expect_normalised(Draw& draw, const Operands& operands, const Array& y, Call call) {
  // With few values together the quotient magnifies what f32 rounds.
  const DType dtype = draw.wide();
  expect_array(call(operands.converted(dtype)), y, dtype == DType::f32 ? 1e-3 : 1e-9);
  expect_slope([&](const Inputs& in) { return call(operands.restored(in)); }, operands.inputs,
               draw);
}

// -- trailing dimensions ------------------------------------------------------

struct Trailing {
  Shape x, parameters;
  LayerNormOptions options;
  Grouping grouping;

  explicit Trailing(Draw& draw) {
    x = draw.shape(1, 4);
    const int dims = int(draw.integer(1, x.rank()));
    options = {.dims = dims, .epsilon = draw.one_of<double>({1e-5, 1e-2})};
    int64_t samples = 1;
    for (int d = 0; d < x.rank(); ++d) {
      if (d < x.rank() - dims) {
        samples *= x[d];
      } else {
        x = x.with(d, std::max<int64_t>(1, x[d]));  // a sample without values is refused
        parameters = parameters.inserted(parameters.rank(), x[d]);
      }
    }
    const int64_t together = parameters.numel();
    const auto number = [shape = x](const Index& at) {
      int64_t number = 0;
      for (int d = 0; d < shape.rank(); ++d) number = number * shape[d] + at[size_t(d)];
      return number;
    };
    grouping = {samples, together, [=](const Index& at) { return number(at) / together; },
                [=](const Index& at) { return number(at) % together; }};
  }
};

TEST(NormProperties, OfTrailingDimensions) {
  for_random_cases("layer_norm", [](Draw& draw) {
    const Trailing t(draw);
    const Operands operands(
        {draw.numbers(t.x), maybe(draw, t.parameters), maybe(draw, t.parameters)});
    const Inputs in = operands.restored(operands.inputs);
    expect_normalised(draw, operands,
                      normalised(in[0], t.grouping, {t.options.epsilon}, in[1], in[2]),
                      [&](const Inputs& in) { return layer_norm(in[0], in[1], in[2], t.options); });
  });
  for_random_cases("rms_norm", [](Draw& draw) {
    const Trailing t(draw);
    const Operands operands({draw.numbers(t.x), maybe(draw, t.parameters)});
    const Inputs in = operands.restored(operands.inputs);
    expect_normalised(draw, operands,
                      normalised(in[0], t.grouping, {t.options.epsilon, false}, in[1], {}),
                      [&](const Inputs& in) { return rms_norm(in[0], in[1], t.options); });
  });
}

TEST(NormProperties, OfSums) {
  for_random_cases("layer_norm_of_sum", [](Draw& draw) {
    const Trailing t(draw);
    const Operands operands({draw.numbers(t.x), draw.numbers(t.x), maybe(draw, t.parameters),
                             maybe(draw, t.parameters)});
    const Inputs in = operands.restored(operands.inputs);
    const Tensor sum = in[0] + in[1];
    expect_same(layer_norm_of_sum(in[0], in[1], in[2], in[3], t.options).sum, sum);
    expect_normalised(draw, operands,
                      normalised(sum, t.grouping, {t.options.epsilon}, in[2], in[3]),
                      [&](const Inputs& in) {
                        return layer_norm_of_sum(in[0], in[1], in[2], in[3], t.options).y;
                      });
  });
  for_random_cases("rms_norm_of_sum", [](Draw& draw) {
    const Trailing t(draw);
    const Operands operands({draw.numbers(t.x), draw.numbers(t.x), maybe(draw, t.parameters)});
    const Inputs in = operands.restored(operands.inputs);
    const Tensor sum = in[0] + in[1];
    expect_same(rms_norm_of_sum(in[0], in[1], in[2], t.options).sum, sum);
    expect_normalised(
        draw, operands, normalised(sum, t.grouping, {t.options.epsilon, false}, in[2], {}),
        [&](const Inputs& in) { return rms_norm_of_sum(in[0], in[1], in[2], t.options).y; });
  });
}

// -- channels -----------------------------------------------------------------

// Groups of neighbouring channels of a sample.
Grouping of_channels(const Shape& x, int64_t groups) {
  const int64_t channels = x[-1], each = std::max<int64_t>(1, channels / groups);
  return {x[0] * groups, channels,
          [=](const Index& at) { return at.front() * groups + at.back() / each; },
          [](const Index& at) { return at.back(); }};
}

TEST(NormProperties, OfGroupsAndInstances) {
  for_random_cases("group_norm", [](Draw& draw) {
    const int64_t groups = draw.integer(1, 3);
    Shape x{draw.integer(0, 3)};
    for (int64_t places = draw.integer(0, 2); places > 0; --places) {
      x = x.inserted(1, draw.integer(1, 4));
    }
    x = x.inserted(x.rank(), groups * draw.integer(1, 3));
    const GroupNormOptions options{.epsilon = draw.one_of<double>({1e-5, 1e-2})};
    const Operands operands({draw.numbers(x), maybe(draw, {x[-1]}), maybe(draw, {x[-1]})});
    const Inputs in = operands.restored(operands.inputs);
    expect_normalised(
        draw, operands, normalised(in[0], of_channels(x, groups), {options.epsilon}, in[1], in[2]),
        [&](const Inputs& in) { return group_norm(in[0], groups, in[1], in[2], options); });
  });
  for_random_cases("instance_norm", [](Draw& draw) {
    const Shape x{draw.integer(0, 3), draw.integer(2, 4), draw.integer(1, 4), draw.integer(1, 4)};
    const GroupNormOptions options{.epsilon = draw.one_of<double>({1e-5, 1e-2})};
    const Operands operands({draw.numbers(x), maybe(draw, {x[-1]}), maybe(draw, {x[-1]})});
    const Inputs in = operands.restored(operands.inputs);
    expect_normalised(
        draw, operands, normalised(in[0], of_channels(x, x[-1]), {options.epsilon}, in[1], in[2]),
        [&](const Inputs& in) { return instance_norm(in[0], in[1], in[2], options); });
  });
}

// -- batches ------------------------------------------------------------------

// x (..., C) with two values for each channel at least.
Shape batch(Draw& draw) {
  Shape x{draw.integer(2, 4)};
  for (int64_t places = draw.integer(0, 2); places > 0; --places) {
    x = x.inserted(0, draw.integer(1, 3));
  }
  return x.inserted(x.rank(), draw.integer(1, 4));
}

Tensor positive(Draw& draw, const Shape& shape) { return draw.numbers(shape, DType::f64, 0.5, 2); }

TEST(NormProperties, OfBatchesInTraining) {
  for_random_cases("batch_norm", [](Draw& draw) {
    const Shape x = batch(draw), channels{x[-1]};
    const Operands operands({draw.numbers(x), maybe(draw, channels), maybe(draw, channels)});
    const Inputs in = operands.restored(operands.inputs);
    const Grouping by_channel{x[-1], x[-1], [](const Index& at) { return at.back(); },
                              [](const Index& at) { return at.back(); }};
    const double epsilon = draw.one_of<double>({1e-5, 1e-2});
    expect_normalised(draw, operands, normalised(in[0], by_channel, {epsilon}, in[1], in[2]),
                      [&](const Inputs& in) {
                        return batch_norm(in[0], in[1], in[2], {}, {}, {.epsilon = epsilon});
                      });
  });
}

TEST(NormProperties, OfBatchesWithRunningStatistics) {
  for_random_cases("batch_norm", [](Draw& draw) {
    const Shape x = batch(draw), channels{x[-1]};
    const double momentum = draw.number(0, 1), count = double(x.without(x.rank() - 1).numel());
    const Tensor in = draw.numbers(x), mean = draw.numbers(channels),
                 var = positive(draw, channels);
    const Array of(in);
    Array new_mean(mean), new_var(var), means(channels), squares(channels);
    for (const Index& at : indices_of(x)) means.at({at.back()}) += of.at(at) / count;
    for (const Index& at : indices_of(x)) {
      const double d = of.at(at) - means.at({at.back()});
      squares.at({at.back()}) += d * d / (count - 1);
    }
    for (size_t c = 0; c < means.values.size(); ++c) {
      new_mean.values[c] += momentum * (means.values[c] - new_mean.values[c]);
      new_var.values[c] += momentum * (squares.values[c] - new_var.values[c]);
    }
    batch_norm(in, {}, {}, mean, var, {.momentum = momentum});
    expect_array(mean, new_mean);
    expect_array(var, new_var);
  });
}

TEST(NormProperties, OfBatchesInEvaluation) {
  for_random_cases("batch_norm", [](Draw& draw) {
    Shape x = batch(draw);
    x = x.with(0, draw.integer(0, 2));
    const Shape channels{x[-1]};
    const Tensor mean = draw.numbers(channels), var = positive(draw, channels);
    const Operands operands({draw.numbers(x), maybe(draw, channels), maybe(draw, channels)});
    const Inputs in = operands.restored(operands.inputs);
    const Array of(in[0]), means(mean), vars(var),
        weight(in[1].defined() ? in[1] : Tensor::ones(channels)),
        bias(in[2].defined() ? in[2] : Tensor::zeros(channels));
    const Array y = tabulate(x, [&](const Index& at) {
      const Index c = {at.back()};
      return (of.at(at) - means.at(c)) / std::sqrt(vars.at(c) + 1e-5) * weight.at(c) + bias.at(c);
    });
    expect_normalised(draw, operands, y, [&](const Inputs& in) {
      const DType dtype = in[0].dtype();
      return batch_norm(in[0], in[1], in[2], mean.to(dtype), var.to(dtype), {.training = false});
    });
  });
}

}  // namespace
}  // namespace adret
