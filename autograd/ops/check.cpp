// The texts of the shared checks.
#include <adret/autograd/ops/check.h>
#include <adret/core/backend.h>
#include <adret/core/error.h>
#include <adret/core/failing_function.h>
#include <adret/core/thread_pool.h>
#include <fmt/core.h>

#include <algorithm>
#include <atomic>
#include <limits>
#include <type_traits>

namespace adret::check {
namespace {

// The layers on the way out leave the path as it is.
template <class E>
[[noreturn]] void fail(const char* function, const std::string& problem) {
  E error(fmt::format("[{}] {}", failing_function(function), problem));
  if (const std::string path = NameScope::path(); !path.empty()) error.set_origin(path);
  throw error;
}

// In one pass that vectorises: the signs of v and of last - v tell.
template <class T>
bool all_within(const T* values, int64_t count, T last) {
  using Bits = std::make_unsigned_t<T>;
  std::atomic<Bits> signs = 0;
  parallel_for(count, 1 << 16, [&](int64_t begin, int64_t end) {
    Bits own = 0;
    for (int64_t i = begin; i < end; ++i) own |= Bits(values[i]) | (Bits(last) - Bits(values[i]));
    signs.fetch_or(own, std::memory_order_relaxed);
  });
  return T(signs.load()) >= 0;
}

template <class T>
std::optional<IndexOutside> first_outside_in(const Tensor& indices, int64_t size,
                                             std::optional<int64_t> except) {
  // Not span(): reading ahead of the kernel makes no computation depend on the host.
  const std::span<const T> values(static_cast<const T*>(indices.data()), size_t(indices.numel()));
  const T last = T(std::min<int64_t>(size - 1, std::numeric_limits<T>::max()));
  if (all_within(values.data(), indices.numel(), last)) return {};
  for (size_t i = 0; i < values.size(); ++i) {
    if ((values[i] >= 0 && values[i] < size) || values[i] == except) continue;
    return IndexOutside{int64_t(i), values[i]};
  }
  return {};
}

std::string describe(Argument x) {
  return fmt::format("{} {} is {}", x.name, to_string(x.tensor.shape()), name(x.tensor.dtype()));
}

}  // namespace

void refuse(const char* function, const std::string& problem) {
  fail<ShapeError>(function, problem);
}

void refuse_floating(const char* function, Argument x) {
  refuse(function, describe(x) + ", wanted a floating dtype; convert it with to(DType::f32)");
}

void refuse_number(const char* function, Argument x) {
  refuse(function, describe(x) + ", wanted numbers; convert it with to(dtype)");
}

void refuse_signed_number(const char* function, Argument x) {
  refuse(function,
         describe(x) + ", wanted a floating dtype, i32 or i64; convert it with to(dtype)");
}

void refuse_integer_quotient(const char* function, Argument x) {
  refuse(function, describe(x) +
                       ", wanted a floating dtype; convert it with to(DType::f32), or "
                       "take floor_divide for whole quotients");
}

void refuse_unlike(const char* function, Argument a, Argument b) {
  if (a.tensor.device() != b.tensor.device()) {
    fail<DeviceError>(function,
                      fmt::format("{} {} is on {}, {} {} on {}; move one with to(device)", a.name,
                                  to_string(a.tensor.shape()), to_string(a.tensor.device()), b.name,
                                  to_string(b.tensor.shape()), to_string(b.tensor.device())));
  }
  refuse(function, fmt::format("{}, {}; dtypes must be equal, convert one with to(dtype)",
                               describe(a), describe(b)));
}

void refuse_dtype(const char* function, Argument x, DType wanted) {
  refuse(function, fmt::format("{}, wanted {}; convert it with to(DType::{})", describe(x),
                               name(wanted), name(wanted)));
}

void refuse_epsilon(const char* function, double epsilon) {
  refuse(function, fmt::format("epsilon is {}, wanted 0 or more", epsilon));
}

void refuse_shape(const char* function, Argument x, const std::string& wanted) {
  refuse(function, fmt::format("{} is {}, wanted {}", x.name, to_string(x.tensor.shape()), wanted));
}

std::optional<IndexOutside> first_outside(const Tensor& indices, int64_t size,
                                          std::optional<int64_t> except) {
  if (!indices.device().is_cpu()) return {};
  return indices.dtype() == DType::i32 ? first_outside_in<int32_t>(indices, size, except)
                                       : first_outside_in<int64_t>(indices, size, except);
}

void within(const char* function, Argument indices, int64_t size, const std::string& of) {
  const auto wrong = first_outside(indices.tensor, size);
  if (!wrong) return;
  fail<Error>(function, fmt::format("{} {} hold {} at element {}, outside 0..{} ({})", indices.name,
                                    to_string(indices.tensor.shape()), wrong->index, wrong->place,
                                    size - 1, of));
}

}  // namespace adret::check
