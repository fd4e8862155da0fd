// Sums of products by name beyond PyTorch's values: random equations, copies that are spared,
// errors.
#include <adret/autograd/ops/arithmetic.h>
#include <adret/autograd/ops/einsum.h>
#include <adret/core/error.h>
#include <fmt/core.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <random>

#include "tests/support/expect_error.h"
#include "tests/support/gradients.h"

namespace adret {
namespace {

using namespace test;
using Inputs = std::vector<Tensor>;

// -- random equations ----------------------------------------------------------------------------

struct Problem {
  std::vector<std::string> names;
  std::string result;
  std::map<char, int64_t> sizes;

  Shape shape(const std::string& some) const {
    Shape shape;
    for (const char name : some) shape = shape.inserted(shape.rank(), sizes.at(name));
    return shape;
  }
  std::string equation() const { return fmt::format("{}->{}", fmt::join(names, ","), result); }
};

Problem random_problem(uint32_t seed) {
  std::mt19937 random(seed);
  Problem p;
  const std::string letters = "abcXy";
  for (const char name : letters) p.sizes[name] = int64_t(random() % 4) + (random() % 20 ? 1 : 0);
  std::string all;
  const int operands = int(random() % 3) + 1;
  for (int i = 0; i < operands; ++i) {
    std::string shuffled = letters;
    std::ranges::shuffle(shuffled, random);
    p.names.push_back(shuffled.substr(0, random() % 4));
    for (const char name : p.names.back()) {
      if (all.find(name) == std::string::npos) all += name;
    }
  }
  std::ranges::shuffle(all, random);
  p.result = all.substr(0, random() % (all.size() + 1));
  return p;
}

// The sum over all values of all letters.
std::vector<double> by_loops(const Problem& p, const std::vector<Tensor>& operands) {
  std::vector<std::vector<double>> values;
  for (const Tensor& operand : operands) values.push_back(operand.to_vector<double>());
  std::vector<double> result(size_t(p.shape(p.result).numel()), 0.0);
  std::map<char, int64_t> at;
  std::string letters;
  int64_t total = 1;
  for (const auto& [name, size] : p.sizes) {
    const bool used = std::ranges::any_of(p.names, [&, n = name](const std::string& some) {
      return some.find(n) != std::string::npos;
    });
    if (!used) continue;
    letters += name;
    total *= size;
  }
  const auto place = [&](const std::string& some) {
    int64_t index = 0;
    for (const char name : some) index = index * p.sizes.at(name) + at[name];
    return size_t(index);
  };
  for (int64_t i = 0; i < total; ++i) {
    int64_t rest = i;
    for (const char name : letters) {
      at[name] = rest % p.sizes.at(name);
      rest /= p.sizes.at(name);
    }
    double product = 1;
    for (size_t k = 0; k < operands.size(); ++k) product *= values[k][place(p.names[k])];
    result[place(p.result)] += product;
  }
  return result;
}

TEST(Einsum, DoesAsLoopsOverAllLetters) {
  for (uint32_t seed = 0; seed < 300; ++seed) {
    const Problem p = random_problem(seed);
    SCOPED_TRACE(fmt::format("seed {}: {}", seed, p.equation()));
    std::vector<Tensor> operands;
    for (size_t i = 0; i < p.names.size(); ++i) {
      operands.push_back(sequence(p.shape(p.names[i]), int(7 * i)));
    }
    expect_values(einsum(p.equation(), operands), p.shape(p.result), by_loops(p, operands));
    if (testing::Test::HasFailure()) return;
  }
}

// -- errors --------------------------------------------------------------------------------------

TEST(Einsum, RefusesEquationsThatMeanNothing) {
  const Tensor x = Tensor::zeros({2, 3});
  expect_error<ShapeError>([&] { return einsum("ij,jk->ik", {x}); },
                           "[einsum] \"ij,jk->ik\": names 2 operands, got 1");
  expect_error<ShapeError>([&] { return einsum("ijk->i", {x}); },
                           "[einsum] \"ijk->i\": operand 0 is (2, 3), \"ijk\" names 3 dimensions");
  expect_error<ShapeError>(
      [&] {
        return einsum("ij,jk->ik", {x, x});
      },
      "[einsum] \"ij,jk->ik\": j is 3 in operand 0 (2, 3) and 2 in operand 1 (2, 3)");
  expect_error<ShapeError>([&] { return einsum("ii->i", {x}); },
                           "[einsum] \"ii->i\": i comes twice in ii, diagonals are not supported");
  expect_error<ShapeError>([&] { return einsum("ij->ik", {x}); },
                           "[einsum] \"ij->ik\": no operand has the result's k");
  expect_error<ShapeError>([&] { return einsum("ij->ii", {x}); }, "i comes twice in ii");
  expect_error<ShapeError>([&] { return einsum("...j->j", {x}); },
                           "[einsum] \"...j->j\": \"...\" is not supported");
  expect_error<ShapeError>([&] { return einsum("i1->i", {x}); },
                           "[einsum] \"i1->i\": '1' is no letter");
  expect_error<ShapeError>([&] { return einsum("i->j->k", {x}); }, "'-' is no letter");
  expect_error<ShapeError>([] { return einsum("", {}); }, "names 1 operands, got 0");
  expect_error<ShapeError>(
      [&] {
        return einsum("ij,ij->", {x, x.to(DType::f64)});
      },
      "[einsum] the first operand (2, 3) is f32, another (2, 3) is f64");
  expect_error<ShapeError>([&] { return einsum("ij->", {x.to(DType::i32)}); },
                           "[einsum] an operand (2, 3) is i32, wanted a floating dtype");
}

}  // namespace
}  // namespace adret
