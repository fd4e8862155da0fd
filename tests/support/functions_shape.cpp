// Cases of functions that rearrange, index and multiply.
#include <adret/autograd/ops/arithmetic.h>
#include <adret/autograd/ops/einsum.h>
#include <adret/autograd/ops/embedding.h>
#include <adret/autograd/ops/index.h>
#include <adret/autograd/ops/matmul.h>
#include <adret/autograd/ops/pad.h>
#include <adret/autograd/ops/reduce.h>
#include <adret/autograd/ops/shape.h>
#include <adret/autograd/ops/sort.h>

#include "tests/support/function_lists.h"

namespace adret::test {
namespace {

using Inputs = std::vector<Tensor>;

std::vector<FunctionCase> index_cases() {
  return {
      {"gather", [](const Inputs& in) { return gather(in[0], 1, in[1]); }},
      {"gather/last", [](const Inputs& in) { return gather(in[0], -1, in[1]); }},
      {"gather/i32", [](const Inputs& in) { return gather(in[0], 0, in[1]); }},
      {"index_select", [](const Inputs& in) { return index_select(in[0], 1, in[1]); }},
      {"index_select/first", [](const Inputs& in) { return index_select(in[0], 0, in[1]); }},
      {"index_select/last", [](const Inputs& in) { return index_select(in[0], -1, in[1]); }},
      {"scatter", [](const Inputs& in) { return scatter(in[0], 1, in[1], in[2]); }},
      {"scatter/first", [](const Inputs& in) { return scatter(in[0], 0, in[1], in[2]); }},
      {"scatter_add", [](const Inputs& in) { return scatter_add(in[0], 1, in[1], in[2]); }},
      {"scatter_add/flat", [](const Inputs& in) { return scatter_add(in[0], 0, in[1], in[2]); }},
      {"index_add", [](const Inputs& in) { return index_add(in[0], 1, in[1], in[2]); }},
      {"masked_fill", [](const Inputs& in) { return masked_fill(in[0], in[1], -2.5); }},
      {"masked_fill/broadcast", [](const Inputs& in) { return masked_fill(in[0], in[1], 0.5); }},
      {"embedding", [](const Inputs& in) { return embedding(in[0], in[1]); }},
      {"embedding/padding",
       [](const Inputs& in) { return embedding(in[0], in[1], {.padding_idx = 1}); }},
      {"embedding/i32", [](const Inputs& in) { return embedding(in[0], in[1]); }},
  };
}

Tensor sums_of_squares(const std::vector<Tensor>& parts) {
  Tensor total;
  for (const Tensor& part : parts) {
    const Tensor squares = sum(square(part), {.dims = {1, 2}});
    total = total.defined() ? total + squares : squares;
  }
  return total;
}

std::vector<FunctionCase> layout_cases() {
  return {
      {"pad",
       [](const Inputs& in) {
         return pad(in[0], {{0, 1}, {1, 3}, {2, 0}}, {.value = 1.5});
       }},
      {"pad/crop",
       [](const Inputs& in) {
         return pad(in[0], {{}, {0, -2}, {-1, 2}});
       }},
      {"pad/reflect",
       [](const Inputs& in) {
         return pad(in[0], {{}, {}, {1, 2}, {2, 3}}, {.mode = PadMode::reflect});
       }},
      {"pad/replicate",
       [](const Inputs& in) {
         return pad(in[0], {{}, {}, {5, 1}, {2, 0}}, {.mode = PadMode::replicate});
       }},
      {"pad/circular",
       [](const Inputs& in) {
         return pad(in[0], {{}, {}, {1, 0}, {2, 4}}, {.mode = PadMode::circular});
       }},
      {"flip",
       [](const Inputs& in) {
         return flip(in[0], {0, -1});
       }},
      {"flip/none", [](const Inputs& in) { return flip(in[0], {}); }},
      {"roll",
       [](const Inputs& in) {
         return roll(in[0], {1, -5}, {1, 2});
       }},
      {"repeat",
       [](const Inputs& in) {
         return repeat(in[0], {2, 1, 3, 2});
       }},
      {"repeat/none",
       [](const Inputs& in) {
         return repeat(in[0], {0, 1, 3});
       }},
      {"repeat_interleave", [](const Inputs& in) { return repeat_interleave(in[0], 3, 1); }},
      {"split", [](const Inputs& in) { return split(in[0], 2, 1)[1]; }},
      {"split/all", [](const Inputs& in) { return sums_of_squares(split(in[0], 2, 1)); }},
      {"split/first", [](const Inputs& in) { return split(in[0], 2, 0)[1]; }},
      {"chunk", [](const Inputs& in) { return chunk(in[0], 3, -1)[2]; }},
      {"chunk/fewer", [](const Inputs& in) { return chunk(in[0], 4, 0).back(); }},
      {"stack",
       [](const Inputs& in) {
         return stack({in[0], in[1], in[0]}, 1);
       }},
      {"stack/last",
       [](const Inputs& in) {
         return stack({in[0], in[1]}, -1);
       }},
      {"unbind", [](const Inputs& in) { return unbind(in[0], 1)[2]; }},
      {"unbind/all", [](const Inputs& in) { return sums_of_squares(unbind(in[0])); }},
      {"squeeze", [](const Inputs& in) { return squeeze(in[0], 1); }},
      {"unsqueeze", [](const Inputs& in) { return unsqueeze(in[0], -1); }},
  };
}

Tensor product(const Inputs& in) { return matmul(in[0], in[1]); }

// An equation of the inputs.
FunctionCase sums(const char* name, const char* equation) {
  return {name, [=](const Inputs& in) { return einsum(equation, in); }};
}

std::vector<FunctionCase> product_cases() {
  return {
      {"matmul/vectors", product},
      {"matmul/row", product},
      {"matmul/column", product},
      {"matmul/one_matrix", product},
      {"matmul/broadcast", product},
      sums("einsum", "bhtd,bhsd->bhts"),
      sums("einsum/values", "bhts,bshd->bthd"),
      sums("einsum/implicit", "ki,kj"),
      sums("einsum/three", "ai, bi, ci -> abc"),
      sums("einsum/bilinear", "bi,oij,bj->bo"),
      sums("einsum/outer", "i,j->ji"),
      sums("einsum/elementwise", "ij,ji->ij"),
      sums("einsum/rows", "bi,bi->b"),
      sums("einsum/sum", "ijk->j"),
      sums("einsum/permute", "ijk->kij"),
      sums("einsum/alone", "ij,kl->il"),
      sums("einsum/scalar", "ij,->ij"),
      sums("einsum/dots", "...ij, ...jk"),
      sums("einsum/dots_first", "i...,ij->...j"),
      sums("einsum/dots_summed", "...i,...i->i"),
      sums("einsum/dots_alone", "...,...->..."),
      sums("einsum/trace", "ii"),
      sums("einsum/diagonal", "ii->i"),
      sums("einsum/diagonals", "...iji->...ij"),
      sums("einsum/thrice", "iii->i"),
      sums("einsum/diagonal_product", "bii,ij->bj"),
  };
}

std::vector<FunctionCase> sort_cases() {
  const auto sorted = [](const char* name, const SortOptions& options) {
    return FunctionCase{name, [=](const Inputs& in) { return sort(in[0], options).values; }};
  };
  const auto places = [](const char* name, const SortOptions& options) {
    return FunctionCase{name, [=](const Inputs& in) { return argsort(in[0], options); }};
  };
  return {
      sorted("sort", {}),
      sorted("sort/first", {.dim = 0}),
      sorted("sort/descending", {.dim = 1, .descending = true}),
      sorted("sort/ties", {}),
      sorted("sort/ties_descending", {.descending = true}),
      places("argsort", {.dim = 1}),
      places("argsort/ties", {}),
      places("argsort/descending", {.descending = true}),
      places("argsort/integers", {.dim = 0}),
      {"topk", [](const Inputs& in) { return topk(in[0], 2, {.dim = 1}).values; }},
      {"topk/smallest",
       [](const Inputs& in) { return topk(in[0], 3, {.dim = 1, .largest = false}).values; }},
      {"topk/indices", [](const Inputs& in) { return topk(in[0], 2).indices; }},
  };
}

}  // namespace

std::vector<FunctionCase> rearrange_cases() {
  std::vector<FunctionCase> all;
  for (const std::vector<FunctionCase>& some :
       {index_cases(), layout_cases(), product_cases(), sort_cases()}) {
    all.insert(all.end(), some.begin(), some.end());
  }
  return all;
}

}  // namespace adret::test
