// Every kernel call of these tests on the mirrored device against the CPU, in every dtype.
#include <adret/core/decorators/relocate.h>
#include <adret/core/kernels/mix_images.h>
#include <adret/core/kernels/rewrite.h>
#include <adret/core/kernels/scan.h>
#include <adret/core/tensor.h>
#include <fmt/core.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <string>
#include <string_view>
#include <tuple>
#include <unordered_set>

#include "forward_results.h"
#include "tests/support/mirror.h"

// Note [Parity]
// Under ADRET_TEST_DEVICE=cuda or shadow each different call of the tests in this folder is
// compared with the CPU's result, and each f32 call is repeated
//   in bf16 and f16, in f16 and f32 one element off the alignment of vectors, and in f64.
// The reference is the CPU's kernel in f64 on the operands after their rounding. Of an element
// with the expected value e,
//   |actual - e| <= (u_out + 16 u) |e| + 4 u sqrt(length) (largest |e| + term) + 2 subnormal
// (64 u for GELU) where u_out is the machine epsilon of the output's dtype (it is rounded once), u
// that of the arithmetic (f64 for f64, else f32), `length` the number of terms of a sum, `term` a
// bound of one of them; a sum of n roundings wanders by sqrt(n) of them. TF32, if asked for, adds
// the rounding of a term's factors, 4 * 2^-11 sqrt(length) term. The second part is left out where
// nothing cancels, and kernels that only move, choose or draw elements are compared
// exactly. u_out times the largest |e| comes on top in 16 bits where a result may be rounded before
// its last step: a bias, an addend or GELU behind a product; and times a term where attention's
// weights are rounded before their products, or a recurrent layer's state before the next step.

namespace adret::test {
namespace {

struct Variant {
  DType dtype;
  int64_t offset;  // elements off a multiple of 256 bytes
};
constexpr Variant variants[] = {
    {DType::bf16, 0}, {DType::f16, 0}, {DType::f16, 1}, {DType::f32, 1}, {DType::f64, 1}};

// -- what a kernel promises ----------------------------------------------------------------------

template <class K, class... List>
constexpr bool is_one_of = (std::is_same_v<K, List> || ...);

template <class K>
constexpr bool is_batch_norm = is_one_of<K, kernels::BatchNormForward, kernels::BatchNormInference,
                                         kernels::BatchNormBackward>;
template <class K>
constexpr bool is_group_norm = is_one_of<K, kernels::GroupNormForward, kernels::GroupNormBackward>;
template <class K>
constexpr bool is_loss = is_one_of<K, kernels::CrossEntropyForward, kernels::CrossEntropyBackward,
                                   kernels::PairLossForward, kernels::PairLossBackward>;
template <class K>
constexpr bool is_of_arenas =
    is_one_of<K, kernels::SgdStep, kernels::AdamStep, kernels::GradientNorm, kernels::ClipByNorm,
              kernels::ClipByValue, kernels::UpdateLossScale, kernels::AverageWeights,
              kernels::RmsStep, kernels::LionStep, kernels::LambStep>;
template <class K>
constexpr bool is_recurrent = is_one_of<K, kernels::RecurrentForward, kernels::RecurrentBackward>;

// Whether the f32 operand of this name stays f32 when the others become bf16 or f16.
bool stays_f32(const Kernel& call, std::string_view operand) {
  return std::visit(
      [&]<class K>(const K& k) {
        const auto is = [&](auto... names) { return ((operand == names) || ...); };
        if constexpr (is_batch_norm<K>)
          return !is("x", "y", "dx", "dy", "dy_added", "residual", "dresidual");
        if constexpr (is_group_norm<K>) return !is("x", "added", "sum", "y", "dy", "dsum", "dx");
        if constexpr (is_loss<K>) return !is("logits", "dlogits", "x", "target", "dx", "dtarget");
        if constexpr (is_one_of<K, kernels::Reduce, kernels::ReduceBackward>)
          return is_statistic(k.op) && !is("x", "dx");
        if constexpr (std::is_same_v<K, kernels::Custom>) return is("targets");  // of mixed images
        if (is_one_of<K, kernels::MuonDirection, kernels::MuonStep>)
          return is("momentum", "master");
        return is("log_sum_exp");  // of attention
      },
      call.any());
}

// Whether the call can be repeated in other dtypes: those of arenas say theirs in their segments,
// and the tests of casts and of recurrent layers go through all of them.
bool has_variants(const Kernel& call) {
  return std::visit(
      []<class K>(const K&) {
        return !is_of_arenas<K> && !is_recurrent<K> && !std::is_same_v<K, kernels::Cast>;
      },
      call.any());
}

struct Bound {
  bool exact = false;
  bool cancels = false;
  double length = 1, term = 0, roundings = 16;  // of an element's own size
  bool rounds_between = false;  // a 16-bit result may be rounded before its last step too
  bool knows_f32 = false;       // an operand was computed in f32, whatever its dtype
  MathMode math = MathMode::exact;
  double rounded_terms = 0;  // a bound of terms that may be rounded to 16 bits before their sum
};

double largest(const TensorView& view) {
  double result = 0;
  if (!view.defined() || view.dtype != DType::f64) return result;
  for (int64_t i = 0; i < view.numel(); ++i) {
    const double v = std::abs(view.as<double>()[i]);
    if (std::isfinite(v)) result = std::max(result, v);
  }
  return result;
}

Bound sums(double length, double term, MathMode math = MathMode::exact) {
  return {.cancels = true, .length = length, .term = term, .math = math};
}
Bound in_two_steps(Bound bound, bool two) {
  bound.rounds_between = two;
  return bound;
}

Bound bound(const kernels::Unary& k) {
  switch (k.op) {
    case kernels::UnaryOp::abs:
    case kernels::UnaryOp::sign:
    case kernels::UnaryOp::floor:
    case kernels::UnaryOp::ceil:
    case kernels::UnaryOp::round:
    case kernels::UnaryOp::trunc:
    case kernels::UnaryOp::relu:
    case kernels::UnaryOp::relu6: return {.exact = true};
    case kernels::UnaryOp::affine: return sums(1, std::abs(k.alpha) * largest(k.x));
    case kernels::UnaryOp::hardsigmoid:
    case kernels::UnaryOp::hardswish: return sums(1, largest(k.x));
    // The error function's tail magnifies its argument's rounding by x^2, 25-fold at -5; an
    // exponential's tail does so by its argument.
    case kernels::UnaryOp::gelu:
    case kernels::UnaryOp::gelu_tanh:
    case kernels::UnaryOp::softplus: return {.roundings = 64};
    default: return {};
  }
}
Bound bound(const kernels::UnaryBackward& k) {
  if (k.op == kernels::UnaryOp::relu || k.op == kernels::UnaryOp::relu6) return {.exact = true};
  return sums(1, largest(k.dy) * (1 + largest(k.saved)));
}
Bound bound(const kernels::Binary& k) {
  return {.exact = kernels::is_comparison(k.op) || k.op == kernels::BinaryOp::maximum ||
                   k.op == kernels::BinaryOp::minimum};
}
Bound bound(const kernels::Reduce& k) {
  using enum kernels::ReduceOp;
  if (k.op == max || k.op == min) return {.exact = true};
  const double length = double(k.x.numel()) / std::max(1.0, double(k.y.numel()));
  if (k.op == prod) return {.roundings = 16 + length};
  const double x = largest(k.x), divisor = k.op == mean ? std::max(1.0, length) : 1;
  return sums(length, is_statistic(k.op) ? (1 + x) * (1 + x) : x / divisor);
}
Bound bound(const kernels::ReduceBackward& k) {
  return sums(8, largest(k.dy) * (1 + largest(k.x)));
}
Bound bound(const kernels::Custom& k) {
  if (k.kernel->type() == typeid(kernels::MixImages)) return sums(1, 2 * largest(k.in[0]));
  if (k.kernel->type() != typeid(kernels::Scan)) return {.exact = true};
  const auto& scan = static_cast<const CustomKernelOf<kernels::Scan>&>(*k.kernel).get();
  const double length = double(k.out[0].shape[scan.dim]);  // a rounding each step, of f64
  return {.cancels = true, .length = length * length, .roundings = 16 + length};
}
Bound bound(const kernels::Matmul& k) {
  return in_two_steps(
      sums(double(k.a.shape[k.transpose_a ? -2 : -1]), largest(k.a) * largest(k.b), k.math),
      k.accumulate);
}
Bound bound(const kernels::LinearForward& k) {
  return in_two_steps(sums(double(k.x.shape[1]), largest(k.x) * largest(k.weight), k.math),
                      k.bias.defined() || is_gelu(k.activation));
}
Bound bound(const kernels::LinearBackwardInput& k) {
  return sums(double(k.dy.shape[1]), largest(k.dy) * largest(k.weight), k.math);
}
Bound bound(const kernels::LinearBackwardWeight& k) {
  return sums(double(k.x.shape[0]), std::max(1.0, largest(k.x)) * largest(k.dy), k.math);
}
Bound bound(const kernels::Conv2dForward& k) {
  return in_two_steps(
      sums(double(k.weight.numel()) / double(k.weight.shape[0]), largest(k.x) * largest(k.weight)),
      k.bias.defined());
}
Bound bound(const kernels::Conv2dBackwardInput& k) {
  const Shape& w = k.weight.shape;
  return sums(double(w[0] * w[1] * w[2]) / double(k.conv.groups),
              largest(k.dy) * largest(k.weight));
}
double rows(const TensorView& x) { return double(x.numel()) / std::max(1.0, double(x.shape[-1])); }
Bound bound(const kernels::Conv2dBackwardWeight& k) {
  return sums(rows(k.dy), std::max(1.0, largest(k.x)) * largest(k.dy));
}
double area(const kernels::Pool2dParams& pool) { return double(pool.kernel.area()); }
Bound bound(const kernels::MaxPool2dBackward& k) { return sums(area(k.pool), largest(k.dy)); }
Bound bound(const kernels::AvgPool2dForward& k) { return sums(area(k.pool), largest(k.x)); }
Bound bound(const kernels::AvgPool2dBackward& k) { return sums(area(k.pool), largest(k.dy)); }
// Of a sum, where sums share elements with their neighbours in two directions.
double terms(const TensorView& from, const TensorView& to) {
  return 4 * std::max(1.0, double(from.numel()) / std::max(1.0, double(to.numel())));
}
Bound bound(const kernels::ResampleForward& k) {
  if (k.resample.mode == kernels::Resampling::nearest) return {.exact = true};
  return sums(terms(k.x, k.y), largest(k.x));
}
Bound bound(const kernels::ResampleBackward& k) { return sums(terms(k.dy, k.dx), largest(k.dy)); }
double scale_of(const TensorView& weight) { return weight.defined() ? largest(weight) : 1; }
Bound bound(const kernels::BatchNormForward& k) {
  return sums(rows(k.x), largest(k.x) * largest(k.rstd) * scale_of(k.weight));
}
Bound bound(const kernels::BatchNormInference& k) {
  return sums(1, (largest(k.x) + largest(k.mean)) / std::sqrt(k.epsilon) * scale_of(k.weight));
}
Bound bound(const kernels::BatchNormBackward& k) {
  return sums(rows(k.x), largest(k.dy) * std::max(1.0, largest(k.rstd)) * scale_of(k.weight) *
                             (1 + largest(k.x) + largest(k.mean)));
}
double group_size(const TensorView& x, int64_t groups) {
  return double(x.shape[1] * x.shape[2]) / double(groups);
}
Bound bound(const kernels::GroupNormForward& k) {
  return sums(group_size(k.x, k.groups),
              (largest(k.x) + largest(k.added)) * largest(k.rstd) * scale_of(k.weight));
}
Bound bound(const kernels::GroupNormBackward& k) {
  const double scale = std::max(1.0, scale_of(k.weight));
  const double rstd = std::max(1.0, largest(k.rstd));
  return sums(std::max(rows(k.x), group_size(k.x, k.groups)),
              largest(k.dy) * rstd * scale * (1 + (largest(k.x) + largest(k.mean)) * rstd) +
                  largest(k.dsum));
}
Bound bound(const kernels::SoftmaxForward& k) {
  return sums(double(k.x.shape[k.dim]), k.log ? largest(k.x) : 0);
}
Bound bound(const kernels::SoftmaxBackward& k) {
  return sums(double(k.y.shape[k.dim]), largest(k.dy));
}
Bound bound(const kernels::CrossEntropyForward& k) {
  return sums(double(k.logits.numel()), largest(k.logits));
}
Bound bound(const kernels::CrossEntropyBackward& k) {
  Bound result = sums(double(k.dlogits.shape[1]), largest(k.dloss));
  result.knows_f32 = true;  // log_sum_exp
  return result;
}
// Weights have the error of a score, relative to them; they and their gradients go into products
// rounded.
template <class K>
double largest_score(const K& k) {
  const double width = double(k.q.shape[-1]);
  return std::sqrt(width) * std::abs(k.attention.scale) * largest(k.q) *
             largest(k.packed() ? k.q : k.k) +
         largest(k.mask);
}
double of_kept(const kernels::AttentionParams& params) {
  return 1 / std::max(1e-3, 1 - params.dropout);
}
Bound bound(const kernels::AttentionForward& k) {
  const double value = largest(k.packed() ? k.q : k.v) * of_kept(k.attention);
  Bound result = sums(double(k.q.shape[-1]), (1 + largest_score(k)) * (1 + value));
  result.rounded_terms = value;
  return result;
}
Bound bound(const kernels::AttentionBackward& k) {
  const TensorView &key = k.packed() ? k.q : k.k, &value = k.packed() ? k.q : k.v;
  const double width = double(k.q.shape[-1]), rows = std::sqrt(double(k.q.shape[1]));
  const double dweight = 4 * std::sqrt(width) * largest(k.dy) * largest(value);
  const double of_scores =
      std::abs(k.attention.scale) * dweight * std::max(largest(key), largest(k.q) * rows);
  const double term = of_kept(k.attention) * std::max(of_scores, largest(k.dy) * rows);
  Bound result = sums(width, (1 + largest_score(k)) * term);
  result.rounded_terms = term;
  return result;
}
Bound bound(const kernels::RemapBackward& k) { return sums(terms(k.dy, k.dx), largest(k.dy)); }
Bound bound(const kernels::Scatter& k) {
  if (k.mode == kernels::ScatterMode::assign) return {.exact = true};
  return sums(double(k.x.shape[k.dim]), largest(k.x));
}
Bound bound(const kernels::GradientNorm& k) { return sums(double(k.grads.numel()), 0); }
Bound bound(const kernels::MuonDirection& k) {
  return sums(double(k.grad.numel()), largest(k.grad));
}
Bound bound(const kernels::MuonStep& k) {
  return sums(double(k.value.numel()), largest(k.value) + largest(k.update));
}
template <class K>
Bound bound(const K& k) {
  if constexpr (is_recurrent<K>)
    return {.cancels = true, .length = double(k.y.numel()), .term = 4, .rounded_terms = 16};
  if constexpr (is_one_of<K, kernels::PairLossForward, kernels::PairLossBackward>) {
    const double t = largest(k.target), x = largest(k.x);  // some losses have exp(t)
    return sums(double(k.x.numel()), (1 + x) * (1 + x + t) * std::exp(t));
  }
  if constexpr (is_one_of<K, kernels::DropoutForward, kernels::DropoutBackward,
                          kernels::ClipByNorm>)
    return {};
  if constexpr (is_of_arenas<K>) return sums(1, 0);
  return {.exact = true};
}

// -- copies of a call ----------------------------------------------------------------------------

// A call on copies of its operands between guards, in other dtypes.
class CopiedCall {
 public:
  // `dtype_of_copy(view)` is what the copy holds.
  template <class F>
  CopiedCall(const Kernel& call, F dtype_of_copy, int64_t offset = 0)
      : rewritten_(call, [&](const TensorView& view) -> TensorView {
          const auto [place, is_new] = copies_.try_emplace({view.data, view.numel(), view.dtype});
          if (is_new) place->second = copy(view, dtype_of_copy(view), offset);
          place->second.view.shape = view.shape;  // of empty ones several may be at one place
          return place->second.view;
        }) {}
  const Kernel& call() const { return rewritten_.call(); }

  bool guards_intact() const {
    return std::ranges::all_of(copies_, [](const auto& entry) {
      const auto& [whole, tensor, view] = entry.second;
      const auto bytes = whole.template span<uint8_t>();
      const size_t begin = tensor.byte_offset(), end = begin + view.bytes();
      const auto intact = [](uint8_t byte) { return byte == 0xFF; };
      return std::ranges::all_of(bytes.first(begin), intact) &&
             std::ranges::all_of(bytes.subspan(end), intact);
    });
  }

 private:
  static constexpr int64_t guard = 256;
  struct Copy {
    Tensor whole, tensor;
    TensorView view;
  };
  static Copy copy(const TensorView& view, DType dtype, int64_t offset) {
    const int64_t size = int64_t(size_of(dtype));
    Copy c;
    c.whole = Tensor::empty({2 * guard + (view.numel() + offset) * size}, {.dtype = DType::u8});
    std::ranges::fill(c.whole.span<uint8_t>(), 0xFF);  // NaN in every floating dtype
    c.tensor = c.whole.segment(view.shape, size_t(guard + offset * size), dtype);
    c.view = c.tensor;
    if (view.numel() > 0) on_cpu(kernels::Cast{.x = view, .y = c.view});
    return c;
  }

  std::map<std::tuple<void*, int64_t, DType>, Copy> copies_;
  RewrittenCall rewritten_;
};

std::vector<double> values(const TensorView& view, DType rounded_to) {
  Tensor rounded = Tensor::empty(view.shape, {.dtype = rounded_to}),
         wide = Tensor::empty(view.shape, {.dtype = DType::f64});
  on_cpu(kernels::Cast{.x = view, .y = rounded});
  on_cpu(kernels::Cast{.x = rounded, .y = wide});
  return wide.to_vector<double>();
}

struct Precision {
  double epsilon, largest, subnormal;
};
Precision precision(DType dtype) {
  switch (dtype) {
    case DType::bf16: return {0x1p-7, 0x1.FEp127, 0x1p-133};
    case DType::f16: return {0x1p-10, 65504, 0x1p-24};
    case DType::f64: return {0x1p-52, std::numeric_limits<double>::max(), 0x1p-1074};
    default: return {0x1p-23, std::numeric_limits<float>::max(), 0x1p-149};
  }
}

// Nothing, or the first element of an output that differs too much.
std::string difference(const OutputPart& actual, const Tensor& expected, const Bound& bound) {
  const DType dtype = actual.tensor.dtype();
  const Precision out = precision(dtype);
  const double u = dtype == DType::f64 && !bound.knows_f32 ? 0x1p-52 : 0x1p-23;
  const bool exact = bound.exact || !is_floating(dtype);
  const std::vector<double> a = values(actual.tensor, dtype);
  const std::vector<double> e = values(expected, exact ? dtype : DType::f64);
  double scale = 0;
  for (double v : e) {
    if (std::isfinite(v)) scale = std::max(scale, std::abs(v));
  }
  const double roundings = 4 * std::sqrt(std::max(1.0, bound.length));  // of a sum
  const bool tf32 = bound.math == MathMode::tf32 && dtype == DType::f32;
  const double wander = (bound.cancels ? roundings * u * (scale + bound.term) : 0) +
                        (tf32 ? roundings * 0x1p-11 * bound.term : 0) +
                        (bound.rounds_between && size_of(dtype) == 2 ? out.epsilon * scale : 0) +
                        (size_of(dtype) == 2 ? out.epsilon * bound.rounded_terms : 0);
  for (size_t i = 0; i < a.size(); ++i) {
    if (a[i] == e[i] || (std::isnan(a[i]) && std::isnan(e[i]))) continue;
    const double tolerance =
        (out.epsilon + bound.roundings * u) * std::abs(e[i]) + wander + 2 * out.subnormal;
    const bool overflows = std::abs(e[i]) + tolerance >= out.largest;
    if (!exact && std::isinf(a[i]) && overflows && std::signbit(a[i]) == std::signbit(e[i])) {
      continue;
    }
    if (!exact && std::abs(a[i] - e[i]) <= tolerance) continue;
    return fmt::format("{}[{}] is {:.9g}, not {:.9g}{}", actual.name, i, a[i], e[i],
                       exact ? "" : fmt::format(" within {:.3g}", tolerance));
  }
  return {};
}

// -- the decorator -------------------------------------------------------------------------------

class Parity final : public Decorator {
 public:
  void run(const Kernel& call) override {
    if (!device_of(call).is_cpu() || is_of_tests(call) || !is_new(call)) return forward(call);
    // What is updated in place changes.
    const CopiedCall before(call, [](const TensorView& view) { return view.dtype; });
    forward(call);
    compare(call, before.call(), "");
    if (!has_variants(call)) return;
    for (const Variant& variant : variants) {
      if (!run_variant(before.call(), variant)) return;
    }
  }

 private:
  // Of equal calls on equal operands (for several numbers of threads) one is enough.
  bool is_new(const Kernel& call) {
    std::string key = to_string(call);
    for (const auto& [name, view] : inputs(call)) {
      if (!view.defined()) continue;
      const std::string_view bytes(static_cast<const char*>(view.data), view.bytes());
      key += fmt::format(" {}", std::hash<std::string_view>()(bytes));
    }
    return seen_.insert(key).second;
  }

  // Compares the outputs of `call`, which was run, with those of the same call on the CPU; `before`
  // has the operands as they were.
  void compare(const Kernel& call, const Kernel& before, const std::string& what) {
    // Random numbers of a dtype are those of the CPU in that dtype.
    const bool draws = std::holds_alternative<kernels::RandomUniform>(call.any()) ||
                       std::holds_alternative<kernels::RandomNormal>(call.any());
    const bool as_they_are = draws || !has_variants(call);
    const CopiedCall reference(before, [&](const TensorView& view) {
      return as_they_are || !is_floating(view.dtype) ? view.dtype : DType::f64;
    });
    on_cpu(reference.call());
    const Bound allowed =
        std::visit([](const auto& k) { return bound(k); }, reference.call().any());
    const std::vector<OutputPart> actual = output_parts(call),
                                  expected = output_parts(reference.call());
    for (size_t i = 0; i < actual.size(); ++i) {
      const std::string text = difference(actual[i], expected[i].tensor, allowed);
      if (!text.empty()) ADD_FAILURE() << to_string(call) << what << ": " << text;
    }
  }

  // False when the call is not of f32 operands.
  bool run_variant(const Kernel& before, const Variant& variant) {
    std::map<void*, bool> kept;
    bool any = false;
    for (const auto& operands : {inputs(before), outputs(before)}) {
      for (const auto& [name, view] : operands) {
        if (!view.defined()) continue;
        if (size_of(view.dtype) == 2) return false;  // it mixes dtypes as it is
        if (view.dtype != DType::f32) continue;
        kept[view.data] |= variant.dtype != DType::f64 && stays_f32(before, name);
        any = true;
      }
    }
    if (!any) return false;
    const auto dtype_of_copy = [&](const TensorView& view) {
      return view.dtype == DType::f32 && !kept.at(view.data) ? variant.dtype : view.dtype;
    };
    const char* const what = variant.offset ? " off the alignment" : "";
    const CopiedCall there(before, dtype_of_copy, variant.offset);
    renew_forward_results(there.call());
    const CopiedCall unchanged(there.call(), [](const TensorView& view) { return view.dtype; });
    try {
      forward(there.call());
    } catch (const std::exception& error) {
      ADD_FAILURE() << to_string(there.call()) << what << ": " << error.what();
      return true;
    }
    compare(there.call(), unchanged.call(), what);
    EXPECT_TRUE(there.guards_intact())
        << to_string(there.call()) << what << " wrote beyond an operand";
    return true;
  }

  std::unordered_set<std::string> seen_;
};

[[maybe_unused]] const bool added =
    (add_decorator_within_mirror([] { return std::make_unique<Parity>(); }), true);

}  // namespace
}  // namespace adret::test
