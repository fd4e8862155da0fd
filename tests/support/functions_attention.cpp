// Cases of functions of attention.
#include <adret/autograd/ops/attention.h>

#include "tests/support/function_lists.h"

namespace adret::test {
namespace {

using Inputs = std::vector<Tensor>;

FunctionCase separate(const char* name, AttentionOptions (*options)(const Inputs&)) {
  return {name, [=](const Inputs& in) {
            return scaled_dot_product_attention(in[0], in[1], in[2], options(in));
          }};
}
FunctionCase packed(const char* name, AttentionOptions (*options)(const Inputs&)) {
  return {name, [=](const Inputs& in) {
            return scaled_dot_product_attention_packed(in[0], options(in));
          }};
}

AttentionOptions plain(const Inputs&) { return {}; }
AttentionOptions causal(const Inputs&) { return {.causal = true}; }
AttentionOptions masked(const Inputs& in) { return {.mask = in.back()}; }
AttentionOptions with_lengths(const Inputs& in) { return {.lengths = in.back()}; }

}  // namespace

std::vector<FunctionCase> attention_cases() {
  return {
      separate("scaled_dot_product_attention", plain),
      separate("scaled_dot_product_attention/scale",
               [](const Inputs&) { return AttentionOptions{.scale = 0.75}; }),
      separate("scaled_dot_product_attention/mask", masked),
      separate("scaled_dot_product_attention/rows_of_mask", masked),
      separate("scaled_dot_product_attention/added", masked),
      separate("scaled_dot_product_attention/added_with_gradient", masked),
      separate("scaled_dot_product_attention/lengths", with_lengths),
      separate("scaled_dot_product_attention/no_keys", with_lengths),
      separate("scaled_dot_product_attention/causal", causal),
      separate("scaled_dot_product_attention/one", plain),
      separate("scaled_dot_product_attention/all",
               [](const Inputs& in) {
                 return AttentionOptions{.mask = in[3], .lengths = in[4], .causal = true};
               }),
      packed("scaled_dot_product_attention_packed", plain),
      packed("scaled_dot_product_attention_packed/causal", causal),
      packed("scaled_dot_product_attention_packed/mask", masked),
  };
}

}  // namespace adret::test
