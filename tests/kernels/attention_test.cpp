// Attention forward and backward against loops in f64, for random shapes and options.
#include <adret/core/kernels/kernel.h>
#include <adret/core/random.h>
#include <adret/core/tensor.h>
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <random>

#include "tests/support/close.h"
#include "tests/support/guarded.h"

namespace adret {
namespace {

using namespace test;
using Values = std::vector<double>;
constexpr double inf = std::numeric_limits<double>::infinity();

// -- a problem -----------------------------------------------------------------------------------

enum class MaskKind { none, boolean, added };

struct Problem {
  int64_t n = 1, t = 1, s = 1, h = 1, d = 1;
  bool packed = false;
  MaskKind mask = MaskKind::none;
  Shape mask_shape;
  Values mask_values;  // 0 and 1 for boolean
  std::vector<int64_t> lengths;
  double size = 1;  // of the elements of q and k
  kernels::AttentionParams params;
  uint32_t seed = 0;

  Shape q_shape() const { return packed ? Shape{n, t, 3, h, d} : Shape{n, t, h, d}; }
  Shape k_shape() const { return {n, s, h, d}; }
  Shape y_shape() const { return {n, t, h, d}; }
  size_t weight(int64_t sample, int64_t head, int64_t i, int64_t j) const {
    return size_t(((sample * h + head) * t + i) * s + j);
  }
  size_t row(int64_t sample, int64_t head, int64_t i) const {
    return size_t((sample * h + head) * t + i);
  }
  // In (N, L, H, D), or in the part of a packed tensor.
  size_t at(int part, int64_t length, int64_t sample, int64_t i, int64_t head, int64_t e) const {
    const int64_t token = sample * length + i;
    return size_t(packed ? ((token * 3 + part) * h + head) * d + e : (token * h + head) * d + e);
  }
  size_t y_at(int64_t sample, int64_t i, int64_t head, int64_t e) const {
    return size_t(((sample * t + i) * h + head) * d + e);
  }
  bool sees(int64_t sample, int64_t i, int64_t j) const {
    return !(params.causal && j > i) && (lengths.empty() || j < lengths[size_t(sample)]);
  }
  double mask_at(int64_t sample, int64_t head, int64_t i, int64_t j) const {
    if (mask == MaskKind::none) return 0;
    const auto place = [&](int dim, int64_t index) { return mask_shape[dim] == 1 ? 0 : index; };
    const double value = mask_values[size_t(
        ((place(0, sample) * mask_shape[1] + place(1, head)) * mask_shape[2] + place(2, i)) * s +
        j)];
    if (mask == MaskKind::boolean) return value != 0 ? 0 : -inf;
    return value > -inf ? std::max(value, kernels::lowest_mask) : value;
  }
  double kept(uint64_t element) const {
    if (params.dropout == 0) return 1;
    const uint32_t word =
        philox(philox_counter(params.key, element / 4, 5), philox_key(params.key))[element % 4];
    return double(word) < params.dropout * 0x1p32 ? 0 : 1 / (1 - params.dropout);
  }
  std::string text() const {
    return fmt::format("seed {}: N {} T {} S {} H {} D {}{} mask {} {} lengths {} size {} {}", seed,
                       n, t, s, h, d, packed ? " packed" : "", int(mask), to_string(mask_shape),
                       lengths.size(), size, to_string(params));
  }
};

// Values as the kernel gets them: exact in f32, and rounded to T.
template <class T>
Values rounded(Values values) {
  for (double& v : values) v = double(T(v));
  return values;
}

struct Operands {
  Values q, k, v, dy;
};

template <class T>
Operands operands_of(const Problem& p) {
  Operands in;
  const auto draw = [&](const Shape& shape, uint32_t offset, double size) {
    Values values = random_values(shape.numel(), 4 * p.seed + offset);
    for (double& v : values) v *= size;
    return rounded<T>(values);
  };
  in.q = draw(p.q_shape(), 0, p.size);
  if (!p.packed) {
    in.k = draw(p.k_shape(), 1, p.size);
    in.v = draw(p.k_shape(), 2, 1);
  }
  in.dy = draw(p.y_shape(), 3, 1);
  return in;
}

// -- the definition ------------------------------------------------------------------------------

struct Expected {
  Values y, log_sum_exp, dq, dk, dv;
};

class Reference {
 public:
  Reference(const Problem& p, const Operands& in) : p(p), in(in) { make_scores(); }

  Expected forward() {
    Expected e;
    e.y.assign(size_t(p.y_shape().numel()), 0);
    e.log_sum_exp.assign(size_t(p.n * p.h * p.t), -inf);
    each_row([&](int64_t n, int64_t h, int64_t i) {
      double largest = -inf, sum = 0;
      for (int64_t j = 0; j < p.s; ++j) largest = std::max(largest, scores[p.weight(n, h, i, j)]);
      if (largest == -inf) return;
      for (int64_t j = 0; j < p.s; ++j) sum += std::exp(scores[p.weight(n, h, i, j)] - largest);
      e.log_sum_exp[p.row(n, h, i)] = largest + std::log(sum);
      largest_score = std::max(largest_score, std::abs(largest));
      for (int64_t j = 0; j < p.s; ++j) {
        const size_t w = p.weight(n, h, i, j);
        const double weight = std::exp(scores[w] - largest) / sum * p.kept(w);
        for (int64_t d = 0; d < p.d; ++d) e.y[p.y_at(n, i, h, d)] += weight * value(n, j, h, d);
      }
    });
    return e;
  }

  // With y and log_sum_exp as the kernel gets them.
  Expected backward(const Values& y, const Values& log_sum_exp) {
    Expected e;
    e.dq.assign(in.q.size(), 0);
    e.dk.assign(in.k.size(), 0);
    e.dv.assign(in.v.size(), 0);
    Values& dk = p.packed ? e.dq : e.dk;
    Values& dv = p.packed ? e.dq : e.dv;
    each_row([&](int64_t n, int64_t h, int64_t i) {
      const double log_sum = log_sum_exp[p.row(n, h, i)];
      if (log_sum == -inf) return;
      double mean = 0;
      for (int64_t d = 0; d < p.d; ++d) mean += in.dy[p.y_at(n, i, h, d)] * y[p.y_at(n, i, h, d)];
      for (int64_t j = 0; j < p.s; ++j) {
        const size_t w = p.weight(n, h, i, j);
        const double weight = std::exp(scores[w] - log_sum), kept = p.kept(w);
        if (weight == 0) continue;
        double dweight = 0;
        for (int64_t d = 0; d < p.d; ++d) {
          dweight += in.dy[p.y_at(n, i, h, d)] * value(n, j, h, d);
        }
        const double dscore = p.params.scale * weight * (dweight * kept - mean);
        largest_dweight = std::max(largest_dweight, std::abs(dweight * kept) + std::abs(mean));
        for (int64_t d = 0; d < p.d; ++d) {
          e.dq[p.at(0, p.t, n, i, h, d)] += dscore * key(n, j, h, d);
          dk[p.at(1, p.s, n, j, h, d)] += dscore * in.q[p.at(0, p.t, n, i, h, d)];
          dv[p.at(2, p.s, n, j, h, d)] += weight * kept * in.dy[p.y_at(n, i, h, d)];
        }
      }
    });
    return e;
  }

  double largest_score = 0, largest_dweight = 0;

 private:
  template <class F>
  void each_row(F f) {
    for (int64_t n = 0; n < p.n; ++n) {
      for (int64_t h = 0; h < p.h; ++h) {
        for (int64_t i = 0; i < p.t; ++i) f(n, h, i);
      }
    }
  }
  double key(int64_t n, int64_t j, int64_t h, int64_t d) const {
    return (p.packed ? in.q : in.k)[p.at(1, p.s, n, j, h, d)];
  }
  double value(int64_t n, int64_t j, int64_t h, int64_t d) const {
    return (p.packed ? in.q : in.v)[p.at(2, p.s, n, j, h, d)];
  }
  void make_scores() {
    scores.assign(size_t(p.n * p.h * p.t * p.s), -inf);
    each_row([&](int64_t n, int64_t h, int64_t i) {
      for (int64_t j = 0; j < p.s; ++j) {
        if (!p.sees(n, i, j)) continue;
        double sum = 0;
        for (int64_t d = 0; d < p.d; ++d) sum += in.q[p.at(0, p.t, n, i, h, d)] * key(n, j, h, d);
        const double product = p.params.scale * sum, added = p.mask_at(n, h, i, j);
        scores[p.weight(n, h, i, j)] = product + added;
        if (added > -1e3) largest_score = std::max(largest_score, std::abs(product));
      }
    });
  }

  const Problem& p;
  const Operands& in;
  Values scores;
};

// -- the kernels ---------------------------------------------------------------------------------

template <class T>
using Wide = std::conditional_t<std::is_same_v<T, double>, double, float>;

template <class T>
class Attention {
 public:
  Attention(const Problem& p, const Operands& in)
      : p_(p), q_(p.q_shape(), in.q), y_(p.y_shape()), dy_(p.y_shape(), in.dy), dq_(p.q_shape()) {
    if (!p.packed) {
      for (const Values* values : {&in.k, &in.v}) inputs_.emplace_back(p.k_shape(), *values);
      for (int i = 0; i < 2; ++i) outputs_.emplace_back(p.k_shape());
      k_ = inputs_[0];
      v_ = inputs_[1];
      dk_ = outputs_[0];
      dv_ = outputs_[1];
    }
    const Shape& shape = p.mask_shape;
    if (p.mask == MaskKind::added) mask_ = guarded_mask_.emplace(shape, p.mask_values);
    if (p.mask == MaskKind::boolean) {
      seen_ = Tensor::empty(shape, {.dtype = DType::boolean});
      std::ranges::transform(p.mask_values, seen_.span<bool>().begin(),
                             [](double v) { return v != 0; });
      mask_ = seen_;
    }
    if (!p.lengths.empty()) {
      lengths_ = Tensor::from<int64_t>(p.lengths, {p.n});
      if (p.seed % 2) lengths_ = lengths_.to(DType::i32);
    }
    if (p.params.dropout > 0) step_ = Tensor::from<int64_t>({5}, {});
  }

  void forward() {
    run(kernels::AttentionForward{.q = q_,
                                  .k = k_,
                                  .v = v_,
                                  .mask = mask_,
                                  .lengths = lengths_,
                                  .step = step_,
                                  .y = y_,
                                  .log_sum_exp = log_sum_exp_,
                                  .attention = p_.params});
  }
  void backward() {
    run(kernels::AttentionBackward{.q = q_,
                                   .k = k_,
                                   .v = v_,
                                   .mask = mask_,
                                   .lengths = lengths_,
                                   .step = step_,
                                   .y = y_,
                                   .log_sum_exp = log_sum_exp_,
                                   .dy = dy_,
                                   .dq = dq_,
                                   .dk = dk_,
                                   .dv = dv_,
                                   .attention = p_.params});
  }
  Values y() const { return y_.values(); }
  Values log_sum_exp() const { return log_sum_exp_.values(); }
  Values dq() const { return dq_.values(); }
  Values dk() const { return p_.packed ? Values() : outputs_[0].values(); }
  Values dv() const { return p_.packed ? Values() : outputs_[1].values(); }
  bool guards_intact() const {
    return y_.guards_intact() && log_sum_exp_.guards_intact() && dq_.guards_intact() &&
           std::ranges::all_of(outputs_, [](const auto& x) { return x.guards_intact(); });
  }

 private:
  const Problem& p_;
  Guarded<T> q_, y_, dy_, dq_;
  Guarded<Wide<T>> log_sum_exp_{Shape{p_.n, p_.h, p_.t}};
  std::vector<Guarded<T>> inputs_, outputs_;
  std::optional<Guarded<T>> guarded_mask_;
  Tensor seen_, lengths_, step_;
  TensorView k_, v_, mask_, dk_, dv_;
};

// Errors are those of a score, which its weight multiplies, and of the rounding of weights.
template <class T>
void expect_matches(Problem p, double unit) {
  if (p.mask == MaskKind::added) p.mask_values = rounded<T>(p.mask_values);
  const Operands in = operands_of<T>(p);
  Reference reference(p, in);
  const Expected forward = reference.forward();
  Attention<T> attention(p, in);
  attention.forward();
  const double of_score = sizeof(T) == 2 ? 4e-6 : unit;
  const double relative = unit + of_score * reference.largest_score;
  expect_close(attention.y(), forward.y, {unit, 2 * relative}, p.text() + " y");
  expect_close(attention.log_sum_exp(), forward.log_sum_exp,
               {of_score, of_score * (2 + reference.largest_score)}, p.text() + " log_sum_exp");
  const Expected backward = reference.backward(attention.y(), attention.log_sum_exp());
  attention.backward();
  const double rows = std::sqrt(double(std::max<int64_t>(p.t, 1)));
  const double dscore = 2 * std::abs(p.params.scale) * p.size * reference.largest_dweight;
  const double kept = 1 / (1 - p.params.dropout);
  const double of_dk = relative * dscore * rows, of_dv = 2 * relative * rows * kept;
  expect_close(attention.dq(), backward.dq,
               {unit, p.packed ? std::max(of_dk, of_dv) : relative * dscore}, p.text() + " dq");
  expect_close(attention.dk(), backward.dk, {unit, of_dk}, p.text() + " dk");
  expect_close(attention.dv(), backward.dv, {unit, of_dv}, p.text() + " dv");
  EXPECT_TRUE(attention.guards_intact()) << p.text();
}

void expect_matches(const Problem& p) {
  expect_matches<float>(p, 1e-5);
  expect_matches<double>(p, 1e-13);
  expect_matches<bfloat16>(p, 0x1p-7);
  expect_matches<float16>(p, 0x1p-10);
}

// -- cases ---------------------------------------------------------------------------------------

Problem random_problem(uint32_t seed) {
  std::mt19937 generator(seed);
  const auto below = [&](uint32_t n) { return int64_t(generator() % n); };
  constexpr int64_t widths[] = {1, 3, 8, 16, 24, 32, 40, 64, 64, 72, 80, 96, 128, 136, 192, 256};
  constexpr int64_t sizes[] = {1, 2, 7, 16, 31, 63, 64, 65, 100, 127, 128, 129, 150};
  Problem p{.seed = seed};
  p.n = 1 + below(2);
  p.h = 1 + below(2);
  p.d = widths[below(16)];
  p.t = sizes[below(13)];
  p.packed = below(2);
  p.params.causal = below(2);
  p.s = p.packed || p.params.causal ? p.t : sizes[below(13)];
  p.params.scale = below(2) ? 1 / std::sqrt(double(p.d)) : 0.25 * double(1 + below(3));
  if (below(3) == 0) p.size = 4;
  if (below(4) == 0) {
    p.params.dropout = 0.25;
    p.params.key = {.seed = seed, .stream = RandomStream::dropout, .call = 2};
  }
  if (below(3) == 0) {
    for (int64_t i = 0; i < p.n; ++i) p.lengths.push_back(below(uint32_t(p.s + 2)));
  }
  p.mask = MaskKind(below(3));
  if (p.mask == MaskKind::none) return p;
  const auto some = [&](int64_t size) { return below(2) ? size : 1; };
  p.mask_shape = {some(p.n), some(p.h), some(p.t), p.s};
  for (int64_t i = 0; i < p.mask_shape.numel(); ++i) {
    const bool row_is_hidden = i / p.s % 5 == 4;
    const int64_t draw = below(8);
    const bool seen = draw < 5 && !row_is_hidden;
    if (p.mask == MaskKind::boolean) {
      p.mask_values.push_back(seen);
    } else {
      p.mask_values.push_back(seen                          ? double(draw) / 4 - 0.5
                              : draw == 7 && !row_is_hidden ? -1e4
                                                            : -inf);
    }
  }
  return p;
}

TEST(Attention, MatchesTheDefinitionForRandomProblems) {
  for (uint32_t seed = 1; seed <= 100; ++seed) {
    expect_matches(random_problem(seed));
    if (HasFatalFailure()) return;
  }
}

// Long enough for several tiles of both kinds, with the head widths of models.
TEST(Attention, MatchesTheDefinitionForHeadsOfModels) {
  for (const int64_t width : {32, 64, 96, 128}) {
    for (const bool causal : {false, true}) {
      Problem p{.n = 2, .t = 197, .s = 197, .h = 1, .d = width, .packed = true, .seed = 7};
      p.params = {.scale = 1 / std::sqrt(double(width)), .causal = causal};
      expect_matches(p);
      p.packed = false;
      if (!causal) p.s = 150;
      p.lengths = {p.s, 130};
      expect_matches(p);
    }
  }
}

// Heads that a block of a kernel has whole, with as many tokens as it can have and one more.
TEST(Attention, MatchesTheDefinitionForShortHeads) {
  for (const int64_t tokens : {16, 80, 81, 128, 129, 208, 209}) {
    for (const bool causal : {false, true}) {
      Problem p{.n = 1, .t = tokens, .s = tokens, .h = 2, .d = 64, .packed = true, .seed = 11};
      p.params = {.scale = 0.125, .causal = causal};
      expect_matches(p);
      p.packed = false;
      p.d = 40;
      if (!causal) p.s = tokens / 2;
      p.lengths = {tokens / 3};
      expect_matches(p);
    }
  }
}

TEST(Attention, TakesWhatIsEmpty) {
  for (const auto& [n, t, s, h] :
       {std::array<int64_t, 4>{0, 3, 3, 2}, {2, 0, 4, 1}, {2, 3, 0, 2}, {1, 2, 2, 0}}) {
    const Problem p{.n = n, .t = t, .s = s, .h = h, .d = 8, .seed = 3};
    expect_matches(p);
  }
}

TEST(Attention, TakesScoresOfAnySize) {
  Problem p{.n = 1, .t = 70, .s = 90, .h = 1, .d = 16, .size = 1024, .seed = 4};
  const Operands in = operands_of<float>(p);
  const Values expected = Reference(p, in).forward().y;
  Attention<float> attention(p, in);
  attention.forward();
  // The largest score takes all: 2^20 apart, weights are 0 and 1.
  expect_close(attention.y(), expected, {.relative = 1e-3, .absolute = 1e-3}, p.text());
}

TEST(Attention, KeepsNanInItsOwnRow) {
  Problem p{.n = 1, .t = 3, .s = 4, .h = 1, .d = 2};
  Operands in = operands_of<float>(p);
  in.q[2] = NAN;
  Attention<float> attention(p, in);
  attention.forward();
  const Values y = attention.y();
  for (size_t i = 0; i < 6; ++i) EXPECT_EQ(std::isnan(y[i]), i / 2 == 1) << i;
}

TEST(Attention, GivesTheSameBitsForAnyNumberOfThreads) {
  Problem p{.n = 2, .t = 200, .s = 200, .h = 3, .d = 64, .packed = true, .seed = 9};
  p.params = {.scale = 0.125, .causal = true};
  const Operands in = operands_of<float>(p);
  expect_same_for_any_threads([&] {
    Attention<float> attention(p, in);
    attention.forward();
    attention.backward();
    return std::vector{attention.y(), attention.log_sum_exp(), attention.dq()};
  });
}

}  // namespace
}  // namespace adret
