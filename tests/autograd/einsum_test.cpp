// Sums of products by name beyond PyTorch's values: random equations, copies that are spared,
// errors.
#include <adret/autograd/ops/arithmetic.h>
#include <adret/autograd/ops/einsum.h>
#include <adret/autograd/ops/shape.h>
#include <adret/core/error.h>
#include <fmt/core.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <random>

#include "tests/support/expect_error.h"
#include "tests/support/gradients.h"
#include "tests/support/random_case.h"

namespace adret {
namespace {

using namespace test;

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

// Letters of one operand may come twice.
Problem random_problem(uint32_t seed, bool repeats) {
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
    if (repeats && !p.names.back().empty()) {
      std::string& names = p.names.back();
      names.insert(names.begin() + int64_t(random() % (names.size() + 1)), names[0]);
    }
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
  for (uint32_t seed = 0; seed < 600; ++seed) {
    const Problem p = random_problem(seed, seed % 2);
    SCOPED_TRACE(fmt::format("seed {}: {}", seed, p.equation()));
    std::vector<Tensor> operands;
    for (size_t i = 0; i < p.names.size(); ++i) {
      operands.push_back(sequence(p.shape(p.names[i]), int(7 * i)));
    }
    expect_values(einsum(p.equation(), operands), p.shape(p.result), by_loops(p, operands));
    if (testing::Test::HasFailure()) return;
  }
}

// The same with letters for the dimensions of "...", which are stretched before.
TEST(Einsum, DoesWithDotsAsWithLetters) {
  for (uint32_t seed = 0; seed < 300; ++seed) {
    std::mt19937 random(seed);
    const std::string dots = "pqr";  // what "..." stands for, aligned at r
    std::map<char, int64_t> sizes{{'a', 2}, {'b', 3}, {'c', 1}};
    for (const char name : dots) sizes[name] = int64_t(random() % 4);
    const size_t all = random() % 4;
    std::string written, spelled;
    std::vector<Tensor> operands, stretched;
    const size_t count = random() % 3 + 1;
    for (size_t i = 0; i < count; ++i) {
      const bool has_dots = i == 0 || random() % 4;
      const size_t own = !has_dots ? 0 : i == 0 ? all : random() % (all + 1);
      const std::string batch = dots.substr(dots.size() - own);
      std::string letters = "abc";
      std::ranges::shuffle(letters, random);
      letters.resize(random() % 3);
      const size_t at = random() % (letters.size() + 1);
      std::string names = letters;
      names.insert(at, batch);
      Shape shape, full;
      for (const char name : names) {
        const bool is_one = i > 0 && batch.find(name) != std::string::npos && random() % 3 == 0;
        full = full.inserted(full.rank(), sizes.at(name));
        shape = shape.inserted(shape.rank(), is_one ? 1 : sizes.at(name));
      }
      operands.push_back(sequence(shape, int(7 * i)));
      stretched.push_back(broadcast_to(operands.back(), full));
      if (i > 0) {
        written += ", ";
        spelled += ",";
      }
      spelled += names;
      written += letters.substr(0, at) + (has_dots ? "..." : "") + letters.substr(at);
    }
    const std::string letter = spelled.find('a') != std::string::npos ? "a" : "";
    const std::string batch = random() % 4 ? dots.substr(dots.size() - all) : "";
    written += " -> " + letter + (batch.empty() ? "" : "...");
    spelled += "->" + letter + batch;
    SCOPED_TRACE(fmt::format("seed {}: {} as {}", seed, written, spelled));
    const Tensor expected = einsum(spelled, stretched);
    expect_values(einsum(written, operands), expected.shape(), expected.to_vector<double>());
    if (testing::Test::HasFailure()) return;
  }
}

TEST(Einsum, ImpliesDotsAndLettersInTheirOrder) {
  const Tensor x = sequence({2, 3, 3, 4}), y = sequence({3, 4, 2}, 5);
  expect_same(einsum("...zB", {x}), einsum("pqzB->pqBz", {x}));
  expect_same(einsum(" ... i i j ", {permute(x, {0, 1, 2, 3})}), einsum("piij->pj", {x}));
  expect_same(einsum("...bc,...cd", {x, y.reshape({1, 4, 6})}),
              einsum("pqbc,cd->pqbd", {x, y.reshape({4, 6})}));
  expect_same(einsum("bc->...bc", {y.reshape({4, 6})}), y.reshape({4, 6}));
}

TEST(Einsum, HasGradientsOfDiagonalsAndStretchedDots) {
  expect_gradients([](const Inputs& in) { return einsum("...ii,...i->...", in); },
                   {variable({2, 1, 3, 3}), variable({4, 3}, 5)});
  expect_gradients([](const Inputs& in) { return einsum("iij->j", in) * 1; },
                   {variable({3, 3, 2})});
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
  expect_error<ShapeError>(
      [&] { return einsum("ii->i", {x}); },
      "[einsum] \"ii->i\": i is 2 in operand 0 (2, 3) and 3 in operand 0 (2, 3)");
  expect_error<ShapeError>(
      [&] { return einsum("...ijk->i", {x}); },
      "[einsum] \"...ijk->i\": operand 0 is (2, 3), \"...ijk\" names at least 3 dimensions");
  expect_error<ShapeError>(
      [&] {
        return einsum("...i,...i->...", {x, Tensor::zeros({4, 3})});
      },
      "a size of \"...\" is 2 in operand 0 (2, 3) and 4 in operand 1 (4, 3)");
  for (const char* term : {"..i", "...i...", "i.", ".. .."}) {
    expect_error<ShapeError>([&] { return einsum(term, {x}); }, "has a '.' beside one \"...\"");
  }
  expect_error<ShapeError>([&] { return einsum("ij->..j", {x}); },
                           "[einsum] \"ij->..j\": the result \"..j\" has a '.' beside one \"...\"");
  expect_error<ShapeError>([&] { return einsum("ij->ik", {x}); },
                           "[einsum] \"ij->ik\": no operand has the result's k");
  expect_error<ShapeError>([&] { return einsum("ij->ii", {x}); },
                           "[einsum] \"ij->ii\": i comes twice in the result \"ii\"");
  expect_error<ShapeError>([&] { return einsum("i1->i", {x}); },
                           "[einsum] \"i1->i\": '1' in operand 0 \"i1\" is no letter");
  expect_error<ShapeError>([&] { return einsum("ij->j->k", {x}); },
                           "'-' in the result \"j->k\" is no letter");
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
