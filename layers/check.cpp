// Argument checks of the layers.
#include <adret/core/error.h>
#include <adret/layers/check.h>
#include <fmt/core.h>

namespace adret {

namespace {

[[noreturn]] void refuse_below(const std::string& limit, const std::string& value,
                               const char* layer, const char* argument) {
  throw Error(fmt::format("[{}] {} is {}; it must be at least {}", layer, argument, value, limit));
}

}  // namespace

int64_t at_least(int64_t limit, int64_t value, const char* layer, const char* argument) {
  if (value >= limit) return value;
  refuse_below(std::to_string(limit), std::to_string(value), layer, argument);
}

Size2 at_least(int64_t limit, Size2 value, const char* layer, const char* argument) {
  if (value.h >= limit && value.w >= limit) return value;
  refuse_below(to_string(Size2(limit)), to_string(value), layer, argument);
}

Size3 at_least(int64_t limit, Size3 value, const char* layer, const char* argument) {
  if (value.d >= limit && value.h >= limit && value.w >= limit) return value;
  refuse_below(to_string(Size3(limit)), to_string(value), layer, argument);
}

double probability(double value, const char* layer, const char* argument) {
  if (value >= 0 && value <= 1) return value;
  throw Error(fmt::format("[{}] {} is {}; a probability lies in 0..1", layer, argument, value));
}

Tensor in_dtype_of(const Tensor& weight, const Tensor& x) {
  return is_floating(x.dtype()) && x.dtype() != weight.dtype() ? x.to(weight.dtype()) : x;
}

Tensor for_normalization(const Tensor& weight, const Tensor& x) {
  if (!weight.defined() || !x.defined()) return x;
  const bool half = size_of(x.dtype()) == 2 && weight.dtype() == DType::f32;
  return half ? x : in_dtype_of(weight, x);
}

void check_epsilon(double epsilon, const char* layer) {
  if (epsilon >= 0) return;
  throw Error(fmt::format("[{}] epsilon is {}; it must not be negative", layer, epsilon));
}

}  // namespace adret
