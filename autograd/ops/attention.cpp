// Scaled dot-product attention: fused, and composed of public functions for what the fused kernels
// have no derivative of.
#include <adret/autograd/ops/arithmetic.h>
#include <adret/autograd/ops/attention.h>
#include <adret/autograd/ops/check.h>
#include <adret/autograd/ops/create.h>
#include <adret/autograd/ops/logic.h>
#include <adret/autograd/ops/matmul.h>
#include <adret/autograd/ops/reduce.h>
#include <adret/autograd/ops/shape.h>
#include <adret/autograd/ops/softmax.h>
#include <adret/autograd/saved_tensor.h>
#include <adret/core/kernels/kernel.h>
#include <fmt/core.h>

#include <cmath>

namespace adret {
namespace {

using namespace kernels;

constexpr const char* separate_name = "scaled_dot_product_attention";
constexpr const char* packed_name = "scaled_dot_product_attention_packed";

// Of one call; k and v are undefined when q is all three. The mask has four dimensions.
struct Operands {
  Tensor q, k, v, mask, lengths, step;

  bool packed() const { return !k.defined(); }
  const char* function() const { return packed() ? packed_name : separate_name; }
};

// -- composed ------------------------------------------------------------------------------------

// (N, L, H, D) as (N H, L, D), and back.
Tensor heads_first(const Tensor& x) {
  return permute(x, {0, 2, 1, 3}).reshape({x.size(0) * x.size(2), x.size(1), x.size(3)});
}
Tensor heads_back(const Tensor& x, const Shape& shape) {
  return permute(x.reshape({shape[0], shape[2], shape[1], shape[3]}), {0, 2, 1, 3});
}

// The same from public functions, in the wide dtype; all that follows is (N, H, T, S) or, for
// products, (N H, T, S).
class Composition {
 public:
  Composition(const Operands& in, const AttentionParams& params) : in_(in), params_(params) {
    wide_ = wide_dtype(in.q);
    q = heads_first(part(in.q, 0));
    k = heads_first(in.packed() ? part(in.q, 1) : part(in.k, 0));
    v = heads_first(in.packed() ? part(in.q, 2) : part(in.v, 0));
    const int64_t heads = in.q.size(-2), samples = in.q.size(0);
    shape_ = {samples, heads, q.size(1), k.size(1)};
    weights = seen_softmax(matmul(q, k, {.transpose_b = true}).reshape(shape_) * params.scale);
    if (params.dropout > 0) factors = dropout_factors();
  }

  Tensor dropped(const Tensor& x) const { return factors.defined() ? x * factors : x; }
  Tensor flat(const Tensor& x) const { return x.reshape({q.size(0), q.size(1), k.size(1)}); }

  Tensor forward() const {
    const Shape shape{shape_[0], shape_[2], shape_[1], in_.q.size(-1)};
    return heads_back(matmul(flat(dropped(weights)), v), shape).to(in_.q.dtype());
  }

  // Of q, k and v, or of all in one.
  std::vector<Tensor> backward(const Tensor& grad) const {
    const Tensor dy = heads_first(grad.to(wide_));
    const Tensor dweights = dropped(matmul(dy, v, {.transpose_b = true}).reshape(shape_));
    const Tensor mean = sum(dweights * weights, {.dims = {-1}, .keepdim = true});
    const Tensor dscores = flat(weights * (dweights - mean) * params_.scale);
    const Shape queries = grad.shape(), keys = grad.shape().with(1, k.size(1));
    const Tensor dq = heads_back(matmul(dscores, k), queries),
                 dk = heads_back(matmul(dscores, q, {.transpose_a = true}), keys),
                 dv = heads_back(matmul(flat(dropped(weights)), dy, {.transpose_a = true}), keys);
    const DType dtype = in_.q.dtype();
    if (!in_.packed()) return {dq.to(dtype), dk.to(dtype), dv.to(dtype)};
    const auto [n, t, h, d] = std::array{keys[0], keys[1], keys[2], keys[3]};
    const auto one = [&](const Tensor& x) { return x.reshape({n, t, 1, h, d}); };
    return {concatenate({one(dq), one(dk), one(dv)}, 2).to(dtype)};
  }

  Tensor q, k, v, weights, factors;

 private:
  Tensor part(const Tensor& x, int index) const {
    const Tensor wide = x.to(wide_);
    if (x.rank() == 4) return wide;
    return slice(wide, 2, index, index + 1).reshape({x.size(0), x.size(1), x.size(3), x.size(4)});
  }

  // What queries see, broadcasting to the scores; undefined for all.
  Tensor seen() const {
    Tensor all;
    const auto add = [&](const Tensor& seen) {
      all = all.defined() ? logical_and(all, seen) : seen;
    };
    const Device device = in_.q.device();
    const TensorOptions numbers{.dtype = DType::i64, .device = device};
    const auto count = [&](int64_t n) { return arange(0, double(n), 1, numbers); };
    const Tensor columns = count(shape_[3]).reshape({1, 1, 1, shape_[3]});
    if (params_.causal) add(less_equal(columns, count(shape_[2]).reshape({1, 1, shape_[2], 1})));
    if (in_.lengths.defined()) {
      add(less(columns, in_.lengths.to(DType::i64).reshape({shape_[0], 1, 1, 1})));
    }
    if (!in_.mask.defined()) return all;
    if (in_.mask.dtype() == DType::boolean) {
      add(in_.mask);
    } else {
      add(not_equal(in_.mask, scalar_like(in_.mask, -INFINITY)));
    }
    return all;
  }

  // A row without a key is 0, where softmax itself would be NaN.
  Tensor seen_softmax(Tensor scores) const {
    const Tensor seen = this->seen();
    if (!seen.defined()) return softmax(scores);
    if (in_.mask.defined() && in_.mask.dtype() != DType::boolean) {
      const Tensor mask = in_.mask.to(wide_);
      scores = scores + where(seen, maximum(mask, scalar_like(mask, lowest_mask)), 0);
    }
    return where(seen, softmax(where(seen, scores, -1e30)), 0);
  }

  // The words of the fused kernels' weights.
  Tensor dropout_factors() const {
    const TensorOptions wide{.dtype = wide_, .device = in_.q.device()};
    const Tensor y = Tensor::empty(shape_, wide);
    const Tensor kept = Tensor::empty(shape_, {.dtype = DType::u8, .device = in_.q.device()});
    run(DropoutForward{.x = Tensor::ones(shape_, wide),
                       .step = in_.step,
                       .y = y,
                       .mask = kept,
                       .key = params_.key,
                       .p = params_.dropout});
    return y;
  }

  const Operands& in_;
  const AttentionParams& params_;
  DType wide_;
  Shape shape_;
};

// -- fused ---------------------------------------------------------------------------------------

// Inputs q, k and v, or all in one.
struct AttentionNode final : Node {
  AttentionNode(const Operands& in, const Tensor& y, const Tensor& log_sum_exp,
                const AttentionParams& params)
      : function(in.function()),
        q(in.q),
        k(in.k),
        v(in.v),
        mask(in.mask),
        lengths(in.lengths),
        step(in.step),
        log_sum_exp(log_sum_exp),
        y(y),
        params(params) {}
  const char* name() const override { return function; }

  std::vector<Tensor> backward(const std::vector<Tensor>& grads) override {
    const Operands in{q.unpack(*this),    k.unpack(*this),       v.unpack(*this),
                      mask.unpack(*this), lengths.unpack(*this), step.unpack(*this)};
    if (grad_enabled()) return Composition(in, params).backward(grads[0]);
    const auto gradient = [&](size_t i, const Tensor& x) {
      if (!x.defined()) return Tensor();
      return needs_gradient(i) ? grad_buffer(i) : empty_like(x);
    };
    const Tensor dq = gradient(0, in.q), dk = gradient(1, in.k), dv = gradient(2, in.v);
    run(AttentionBackward{.q = in.q,
                          .k = in.k,
                          .v = in.v,
                          .mask = in.mask,
                          .lengths = in.lengths,
                          .step = in.step,
                          .y = y.unpack(*this),
                          .log_sum_exp = log_sum_exp.unpack(*this),
                          .dy = grads[0],
                          .dq = dq,
                          .dk = dk,
                          .dv = dv,
                          .attention = params});
    if (in.packed()) return {dq};
    return {dq, dk, dv};
  }

  const char* function;
  SavedTensor q, k, v, mask, lengths, step, log_sum_exp;
  SavedOutput y;
  AttentionParams params;
};

bool wants_gradient(const Operands& in) {
  if (!grad_enabled()) return false;
  const auto wants = [](const Tensor& x) { return x.defined() && x.requires_grad(); };
  return wants(in.q) || wants(in.k) || wants(in.v);
}

Tensor fused(const Operands& in, const AttentionParams& params) {
  const Shape& shape = in.q.shape();
  const int64_t samples = shape[0], queries = shape[1], heads = shape[-2];
  Tensor y = empty_like(in.q, {samples, queries, heads, shape[-1]});
  const Tensor log_sum_exp =
      wants_gradient(in) ? Tensor::empty({samples, heads, queries},
                                         {.dtype = wide_dtype(in.q), .device = in.q.device()})
                         : Tensor();
  run(AttentionForward{.q = in.q,
                       .k = in.k,
                       .v = in.v,
                       .mask = in.mask,
                       .lengths = in.lengths,
                       .step = in.step,
                       .y = y,
                       .log_sum_exp = log_sum_exp,
                       .attention = params});
  if (in.packed()) {
    record<AttentionNode>({y}, {in.q}, in, y, log_sum_exp, params);
  } else {
    record<AttentionNode>({y}, {in.q, in.k, in.v}, in, y, log_sum_exp, params);
  }
  return y;
}

// -- checks --------------------------------------------------------------------------------------

void check_mask(const Operands& in, int64_t keys) {
  const char* const function = in.function();
  const check::Argument mask{"mask", in.mask};
  check::same_device(function, {"q", in.q}, mask);
  if (in.mask.dtype() != DType::boolean && in.mask.dtype() != in.q.dtype()) {
    check::refuse(
        function,
        fmt::format("mask {} is {}, wanted boolean, or q's {} to be added to the "
                    "scores",
                    to_string(in.mask.shape()), name(in.mask.dtype()), name(in.q.dtype())));
  }
  const Shape& shape = in.mask.shape();
  const int64_t n = in.q.size(0), h = in.q.size(-2), t = in.q.size(1);
  const auto fits = [](int64_t size, int64_t full) { return size == full || size == 1; };
  if (shape.rank() == 4 && fits(shape[0], n) && fits(shape[1], h) && fits(shape[2], t) &&
      shape[3] == keys) {
    return;
  }
  check::refuse_shape(
      function, mask,
      fmt::format("({} or 1, {} or 1, {} or 1, {}), or the last two of these", n, h, t, keys));
}

void check_operands(const Operands& in, const AttentionOptions& options) {
  const char* const function = in.function();
  const check::Argument q{in.packed() ? "qkv" : "q", in.q};
  check::floating(function, q);
  const int64_t keys = (in.packed() ? in.q : in.k).size(1);
  if (options.causal && keys != in.q.size(1)) {
    check::refuse(function, fmt::format("causal wants as many keys as queries: q is {}, k {}",
                                        to_string(in.q.shape()), to_string(in.k.shape())));
  }
  if (in.mask.defined()) check_mask(in, keys);
  if (in.lengths.defined()) {
    const check::Argument lengths{"lengths", in.lengths};
    check::same_device(function, q, lengths);
    if (in.lengths.dtype() != DType::i32 && in.lengths.dtype() != DType::i64) {
      check::refuse_dtype(function, lengths, DType::i32);
    }
    check::shape(function, lengths, {in.q.size(0)});
  }
  if (!(options.dropout >= 0 && options.dropout <= 1)) {
    check::refuse(function,
                  fmt::format("dropout is {}, wanted a probability in 0..1", options.dropout));
  }
}

Tensor attend(Operands in, const AttentionOptions& options) {
  in.lengths = options.lengths;
  in.mask = options.mask;
  if (in.mask.defined() && in.mask.rank() == 2) {
    in.mask = in.mask.reshape({1, 1, in.mask.size(0), in.mask.size(1)});
  }
  check_operands(in, options);
  AttentionParams params{.scale = options.scale.value_or(1 / std::sqrt(double(in.q.size(-1)))),
                         .causal = options.causal,
                         .dropout = options.dropout,
                         .math = compute_mode().math};
  if (params.dropout > 0) {
    // A copy: the word itself goes on when a step begins, perhaps before the backward pass.
    in.step = random::step_word(in.q.device()).clone();
    params.key = random::next(RandomStream::dropout);
  }
  if (grad_enabled() && in.mask.defined() && in.mask.requires_grad()) {
    return Composition(in, params).forward();
  }
  return fused(in, params);
}

}  // namespace

Tensor scaled_dot_product_attention(const Tensor& q, const Tensor& k, const Tensor& v,
                                    const AttentionOptions& options) {
  const FunctionScope scope(separate_name);
  check::rank(separate_name, {"q", q}, 4, "(N, T, H, D)");
  check::alike(separate_name, {"q", q}, {"k", k});
  check::alike(separate_name, {"q", q}, {"v", v});
  check::rank(separate_name, {"k", k}, 4, "(N, S, H, D)");
  check::shape(separate_name, {"k", k}, q.shape().with(1, k.size(1)));
  check::shape(separate_name, {"v", v}, k.shape());
  return attend({.q = q, .k = k, .v = v}, options);
}

Tensor scaled_dot_product_attention_packed(const Tensor& qkv, const AttentionOptions& options) {
  const FunctionScope scope(packed_name);
  if (qkv.rank() != 5 || qkv.size(2) != 3) {
    check::refuse_shape(packed_name, {"qkv", qkv}, "(N, T, 3, H, D)");
  }
  return attend({.q = qkv}, options);
}

}  // namespace adret
