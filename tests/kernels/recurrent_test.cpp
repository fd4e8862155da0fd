// Recurrent layers in every dtype against the CPU's kernels in f64, which the tests of the
// functions hold to loops and differences.
#include <adret/core/kernels/kernel.h>
#include <adret/core/tensor.h>
#include <fmt/core.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <optional>
#include <string>
#include <vector>

#include "tests/support/close.h"
#include "tests/support/guarded.h"
#include "tests/support/mirror.h"

namespace adret {
namespace {

using namespace test;
using Values = std::vector<double>;
using kernels::RecurrentCell;

constexpr RecurrentCell cells[] = {RecurrentCell::tanh, RecurrentCell::relu, RecurrentCell::lstm,
                                   RecurrentCell::gru};

struct Case {
  int64_t samples, steps, hidden;
  RecurrentCell cell = RecurrentCell::lstm;
  bool reverse = false, state = true, bias = true;
  std::vector<int64_t> lengths = {};  // none: all steps

  kernels::RecurrentParams params() const { return {cell, reverse}; }
  int64_t gates() const { return params().gates(); }
  std::string name(DType dtype) const {
    return fmt::format("{} N {} T {} H {} {}{}{}{}", to_string(params()), samples, steps, hidden,
                       adret::name(dtype), state ? " state" : "", bias ? " bias" : "",
                       lengths.empty() ? "" : " lengths");
  }
};

// Operands as T holds them; those that a case leaves out are undefined.
template <class T>
struct Call {
  const Case& of;
  Shape state{of.samples, of.hidden}, steps{of.samples, of.steps, of.hidden},
      gates{of.samples, of.steps, of.gates() * of.hidden},
      kept{of.samples, of.steps, of.params().saved() * of.hidden};
  Guarded<T> x{gates, some(gates, 1)}, weight{{of.gates() * of.hidden, of.hidden}, weights()},
      bias{{of.gates() * of.hidden}, some({of.gates() * of.hidden}, 3)}, h0{state, some(state, 4)},
      c0{state, some(state, 5)}, dy{steps, some(steps, 6)}, dh{state, some(state, 7)},
      dc{state, some(state, 8)};
  Guarded<T> y{steps}, h{state}, c{state}, saved{kept}, cell{steps}, dx{gates}, dhidden{gates},
      dh0{state}, dc0{state};
  Tensor lengths = of.lengths.empty() ? Tensor() : Tensor::from(of.lengths, {of.samples});

  bool is_lstm() const { return of.cell == RecurrentCell::lstm; }
  static TensorView only(bool wanted, const Guarded<T>& operand) {
    return wanted ? TensorView(operand) : TensorView();
  }
  static Values some(const Shape& shape, uint32_t seed) {
    Values values = random_values(shape.numel(), seed);
    for (double& v : values) v = double(float(T(float(v))));
    return values;
  }
  Values weights() const {
    Values values = random_values(of.gates() * of.hidden * of.hidden, 2);
    for (double& v : values) v = double(float(T(float(v / std::sqrt(double(of.hidden))))));
    return values;
  }
  void run() {
    adret::run(kernels::RecurrentForward{.x = x,
                                         .weight = weight,
                                         .bias = only(of.bias, bias),
                                         .h0 = only(of.state, h0),
                                         .c0 = only(of.state && is_lstm(), c0),
                                         .lengths = lengths,
                                         .y = y,
                                         .h = h,
                                         .c = only(is_lstm(), c),
                                         .saved = only(of.params().saved() > 0, saved),
                                         .cells = only(is_lstm(), cell),
                                         .recurrent = of.params()});
    adret::run(kernels::RecurrentBackward{.weight = weight,
                                          .h0 = only(of.state, h0),
                                          .c0 = only(of.state && is_lstm(), c0),
                                          .lengths = lengths,
                                          .y = y,
                                          .saved = only(of.params().saved() > 0, saved),
                                          .cells = only(is_lstm(), cell),
                                          .dy = dy,
                                          .dh = only(of.state, dh),
                                          .dc = only(of.state && is_lstm(), dc),
                                          .dx = dx,
                                          .dhidden = only(of.cell == RecurrentCell::gru, dhidden),
                                          .dh0 = only(of.state, dh0),
                                          .dc0 = only(of.state && is_lstm(), dc0),
                                          .recurrent = of.params()});
  }
};

// T's own operands in f64.
template <class T>
void take_operands(Call<double>& to, const Call<T>& from) {
  const auto take = [](Guarded<double>& a, const Guarded<T>& b) {
    const Values values = b.values();
    std::ranges::copy(values, TensorView(a).as<double>());
  };
  take(to.x, from.x);
  take(to.weight, from.weight);
  take(to.bias, from.bias);
  take(to.h0, from.h0);
  take(to.c0, from.c0);
  take(to.dy, from.dy);
  take(to.dh, from.dh);
  take(to.dc, from.dc);
}

// A step rounds h, and in 16 bits products and gates; the states carry that on.
template <class T>
constexpr Tolerance tolerance = std::is_same_v<T, double>    ? Tolerance{1e-10, 1e-10}
                                : std::is_same_v<T, float>   ? Tolerance{2e-4, 2e-5}
                                : std::is_same_v<T, float16> ? Tolerance{0.02, 0.01}
                                                             : Tolerance{0.1, 0.08};

template <class T>
void expect_as_defined(const Case& of) {
  Call<T> call(of);
  Call<double> expected(of);
  take_operands(expected, call);
  call.run();
  {
    const MirrorPause on_the_cpu;
    expected.run();
  }
  const std::string what = of.name(dtype_of<T>);
  const auto close = [&](const char* name, const Guarded<T>& a, const Guarded<double>& e) {
    expect_close(a.values(), e.values(), tolerance<T>, what + " " + name);
    EXPECT_TRUE(a.guards_intact()) << what << " " << name;
  };
  close("y", call.y, expected.y);
  close("h", call.h, expected.h);
  close("dx", call.dx, expected.dx);
  if (of.state) close("dh0", call.dh0, expected.dh0);
  if (of.cell == RecurrentCell::gru) close("dhidden", call.dhidden, expected.dhidden);
  if (!call.is_lstm()) return;
  close("c", call.c, expected.c);
  close("cells", call.cell, expected.cell);
  if (of.state) close("dc0", call.dc0, expected.dc0);
}

void check(const Case& of) {
  expect_as_defined<double>(of);
  expect_as_defined<float>(of);
  expect_as_defined<bfloat16>(of);
  expect_as_defined<float16>(of);
}

TEST(Recurrent, EveryCellAtTheEdgesOfTiles) {
  const int64_t sizes[][3] = {{1, 1, 1},   {2, 3, 7},    {3, 5, 8},   {16, 2, 33},
                              {17, 3, 64}, {33, 2, 100}, {5, 4, 129}, {70, 3, 24}};
  for (const RecurrentCell cell : cells) {
    for (const auto& [samples, steps, hidden] : sizes) {
      check({.samples = samples, .steps = steps, .hidden = hidden, .cell = cell});
    }
  }
}

TEST(Recurrent, OfTheSizesOfModels) {
  for (const RecurrentCell cell : {RecurrentCell::lstm, RecurrentCell::gru}) {
    check({.samples = 40, .steps = 3, .hidden = 256, .cell = cell});
    check({.samples = 3, .steps = 2, .hidden = 640, .cell = cell});
  }
}

TEST(Recurrent, WithAndWithoutOperands) {
  for (const RecurrentCell cell : cells) {
    for (const bool reverse : {false, true}) {
      for (const bool state : {false, true}) {
        for (const bool bias : {false, true}) {
          check({.samples = 5,
                 .steps = 4,
                 .hidden = 12,
                 .cell = cell,
                 .reverse = reverse,
                 .state = state,
                 .bias = bias,
                 .lengths = {4, 0, 2, 9, -1}});
        }
      }
    }
  }
}

TEST(Recurrent, OfNoSamples) {
  for (const RecurrentCell cell : cells) {
    check({.samples = 0, .steps = 2, .hidden = 4, .cell = cell});
  }
}

}  // namespace
}  // namespace adret
