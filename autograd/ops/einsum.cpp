// Sums of products by the names of dimensions.
#include <adret/autograd/ops/arithmetic.h>
#include <adret/autograd/ops/check.h>
#include <adret/autograd/ops/create.h>
#include <adret/autograd/ops/einsum.h>
#include <adret/autograd/ops/index.h>
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

// Names of dimensions are letters; '.' stands for "...", until the operands are known: then digits
// name its dimensions, 0 the last one, as they are aligned there.
struct Equation {
  std::vector<std::string> operands;
  std::string result;
};

[[noreturn]] void refuse(std::string_view equation, const std::string& problem) {
  check::refuse("einsum", fmt::format("\"{}\": {}", equation, problem));
}

bool has(const std::string& names, char name) { return names.find(name) != std::string::npos; }

bool is_letter(char name) { return (name >= 'a' && name <= 'z') || (name >= 'A' && name <= 'Z'); }

// The names in a term, which errors call `what`.
std::string names_of(std::string_view equation, const std::string& what, std::string term) {
  const std::string written = term;
  const size_t dots = term.find("...");
  if (dots != std::string::npos) term.replace(dots, 3, ".");
  for (size_t i = 0; i < term.size(); ++i) {
    if (i == dots) continue;
    if (term[i] == '.') {
      refuse(equation, fmt::format("{} \"{}\" has a '.' beside one \"...\"", what, written));
    }
    if (!is_letter(term[i])) {
      refuse(equation, fmt::format("'{}' in {} \"{}\" is no letter", term[i], what, written));
    }
  }
  return term;
}

// "..." and the letters that come once, in alphabetical order.
std::string implied_result(const std::vector<std::string>& operands) {
  std::map<char, int> counts;
  for (const std::string& names : operands) {
    for (const char name : names) ++counts[name];
  }
  std::string result;
  for (const auto& [name, count] : counts) {  // '.' comes before letters
    if (count == 1 || name == '.') result += name;
  }
  return result;
}

std::string explicit_result(std::string_view text, const std::string& left, std::string term) {
  const std::string result = names_of(text, "the result", std::move(term));
  for (size_t i = 0; i < result.size(); ++i) {
    const char name = result[i];
    if (name != '.' && !has(left, name)) {
      refuse(text, fmt::format("no operand has the result's {}", name));
    }
    if (result.find(name, i + 1) != std::string::npos) {
      refuse(text, fmt::format("{} comes twice in the result \"{}\"", name, result));
    }
  }
  return result;
}

Equation parse(std::string_view text) {
  std::string plain;
  std::ranges::copy_if(text, std::back_inserter(plain), [](char c) { return c != ' '; });
  const size_t arrow = plain.find("->");
  const std::string left = plain.substr(0, arrow);
  Equation equation;
  for (size_t begin = 0; begin <= left.size();) {
    const size_t end = std::min(left.find(',', begin), left.size());
    const std::string what = fmt::format("operand {}", equation.operands.size());
    equation.operands.push_back(names_of(text, what, left.substr(begin, end - begin)));
    begin = end + 1;
  }
  equation.result = arrow == std::string::npos
                        ? implied_result(equation.operands)
                        : explicit_result(text, left, plain.substr(arrow + 2));
  return equation;
}

// -- sizes ------------------------------------------------------------------------

// With digits for the `count` dimensions of "...".
std::string expanded(std::string names, int count) {
  const size_t dots = names.find('.');
  if (dots == std::string::npos) return names;
  std::string digits;
  for (int i = count - 1; i >= 0; --i) digits += char('0' + i);
  return names.replace(dots, 1, digits);
}

void expand(std::string_view text, Equation& equation, const std::vector<Tensor>& operands) {
  int most = 0;
  for (size_t i = 0; i < operands.size(); ++i) {
    std::string& names = equation.operands[i];
    const bool open = has(names, '.');
    const int named = int(names.size()) - (open ? 1 : 0), rank = operands[i].rank();
    if (open ? rank < named : rank != named) {
      const std::string term = open ? std::string(names).replace(names.find('.'), 1, "...") : names;
      refuse(text,
             fmt::format("operand {} is {}, \"{}\" names {}{} dimensions", i,
                         to_string(operands[i].shape()), term, open ? "at least " : "", named));
    }
    names = expanded(names, rank - named);
    if (open) most = std::max(most, rank - named);
  }
  equation.result = expanded(equation.result, most);
}

// The size of each name.
std::map<char, int64_t> sizes_of(std::string_view text, const Equation& equation,
                                 const std::vector<Tensor>& operands) {
  struct Found {
    int64_t size;
    size_t operand;
  };
  std::map<char, Found> found;
  for (size_t i = 0; i < operands.size(); ++i) {
    for (size_t d = 0; d < equation.operands[i].size(); ++d) {
      const char name = equation.operands[i][d];
      const int64_t size = operands[i].size(int(d));
      Found& first = found.try_emplace(name, Found{size, i}).first->second;
      if (size == first.size) continue;
      if (is_letter(name) || (size != 1 && first.size != 1)) {
        refuse(text,
               fmt::format("{} is {} in operand {} {} and {} in operand {} {}",
                           is_letter(name) ? std::string(1, name) : "a size of \"...\"", first.size,
                           first.operand, to_string(operands[first.operand].shape()), size, i,
                           to_string(operands[i].shape())));
      }
      if (first.size == 1) first = {size, i};
    }
  }
  std::map<char, int64_t> sizes;
  for (const auto& [name, first] : found) sizes[name] = first.size;
  return sizes;
}

void check_operands(std::string_view text, const Equation& equation,
                    const std::vector<Tensor>& operands) {
  if (operands.size() != equation.operands.size()) {
    refuse(text,
           fmt::format("names {} operands, got {}", equation.operands.size(), operands.size()));
  }
  for (const Tensor& operand : operands) {
    check::alike("einsum", {"the first operand", operands[0]}, {"another", operand});
    check::floating("einsum", {"an operand", operand});
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

// The diagonal of the dimensions of a name that comes twice; it goes to the end.
Named diagonal(const Named& x, char name) {
  const size_t first = x.names.find(name), second = x.names.find(name, first + 1);
  std::vector<int> order;
  std::string names;
  for (size_t d = 0; d < x.names.size(); ++d) {
    if (d == first || d == second) continue;
    order.push_back(int(d));
    names += x.names[d];
  }
  const int64_t n = x.size(name);
  order.push_back(int(first));
  order.push_back(int(second));
  const Tensor turned = permute(x.tensor, order);
  Shape shape = turned.shape().without(turned.rank() - 1);
  shape = shape.with(shape.rank() - 1, n * n);
  const Tensor places =
      arange(0, double(n * n), double(n + 1), {.dtype = DType::i64, .device = x.tensor.device()});
  return {index_select(reshape(turned, shape.span()), -1, places), names + name};
}

// With each name once, and without dimensions of size 1 that stretch.
Named prepared(const Tensor& tensor, const std::string& names,
               const std::map<char, int64_t>& sizes) {
  Named x{tensor, names};
  for (size_t d = x.names.size(); d-- > 0;) {
    if (x.tensor.size(int(d)) == sizes.at(x.names[d])) continue;
    x = {squeeze(x.tensor, int(d)), std::string(x.names).erase(d, 1)};
  }
  for (const char name : names) {
    while (x.names.find(name) != x.names.rfind(name)) x = diagonal(x, name);
  }
  return x;
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
  Equation parsed = parse(equation);
  check_operands(equation, parsed, operands);
  expand(equation, parsed, operands);
  const std::map<char, int64_t> sizes = sizes_of(equation, parsed, operands);
  Named y = prepared(operands[0], parsed.operands[0], sizes);
  for (size_t i = 1; i < operands.size(); ++i) {
    std::string wanted = parsed.result;
    for (size_t later = i + 1; later < operands.size(); ++later) wanted += parsed.operands[later];
    y = contract(y, prepared(operands[i], parsed.operands[i], sizes), wanted);
  }
  return ordered(summed(y, parsed.result), parsed.result).tensor;
}

}  // namespace adret
