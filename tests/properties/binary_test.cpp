// Functions of two and three operands, element by element, with broadcasting.
#include <adret/autograd/ops/activation.h>
#include <adret/autograd/ops/arithmetic.h>
#include <adret/autograd/ops/elementary.h>
#include <adret/autograd/ops/index.h>
#include <adret/autograd/ops/logic.h>
#include <adret/autograd/ops/shape.h>

#include <algorithm>
#include <cmath>

#include "tests/support/random_case.h"

namespace adret {
namespace {

using namespace test;

// Two shapes and the one that both broadcast to.
struct Shapes {
  Shape a, b, all;
  Shapes(Draw& draw, int most_rank = 4) {
    const Shape full = draw.shape(0, most_rank);
    a = draw.stretched_to(full);
    b = draw.stretched_to(full);
    all = Shape();
    for (int d = 0; d < std::max(a.rank(), b.rank()); ++d) {
      const int64_t of_a = d < a.rank() ? a[a.rank() - 1 - d] : 1;
      const int64_t of_b = d < b.rank() ? b[b.rank() - 1 - d] : 1;
      all = all.inserted(0, of_a == 1 ? of_b : of_a);
    }
  }
};

template <class F>
Array combined(const Shapes& shapes, const Array& a, const Array& b, F f) {
  return tabulate(shapes.all, [&](const Index& at) { return double(f(a.at(at), b.at(at))); });
}

using OfTwo = Tensor (*)(const Tensor&, const Tensor&);

double remainder_of(double a, double b) { return a - b * std::floor(a / b); }

// A function, its formula, and between which numbers to try both operands.
struct Binary {
  const char* name;
  OfTwo call;
  double (*formula)(double, double);
  double low = -2, high = 2;
};

const Binary arithmetic[] = {
    {"add", add, [](double a, double b) { return a + b; }},
    {"subtract", subtract, [](double a, double b) { return a - b; }},
    {"multiply", multiply, [](double a, double b) { return a * b; }},
    {"divide", divide, [](double a, double b) { return a / b; }, 0.5, 3},
    {"pow", pow, [](double a, double b) { return std::pow(a, b); }, 0.5, 3},
    {"atan2", atan2, [](double a, double b) { return std::atan2(a, b); }, 0.25, 3},
    {"hypot", hypot, [](double a, double b) { return std::hypot(a, b); }, 0.25, 3},
};

TEST(BinaryProperties, FollowTheFormulaWithBroadcasting) {
  for (const Binary& test : arithmetic) {
    for_random_cases(test.name, [&](Draw& draw) {
      const Shapes shapes(draw);
      const Tensor a = draw.numbers(shapes.a, DType::f64, test.low, test.high),
                   b = draw.numbers(shapes.b, DType::f64, test.low, test.high);
      const DType dtype = draw.wide();
      expect_array(test.call(a.to(dtype), b.to(dtype)), combined(shapes, a, b, test.formula));
      expect_slope([&](const Inputs& in) { return test.call(in[0], in[1]); }, {a, b}, draw);
    });
  }
}

// Operands of which no two are equal, so that the gradient belongs to one of them.
TEST(BinaryProperties, ExtremesOfTwo) {
  const Binary extremes[] = {
      {"maximum", maximum, [](double a, double b) { return std::max(a, b); }},
      {"minimum", minimum, [](double a, double b) { return std::min(a, b); }},
  };
  for (const Binary& test : extremes) {
    for_random_cases(test.name, [&](Draw& draw) {
      const Shapes shapes(draw);
      const Tensor a = draw.numbers(shapes.a), b = draw.numbers(shapes.b) + 0.25 / 64;
      const DType dtype = draw.wide();
      expect_array(test.call(a.to(dtype), b.to(dtype)), combined(shapes, a, b, test.formula));
      expect_slope([&](const Inputs& in) { return test.call(in[0], in[1]); }, {a, b}, draw);
    });
  }
}

// Multiples of 1/64 of which b divides no a, so that no quotient is at its step.
TEST(BinaryProperties, RestsOfADivision) {
  const Binary rests[] = {
      {"fmod", fmod, [](double a, double b) { return std::fmod(a, b); }},
      {"remainder", remainder, remainder_of},
  };
  for (const Binary& test : rests) {
    for_random_cases(test.name, [&](Draw& draw) {
      const Shapes shapes(draw);
      const double sign = draw.chance() ? 1 : -1;
      const Tensor a = draw.numbers(shapes.a, DType::f64, -9, 9),
                   b = draw.integers(shapes.b, 1, 5).to(DType::f64) * sign;
      const DType dtype = draw.wide();
      expect_array(test.call(a.to(dtype), b.to(dtype)), combined(shapes, a, b, test.formula));
      expect_slope([&](const Inputs& in) { return test.call(in[0], in[1]); }, {a, b}, draw);
      const DType whole = draw.chance() ? DType::i32 : DType::i64;
      const Tensor c = draw.integers(shapes.a, -20, 20, whole),
                   d = draw.integers(shapes.b, -4, 4, whole);
      expect_array(test.call(c, d), combined(shapes, c, d, [&](double a, double b) {
                     return b == 0 ? 0 : test.formula(a, b);
                   }));
    });
  }
}

TEST(BinaryProperties, ComparisonsOfEqualDtypes) {
  const Binary comparisons[] = {
      {"equal", equal, [](double a, double b) { return double(a == b); }},
      {"not_equal", not_equal, [](double a, double b) { return double(a != b); }},
      {"less", less, [](double a, double b) { return double(a < b); }},
      {"less_equal", less_equal, [](double a, double b) { return double(a <= b); }},
      {"greater", greater, [](double a, double b) { return double(a > b); }},
      {"greater_equal", greater_equal, [](double a, double b) { return double(a >= b); }},
  };
  for (const Binary& test : comparisons) {
    for_random_cases(test.name, [&](Draw& draw) {
      const Shapes shapes(draw);
      const Tensor a = draw.anything(shapes.a), b = draw.anything(shapes.b).to(a.dtype());
      const Tensor y = test.call(a, b);
      EXPECT_EQ(y.dtype(), DType::boolean);
      expect_array(y, combined(shapes, a, b, test.formula));
    });
  }
}

TEST(BinaryProperties, LogicOfAnyTwoDtypes) {
  const Binary logic[] = {
      {"logical_and", logical_and, [](double a, double b) { return double(a != 0 && b != 0); }},
      {"logical_or", logical_or, [](double a, double b) { return double(a != 0 || b != 0); }},
      {"logical_xor", logical_xor, [](double a, double b) { return double((a != 0) != (b != 0)); }},
  };
  for (const Binary& test : logic) {
    for_random_cases(test.name, [&](Draw& draw) {
      const Shapes shapes(draw);
      const Tensor a = draw.anything(shapes.a), b = draw.anything(shapes.b);
      const Tensor y = test.call(a, b);
      EXPECT_EQ(y.dtype(), DType::boolean);
      expect_array(y, combined(shapes, a, b, test.formula));
    });
  }
}

// -- three operands -----------------------------------------------------------

// The shape of all three is that of the first, to which the others stretch.
struct Three {
  Shape all, b, c;
  explicit Three(Draw& draw)
      : all(draw.shape(0, 4)), b(draw.stretched_to(all)), c(draw.stretched_to(all)) {}
};

TEST(TernaryProperties, WhereChooses) {
  for_random_cases("where", [](Draw& draw) {
    const Three shapes(draw);
    const Tensor condition = draw.truths(shapes.all), a = draw.anything(shapes.b),
                 b = draw.anything(shapes.c).to(a.dtype());
    const Array chooses(condition), first(a), second(b);
    const auto choose = [&](const Array& a, const Array& b) {
      return tabulate(shapes.all,
                      [&](const Index& at) { return chooses.at(at) ? a.at(at) : b.at(at); });
    };
    expect_array(where(condition, a, b), choose(first, second));
    expect_array(where(condition, a, 1), choose(first, Array(Shape(), 1)));
    expect_array(where(condition, 1, b), choose(Array(Shape(), 1), second));
    expect_slope([](const Inputs& in) { return where(in[0], in[1], in[2]); },
                 {condition, draw.numbers(shapes.b), draw.numbers(shapes.c)}, draw);
  });
}

TEST(TernaryProperties, MaskedFill) {
  for_random_cases("masked_fill", [](Draw& draw) {
    const Three shapes(draw);
    const Tensor x = draw.anything(shapes.all), mask = draw.truths(shapes.b);
    const Array in(x), masks(mask);
    expect_array(masked_fill(x, mask, 1), tabulate(shapes.all, [&](const Index& at) {
                   return masks.at(at) ? 1 : in.at(at);
                 }));
    expect_slope([](const Inputs& in) { return masked_fill(in[0], in[1], -7); },
                 {draw.numbers(shapes.all), mask}, draw);
  });
}

TEST(TernaryProperties, LerpIsOnTheLineBetween) {
  for_random_cases("lerp", [](Draw& draw) {
    const Three shapes(draw);
    const Tensor a = draw.numbers(shapes.all), b = draw.numbers(shapes.b),
                 weight = draw.numbers(shapes.c);
    const Array from(a), to(b), share(weight);
    const double constant = draw.number(-1, 2);
    expect_array(lerp(a, b, weight), tabulate(shapes.all, [&](const Index& at) {
                   return from.at(at) * (1 - share.at(at)) + to.at(at) * share.at(at);
                 }));
    expect_array(lerp(a, b, constant), tabulate(shapes.all, [&](const Index& at) {
                   return from.at(at) * (1 - constant) + to.at(at) * constant;
                 }));
    expect_slope([](const Inputs& in) { return lerp(in[0], in[1], in[2]); }, {a, b, weight}, draw);
  });
}

// -- channels -----------------------------------------------------------------

TEST(ActivationProperties, PreluHasASlopeForEachChannel) {
  for_random_cases("prelu", [](Draw& draw) {
    const Shape shape = draw.shape(1, 4);
    const Tensor x = draw.numbers(shape), weight = draw.numbers({draw.chance() ? 1 : shape[-1]});
    const Array in(x), slopes(weight);
    expect_array(prelu(x, weight), tabulate(shape, [&](const Index& at) {
                   return in.at(at) > 0 ? in.at(at) : in.at(at) * slopes.at(at);
                 }));
    expect_slope([](const Inputs& in) { return prelu(in[0], in[1]); }, {x, weight}, draw);
  });
}

TEST(ActivationProperties, GluOfTwoHalves) {
  for_random_cases("glu", [](Draw& draw) {
    const Shape half = draw.shape(1, 4);
    const int dim = draw.dim(half), along = dim < 0 ? dim + half.rank() : dim;
    const int64_t size = half[along];
    const Tensor x = draw.numbers(half.with(along, 2 * size));
    const Array in(x);
    expect_array(glu(x, dim), tabulate(half, [&](const Index& at) {
                   const double gate = in.at(with(at, along, at[size_t(along)] + size));
                   return in.at(at) / (1 + std::exp(-gate));
                 }));
    expect_slope([&](const Inputs& in) { return glu(in[0], dim); }, {x}, draw);
  });
}

}  // namespace
}  // namespace adret
