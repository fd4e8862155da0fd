// The texts of the shared checks.
#include <adret/autograd/ops/check.h>
#include <adret/core/backend.h>
#include <adret/core/error.h>
#include <fmt/core.h>

namespace adret::check {
namespace {

// The layers on the way out leave the path as it is.
template <class E>
[[noreturn]] void fail(const char* function, const std::string& problem) {
  E error(fmt::format("[{}] {}", function, problem));
  if (const std::string path = NameScope::path(); !path.empty()) error.set_origin(path);
  throw error;
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
  refuse(function,
         describe(x) + ", wanted a floating dtype, i32 or i64; convert it with to(dtype)");
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

void refuse_shape(const char* function, Argument x, const std::string& wanted) {
  refuse(function, fmt::format("{} is {}, wanted {}", x.name, to_string(x.tensor.shape()), wanted));
}

}  // namespace adret::check
