// Tensors of numbers.
#include <adret/autograd/ops/arithmetic.h>
#include <adret/autograd/ops/check.h>
#include <adret/autograd/ops/create.h>
#include <adret/autograd/ops/elementary.h>
#include <adret/core/holds.h>
#include <adret/core/kernels/kernel.h>
#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <span>

namespace adret {
namespace {

// Integers drop the fractions of what they are counted in.
void check_reaches(const char* function, double number, DType dtype) {
  check_holds(function, is_floating(dtype) ? number : std::trunc(number), dtype);
}

Tensor range(const char* function, int64_t count, kernels::Arange call,
             const TensorOptions& options) {
  const FunctionScope scope(function);
  if (options.dtype == DType::boolean) {
    check::refuse(function, "dtype is boolean, wanted one of numbers");
  }
  if (count > 0) {
    for (const double end : {call.first, call.last}) check_reaches(function, end, options.dtype);
  }
  Tensor y = Tensor::empty({count}, options);
  call.y = y;
  run(call);
  return y;
}

Tensor uniform(const Shape& shape, const TensorOptions& options, double low, double high) {
  Tensor y = Tensor::empty(shape, options);
  run(kernels::RandomUniform{.y = y,
                             .step = random::step_word(options.device),
                             .key = random::next(RandomStream::user),
                             .low = low,
                             .high = high});
  return y;
}

// Of f32 or f64, on the CPU; see Note [Indices outside].
void check_probabilities(const char* function, const Tensor& p) {
  if (!p.device().is_cpu()) return;
  const auto check = [&]<class T>(T) {
    const std::span<const T> values(static_cast<const T*>(p.data()), size_t(p.numel()));
    const auto wrong = std::ranges::find_if_not(values, [](T one) { return one >= 0 && one <= 1; });
    if (wrong == values.end()) return;
    check::refuse(function, fmt::format("p {} is {} at element {}, wanted probabilities in 0..1",
                                        to_string(p.shape()), *wrong, wrong - values.begin()));
  };
  p.dtype() == DType::f64 ? check(double()) : check(float());
}

void want_floating(const char* function, DType dtype) {
  if (is_floating(dtype)) return;
  check::refuse(function, fmt::format("dtype is {}, wanted a floating one", name(dtype)));
}

}  // namespace

Tensor arange(double start, double end, double step, const TensorOptions& options) {
  const double count = std::ceil((end - start) / step);
  if (step == 0 || !(std::abs(count) < 0x1p53)) {
    check::refuse("arange", fmt::format("{} to {} in steps of {} does not end", start, end, step));
  }
  const int64_t n = count > 0 ? int64_t(count) : 0;
  return range("arange", n, {.first = start, .step = step, .last = start + double(n - 1) * step},
               options);
}

Tensor linspace(double start, double end, int64_t count, const TensorOptions& options) {
  if (count <= 1) return range("linspace", count, {.first = start, .last = start}, options);
  if (!std::isfinite(end - start)) {
    check::refuse("linspace", fmt::format("the distance from {} to {} is not finite", start, end));
  }
  return range("linspace", count,
               {.first = start, .step = (end - start) / double(count - 1), .last = end}, options);
}

Tensor eye(int64_t rows, int64_t columns, const TensorOptions& options) {
  const FunctionScope scope("eye");
  if (rows < 0 || columns < 0) {
    check::refuse("eye", fmt::format("sizes are {} and {}, wanted 0 or more", rows, columns));
  }
  const TensorOptions counted{.dtype = DType::i64, .device = options.device};
  const Tensor row = arange(0, double(rows), 1, counted),
               column = arange(0, double(columns), 1, counted);
  return equal(row.reshape({rows, 1}), column).to(options.dtype);
}

Tensor eye(int64_t n, const TensorOptions& options) { return eye(n, n, options); }

Tensor one_hot(const Tensor& labels, int64_t classes, DType dtype) {
  const FunctionScope scope("one_hot");
  if (classes < 0) {
    check::refuse("one_hot", fmt::format("{} classes, wanted 0 or more", classes));
  }
  if (labels.dtype() != DType::i32) check::dtype("one_hot", {"labels", labels}, DType::i64);
  const double most = labels.dtype() == DType::i32 ? 0x1p31 : 0x1p53;
  if (double(classes) > most) {
    check::refuse("one_hot", fmt::format("{} classes, wanted at most {:.0f}, which {} labels count",
                                         classes, most, name(labels.dtype())));
  }
  const Tensor all =
      arange(0, double(classes), 1, {.dtype = labels.dtype(), .device = labels.device()});
  return equal(labels.reshape(labels.shape().inserted(labels.rank(), 1)), all).to(dtype);
}

Tensor rand(const Shape& shape, const TensorOptions& options) {
  const FunctionScope scope("rand");
  want_floating("rand", options.dtype);
  return uniform(shape, options, 0, 1);
}

Tensor randn(const Shape& shape, const TensorOptions& options) {
  const FunctionScope scope("randn");
  want_floating("randn", options.dtype);
  Tensor y = Tensor::empty(shape, {.dtype = options.dtype});
  run(kernels::RandomNormal{
      .y = y, .step = random::step_word(Device::cpu()), .key = random::next(RandomStream::user)});
  return y.to(options.device);
}

Tensor randint(int64_t low, int64_t high, const Shape& shape, const TensorOptions& options) {
  const FunctionScope scope("randint");
  if (low >= high) {
    check::refuse("randint", fmt::format("no integers from {} to before {}", low, high));
  }
  if (options.dtype != DType::i64) {  // the ends of its range are not all f64
    check_holds("randint", double(low), options.dtype);
    check_holds("randint", double(high - 1), options.dtype);
  }
  const Tensor drawn =
      uniform(shape, {.dtype = DType::f64, .device = options.device}, double(low), double(high));
  return floor(drawn).to(options.dtype);
}

Tensor bernoulli(const Tensor& p) {
  const FunctionScope scope("bernoulli");
  check::floating("bernoulli", {"p", p});
  const DType wide = wide_dtype(p);
  check_probabilities("bernoulli", p.detach().to(wide));
  const Tensor drawn = uniform(p.shape(), {.dtype = wide, .device = p.device()}, 0, 1);
  return less(drawn, p.detach().to(wide)).to(p.dtype());
}

Tensor randperm(int64_t n, Device device) {
  const FunctionScope scope("randperm");
  if (n < 0) check::refuse("randperm", fmt::format("n is {}, wanted 0 or more", n));
  return Tensor::from(random::permutation(n, random::next(RandomStream::user), random::step()), {n},
                      device);
}

}  // namespace adret
