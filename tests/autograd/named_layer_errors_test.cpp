// The functions of layers and losses name themselves in their errors.
#include <adret/adret.h>
#include <gtest/gtest.h>

#include <utility>

#include "tests/support/named_errors.h"

namespace adret {
namespace {

using namespace test;

TEST(NamedLayerErrors, OfProductsAndConvolutions) {
  const auto conv = [](const char* name, const Inputs& operands, auto f) {
    return Call{name, operands, [=](const Inputs& in) { f(in[0], in[1], in[2]); }, 0, 0, 1};
  };
  const Tensor weight = ones({3, 2, 2, 4}), of_sequence = ones({3, 2, 4}), bias = ones({3});
  expect_names({
      two("matmul",
          [](const Tensor& a, const Tensor& b) { return matmul(a, b, {.transpose_b = true}); }),
      {"linear",
       {ones({2, 4}), ones({3, 4}), bias},
       [](const Inputs& in) { linear(in[0], in[1], in[2]); },
       0,
       0,
       1},
      {"einsum", {ones({2, 4}), ones({4, 3})}, [](const Inputs& in) { einsum("ij,jk->ik", in); }},
      conv("conv2d", {ones({1, 4, 4, 4}), weight, bias},
           [](const Tensor& x, const Tensor& w, const Tensor& b) { conv2d(x, w, b); }),
      conv("conv1d", {ones({1, 4, 4}), of_sequence, bias},
           [](const Tensor& x, const Tensor& w, const Tensor& b) { conv1d(x, w, b); }),
      conv("conv_transpose2d", {ones({1, 4, 4, 3}), weight, ones({4})},
           [](const Tensor& x, const Tensor& w, const Tensor& b) { conv_transpose2d(x, w, b); }),
      conv("conv_transpose1d", {ones({1, 4, 3}), of_sequence, ones({4})},
           [](const Tensor& x, const Tensor& w, const Tensor& b) { conv_transpose1d(x, w, b); }),
      image("max_pool2d", [](const Tensor& x) { max_pool2d(x, 2); }),
      image("avg_pool2d", [](const Tensor& x) { avg_pool2d(x, 2); }),
      image("global_avg_pool2d", global_avg_pool2d),
      image("interpolate", [](const Tensor& x) { interpolate(x, 2); }),
      {"interpolate1d", {ones({1, 4, 2})}, [](const Inputs& in) { interpolate1d(in[0], 2); }},
      {"interpolate3d", {ones({1, 2, 3, 4, 2})}, [](const Inputs& in) { interpolate3d(in[0], 2); }},
      image("adaptive_avg_pool2d", [](const Tensor& x) { adaptive_avg_pool2d(x, 2); }),
      image(
          "pixel_unshuffle", [](const Tensor& x) { pixel_unshuffle(x, 2); }, 1),
      image(
          "pixel_shuffle", [](const Tensor& x) { pixel_shuffle(x, 2); }, 1),
  });
}

// An undefined parameter or residual is none.
TEST(NamedLayerErrors, OfNormalisations) {
  const Tensor x = ones({2, 3, 4}), four = ones({4});
  const auto without = [](const char* name, auto f) {
    return Call{name, {ones({2, 3, 4})}, [=](const Inputs& in) { f(in[0], Tensor()); }, 0, 1};
  };
  expect_names({
      without("layer_norm", [](const Tensor& x, const Tensor& p) { layer_norm(x, p, p); }),
      without("rms_norm", [](const Tensor& x, const Tensor& p) { rms_norm(x, p); }),
      without("layer_norm_of_sum",
              [](const Tensor& x, const Tensor& p) { layer_norm_of_sum(x, x, p, p); }),
      without("rms_norm_of_sum",
              [](const Tensor& x, const Tensor& p) { rms_norm_of_sum(x, x, p); }),
      without("instance_norm",
              [](const Tensor& x, const Tensor& p) {
                instance_norm(x, p, p);
                if (x.rank() == 6) instance_norm(x.reshape({7, 5}), p, p);
              }),
      without("batch_norm", [](const Tensor& x, const Tensor& p) { batch_norm(x, p, p, p, p); }),
      {"group_norm", {x}, [](const Inputs& in) { group_norm(in[0], 2); }},
  });
  const auto refuses = [&](const char* name, auto call, const Tensor& parameter) {
    expect_named({name, {}, [=](const Inputs&) { call(x, parameter); }}, {}, "a wrong parameter");
  };
  for (const Tensor& wrong : {ones({5}), four.to(DType::boolean)}) {
    refuses(
        "layer_norm", [](const Tensor& x, const Tensor& p) { layer_norm(x, p); }, wrong);
    refuses(
        "rms_norm", [](const Tensor& x, const Tensor& p) { rms_norm(x, p); }, wrong);
    refuses(
        "layer_norm_of_sum", [](const Tensor& x, const Tensor& p) { layer_norm_of_sum(x, x, p); },
        wrong);
    refuses(
        "layer_norm_of_sum", [](const Tensor& x, const Tensor& p) { layer_norm_of_sum(x, p); },
        wrong);
    refuses(
        "rms_norm_of_sum", [](const Tensor& x, const Tensor& p) { rms_norm_of_sum(x, p); }, wrong);
    refuses(
        "group_norm", [](const Tensor& x, const Tensor& p) { group_norm(x, 2, p); }, wrong);
    refuses(
        "instance_norm", [](const Tensor& x, const Tensor& p) { instance_norm(x, p); }, wrong);
    refuses(
        "batch_norm", [](const Tensor& x, const Tensor& p) { batch_norm(x, {}, p, {}, {}); },
        wrong);
  }
}

TEST(NamedLayerErrors, OfSumsOfNothing) {
  const auto refuses = [](const char* name, auto call) {
    expect_named({name, {}, [=](const Inputs&) { call(ones({2, 3})); }}, {}, "nothing to add");
  };
  refuses("layer_norm_of_sum", [](const Tensor& x) { layer_norm_of_sum(x, {}); });
  refuses("rms_norm_of_sum", [](const Tensor& x) { rms_norm_of_sum(x, {}); });
}

TEST(NamedLayerErrors, OfLosses) {
  const auto pair = [](const char* name, auto f) {
    return Call{name, {ones({2, 3}), ones({2, 3})}, [=](const Inputs& in) { f(in[0], in[1]); }};
  };
  const auto labelled = [](const char* name, auto f) {
    return Call{name, {ones({2, 3}), whole({2})}, [=](const Inputs& in) { f(in[0], in[1]); }};
  };
  expect_names({
      pair("mse_loss", [](const Tensor& a, const Tensor& b) { mse_loss(a, b); }),
      pair("l1_loss", [](const Tensor& a, const Tensor& b) { l1_loss(a, b); }),
      pair("smooth_l1_loss", [](const Tensor& a, const Tensor& b) { smooth_l1_loss(a, b); }),
      pair("huber_loss", [](const Tensor& a, const Tensor& b) { huber_loss(a, b); }),
      pair("binary_cross_entropy_with_logits",
           [](const Tensor& a, const Tensor& b) { binary_cross_entropy_with_logits(a, b); }),
      pair("focal_loss", [](const Tensor& a, const Tensor& b) { focal_loss(a, b); }),
      pair("kl_div", [](const Tensor& a, const Tensor& b) { kl_div(a, b); }),
      pair("cosine_similarity", [](const Tensor& a, const Tensor& b) { cosine_similarity(a, b); }),
      pair("hinge_embedding_loss",
           [](const Tensor& a, const Tensor& b) { hinge_embedding_loss(a, b); }),
      pair("poisson_nll_loss", [](const Tensor& a, const Tensor& b) { poisson_nll_loss(a, b); }),
      {"gaussian_nll_loss",
       {ones({2, 3}), ones({2, 3}), ones({2, 3})},
       [](const Inputs& in) { gaussian_nll_loss(in[0], in[1], in[2]); }},
      pair("soft_margin_loss", [](const Tensor& a, const Tensor& b) { soft_margin_loss(a, b); }),
      labelled("cross_entropy", [](const Tensor& a, const Tensor& b) { cross_entropy(a, b); }),
      labelled("nll_loss", [](const Tensor& a, const Tensor& b) { nll_loss(a, b); }),
      labelled("multi_margin_loss",
               [](const Tensor& a, const Tensor& b) { multi_margin_loss(a, b); }),
      {"cosine_embedding_loss",
       {ones({2, 3}), ones({2, 3}), ones({2})},
       [](const Inputs& in) { cosine_embedding_loss(in[0], in[1], in[2]); }},
      {"margin_ranking_loss",
       {ones({2, 3}), ones({2, 3}), ones({2, 3})},
       [](const Inputs& in) { margin_ranking_loss(in[0], in[1], in[2]); }},
      {"triplet_margin_loss",
       {ones({2, 3}), ones({2, 3}), ones({2, 3})},
       [](const Inputs& in) { triplet_margin_loss(in[0], in[1], in[2]); }},
  });
}

TEST(NamedLayerErrors, OfSequences) {
  const Tensor tokens = ones({2, 3, 2, 4}), x = ones({2, 3, 4});
  const auto recurrent = [&](const char* name, int64_t gates, auto f) {
    const Inputs operands = {x, ones({2, 5}), ones({gates * 5, 4}), ones({gates * 5, 5})};
    return Call{name, operands, [=](const Inputs& in) { f(in[0], in[1], {in[2], in[3]}); }};
  };
  // An undefined state is zeros.
  Calls calls = {
      recurrent("rnn", 1,
                [](const Tensor& x, const Tensor& h, const RecurrentWeights& w) { rnn(x, h, w); }),
      recurrent("gru", 3,
                [](const Tensor& x, const Tensor& h, const RecurrentWeights& w) { gru(x, h, w); }),
      recurrent("lstm", 4,
                [](const Tensor& x, const Tensor& h, const RecurrentWeights& w) {
                  lstm(x, {h, h}, w);
                }),
  };
  for (Call& call : calls) {
    std::swap(call.operands[1], call.operands.back());
    const Tensor state = call.operands.back();
    call.operands.pop_back();
    const auto with_state = call.call;
    call.call = [=](const Inputs& in) { with_state({in[0], state, in[2], in[1]}); };
  }
  expect_names(calls);
  expect_names({
      {"scaled_dot_product_attention",
       {tokens, tokens, tokens},
       [](const Inputs& in) { scaled_dot_product_attention(in[0], in[1], in[2]); }},
      {"scaled_dot_product_attention_packed",
       {ones({2, 3, 3, 2, 4})},
       [](const Inputs& in) { scaled_dot_product_attention_packed(in[0]); }},
  });
}

}  // namespace
}  // namespace adret
