// GPT-2 (Radford et al. 2019): a transformer that tells which token comes next.
#pragma once

#include <adret/layers/embedding.h>
#include <adret/layers/models/transformer_block.h>
#include <adret/layers/sequential.h>

namespace adret {

struct Gpt2Options {  // the small one, of 124 million parameters
  int64_t vocabulary = 50257;
  int64_t context = 1024;  // tokens at once, at most
  int64_t features = 768, heads = 12, depth = 12;
  double dropout = 0.1;
};

// Tokens (N, T) i32 or i64 -> logits (N, T, vocabulary) of the token behind each, which sees only
// those up to it. The head is the table of tokens. Names and layouts in files are those of the
// published weights ("h.0.attn.c_attn.weight" as (in, out)).
class Gpt2 : public Layer<Gpt2> {
 public:
  // Throws Error for sizes below 1 and heads that do not divide the features.
  explicit Gpt2(const Gpt2Options& options = {});
  // Throws ShapeError for more tokens than the context.
  Tensor forward(const Tensor& tokens);
  Gpt2 rebuild() const { return Gpt2(options); }

  const Gpt2Options options;
  Embedding& wte;  // of tokens
  Embedding& wpe;  // of positions
  Sequential& h;   // TransformerBlock, `depth` of them
  LayerNorm& ln_f;
};

}  // namespace adret
