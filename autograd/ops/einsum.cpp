// Sums of products by the names of dimensions.
#include <adret/autograd/ops/arithmetic.h>
#include <adret/autograd/ops/check.h>
#include <adret/autograd/ops/einsum.h>
#include <adret/autograd/ops/matmul.h>
#include <adret/autograd/ops/reduce.h>
#include <adret/autograd/ops/shape.h>
#include <fmt/core.h>

#include <algorithm>
#include <map>
#include <string>

namespace adret {
namespace {

// -- the equation -----------------------------------------------------------------

struct Equation {
  std::vector<std::string> operands;
  std::string result;
};

[[noreturn]] void refuse(std::string_view equation, const std::string& problem) {
  check::refuse("einsum", fmt::format("\"{}\": {}", equation, problem));
}

bool has(const std::string& names, char name) { return names.find(name) != std::string::npos; }

void check_letters(std::string_view equation, const std::string& names) {
  for (size_t i = 0; i < names.size(); ++i) {
    const char name = names[i];
    if (name == '.') refuse(equation, "\"...\" is not supported, name every dimension");
    if (!((name >= 'a' && name <= 'z') || (name >= 'A' && name <= 'Z'))) {
      refuse(equation, fmt::format("'{}' is no letter", name));
    }
    if (names.find(name, i + 1) != std::string::npos) {
      refuse(equation,
             fmt::format("{} comes twice in {}, diagonals are not supported", name, names));
    }
  }
}

// The letters that come once, in their order.
std::string letters_that_come_once(const std::vector<std::string>& operands) {
  std::map<char, int> counts;
  for (const std::string& names : operands) {
    for (const char name : names) ++counts[name];
  }
  std::string once;
  for (const auto& [name, count] : counts) {
    if (count == 1) once += name;
  }
  return once;
}

Equation parse(std::string_view text) {
  std::string plain;
  std::ranges::copy_if(text, std::back_inserter(plain), [](char c) { return c != ' '; });
  const size_t arrow = plain.find("->");
  const std::string left = plain.substr(0, arrow);
  Equation equation;
  for (size_t begin = 0; begin <= left.size();) {
    const size_t end = std::min(left.find(',', begin), left.size());
    equation.operands.push_back(left.substr(begin, end - begin));
    check_letters(text, equation.operands.back());
    begin = end + 1;
  }
  if (arrow == std::string::npos) {
    equation.result = letters_that_come_once(equation.operands);
    return equation;
  }
  equation.result = plain.substr(arrow + 2);
  check_letters(text, equation.result);
  for (const char name : equation.result) {
    if (!has(left, name)) refuse(text, fmt::format("no operand has the result's {}", name));
  }
  return equation;
}

void check_operands(std::string_view text, const Equation& equation,
                    const std::vector<Tensor>& operands) {
  if (operands.size() != equation.operands.size()) {
    refuse(text,
           fmt::format("names {} operands, got {}", equation.operands.size(), operands.size()));
  }
  std::map<char, size_t> seen;
  for (size_t i = 0; i < operands.size(); ++i) {
    const std::string& names = equation.operands[i];
    check::alike("einsum", {"the first operand", operands[0]}, {"another", operands[i]});
    check::floating("einsum", {"an operand", operands[i]});
    if (names.size() != size_t(operands[i].rank())) {
      refuse(text, fmt::format("operand {} is {}, \"{}\" names {} dimensions", i,
                               to_string(operands[i].shape()), names, names.size()));
    }
    for (size_t d = 0; d < names.size(); ++d) {
      const size_t first = seen.try_emplace(names[d], i).first->second;
      const int64_t size = operands[i].size(int(d));
      const int64_t expected = operands[first].size(int(equation.operands[first].find(names[d])));
      if (size != expected) {
        refuse(text, fmt::format("{} is {} in operand {} {} and {} in operand {} {}", names[d],
                                 expected, first, to_string(operands[first].shape()), size, i,
                                 to_string(operands[i].shape())));
      }
    }
  }
}

// -- named tensors ----------------------------------------------------------------

struct Named {
  Tensor tensor;
  std::string names;

  int64_t size(char name) const { return tensor.size(int(names.find(name))); }
  int64_t size(const std::string& some) const {
    int64_t product = 1;
    for (const char name : some) product *= size(name);
    return product;
  }
};

// The names of `some` for which keep(name).
template <class F>
std::string filtered(const std::string& some, F keep) {
  std::string result;
  std::ranges::copy_if(some, std::back_inserter(result), keep);
  return result;
}

Named ordered(const Named& x, const std::string& names) {
  if (x.names == names) return x;
  std::vector<int> order;
  for (const char name : names) order.push_back(int(x.names.find(name)));
  return {permute(x.tensor, order), names};
}

// x summed over all that is not in `wanted`.
Named summed(const Named& x, const std::string& wanted) {
  std::vector<int> dims;
  for (size_t d = 0; d < x.names.size(); ++d) {
    if (!has(wanted, x.names[d])) dims.push_back(int(d));
  }
  if (dims.empty()) return x;
  return {sum(x.tensor, {.dims = dims}),
          filtered(x.names, [&](char name) { return has(wanted, name); })};
}

// The letters of two operands by what becomes of them.
struct Roles {
  std::string batch, left, right, contracted;

  Roles(const Named& a, const Named& b, const std::string& wanted)
      : batch(filtered(a.names, [&](char n) { return has(b.names, n) && has(wanted, n); })),
        left(filtered(a.names, [&](char n) { return !has(b.names, n); })),
        right(filtered(b.names, [&](char n) { return !has(a.names, n); })),
        contracted(filtered(a.names, [&](char n) { return has(b.names, n) && !has(wanted, n); })) {}
};

// One operand of the product: (batch, outer, contracted), or with the last two swapped when that
// is the order it has.
struct Factor {
  Tensor matrices;
  bool swapped;

  Factor(const Named& x, const Roles& roles, const std::string& outer, bool swapped)
      : swapped(swapped) {
    const std::string last = swapped ? outer : roles.contracted;
    const std::string middle = swapped ? roles.contracted : outer;
    const Named in_order = ordered(x, roles.batch + middle + last);
    std::vector<int64_t> sizes;
    if (!roles.batch.empty()) sizes.push_back(x.size(roles.batch));
    sizes.push_back(x.size(middle));
    sizes.push_back(x.size(last));
    matrices = reshape(in_order.tensor, sizes);
  }
};

// The product of two, with the letters of `wanted` alone.
Named contract(const Named& from_a, const Named& from_b, const std::string& wanted) {
  const Named a = summed(from_a, wanted + from_b.names), b = summed(from_b, wanted + from_a.names);
  const Roles roles(a, b, wanted);
  const std::string names = roles.batch + roles.left + roles.right;
  std::vector<int64_t> sizes;
  for (const char name : names) sizes.push_back(has(a.names, name) ? a.size(name) : b.size(name));
  if (roles.contracted.empty()) {
    const Factor column(a, roles, roles.left, false), row(b, roles, roles.right, true);
    return {reshape(column.matrices * row.matrices, sizes), names};
  }
  const Factor left(a, roles, roles.left, a.names == roles.batch + roles.contracted + roles.left);
  const Factor right(b, roles, roles.right,
                     b.names != roles.batch + roles.right + roles.contracted);
  const Tensor y = matmul(left.matrices, right.matrices,
                          {.transpose_a = left.swapped, .transpose_b = !right.swapped});
  return {reshape(y, sizes), names};
}

}  // namespace

Tensor einsum(std::string_view equation, const std::vector<Tensor>& operands) {
  const FunctionScope scope("einsum");
  const Equation parsed = parse(equation);
  check_operands(equation, parsed, operands);
  Named y{operands[0], parsed.operands[0]};
  for (size_t i = 1; i < operands.size(); ++i) {
    std::string wanted = parsed.result;
    for (size_t later = i + 1; later < operands.size(); ++later) wanted += parsed.operands[later];
    y = contract(y, {operands[i], parsed.operands[i]}, wanted);
  }
  return ordered(summed(y, parsed.result), parsed.result).tensor;
}

}  // namespace adret
