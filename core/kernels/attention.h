// Scaled dot-product attention (Vaswani et al. 2017), without the matrix of weights in memory (Dao
// et al. 2022).
#pragma once

#include <adret/core/compute_mode.h>
#include <adret/core/kernels/operand.h>
#include <adret/core/random.h>

#include <string>

namespace adret::kernels {

// Finite masks count as this at least: far enough down for a weight of 0 beside any other score,
// near enough for log_sum_exp to keep the digits of a row that has no other.
inline constexpr double lowest_mask = -4096;

struct AttentionParams {
  double scale = 1;     // of the scores
  bool causal = false;  // query i sees keys 0..i; as many queries as keys
  double dropout = 0;   // probability that a weight is 0; the others are divided by 1 - dropout
  RandomKey key;        // of dropout
  MathMode math = MathMode::exact;
  bool operator==(const AttentionParams&) const = default;
};
std::string to_string(const AttentionParams& params);

// Per sample n and head h: y = dropout(softmax(scale * q k^T + mask)) v over the keys that a query
// sees; q and y (N, T, H, D), k and v (N, S, H, D) of one floating dtype. With k and v undefined q
// is all three, packed: (N, T, 3, H, D). mask (N or 1, H or 1, T or 1, S), or undefined: boolean,
// false where a query does not see a key, or of q's dtype, added to the scores (see lowest_mask).
// lengths (N) i32 or i64, or undefined: keys from there on are not seen. A query that sees no key,
// or whose scores are all -inf, gives 0 and has no gradient. log_sum_exp (N, H, T) f32, f64 for
// f64: of the scores, -inf where no key is seen; the backward pass wants it, else it may be
// undefined. Sums are kept in f32, f64 for f64. Dropout: word e of the mask, as in Note [Random
// kernels], belongs to element e of the weights (N, H, T, S); the weight is 0 if it is below
// dropout * 2^32. `step` is undefined without.
struct AttentionForward {
  static constexpr const char* name = "attention_forward";
  TensorView q, k, v, mask, lengths, step, y, log_sum_exp;
  AttentionParams attention;

  bool packed() const { return !k.defined(); }
  int64_t keys() const { return (packed() ? q : k).shape[1]; }
  auto inputs() const {
    return operands(Operand{"q", q}, Operand{"k", k}, Operand{"v", v}, Operand{"mask", mask},
                    Operand{"lengths", lengths}, Operand{"step", step});
  }
  auto outputs() const { return operands(Operand{"y", y}, Operand{"log_sum_exp", log_sum_exp}); }
  double flops() const;  // of the scores that causal leaves
  std::string params() const { return to_string(attention); }
};

// dq, dk and dv, like q, k and v: packed all in dq. y and log_sum_exp are the forward pass's, and
// `attention` and `step` as there.
struct AttentionBackward {
  static constexpr const char* name = "attention_backward";
  TensorView q, k, v, mask, lengths, step, y, log_sum_exp, dy, dq, dk, dv;
  AttentionParams attention;

  bool packed() const { return !k.defined(); }
  int64_t keys() const { return (packed() ? q : k).shape[1]; }
  auto inputs() const {
    return operands(Operand{"q", q}, Operand{"k", k}, Operand{"v", v}, Operand{"mask", mask},
                    Operand{"lengths", lengths}, Operand{"step", step}, Operand{"y", y},
                    Operand{"log_sum_exp", log_sum_exp}, Operand{"dy", dy});
  }
  auto outputs() const { return operands(Operand{"dq", dq}, Operand{"dk", dk}, Operand{"dv", dv}); }
  double flops() const;
  std::string params() const { return to_string(attention); }
};

}  // namespace adret::kernels
