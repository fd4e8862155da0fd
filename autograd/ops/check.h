// What the functions share: their checks, each written once so that every text reads alike, and how
// results are made.
#pragma once

#include <adret/core/tensor.h>

#include <optional>
#include <string>

namespace adret::check {

// An argument by its name in the function's signature. same_device, alike, shape and dtype let an
// undefined one pass.
struct Argument {
  const char* name;
  const Tensor& tensor;
};

// Throws ShapeError "[function] problem", with the path of modules the call came from. Within
// another function that the user called, the error has that one's name.
[[noreturn]] void refuse(const char* function, const std::string& problem);
[[noreturn]] void refuse_floating(const char* function, Argument x);
[[noreturn]] void refuse_number(const char* function, Argument x);
[[noreturn]] void refuse_signed_number(const char* function, Argument x);
[[noreturn]] void refuse_integer_quotient(const char* function, Argument x);
[[noreturn]] void refuse_unlike(const char* function, Argument a, Argument b);
[[noreturn]] void refuse_dtype(const char* function, Argument x, DType wanted);
[[noreturn]] void refuse_epsilon(const char* function, double epsilon);
[[noreturn]] void refuse_shape(const char* function, Argument x, const std::string& wanted);

inline void floating(const char* function, Argument x) {
  if (!is_floating(x.tensor.dtype())) refuse_floating(function, x);
}

// Floats or integers, which booleans are not.
inline void number(const char* function, Argument x) {
  if (x.tensor.dtype() == DType::boolean) refuse_number(function, x);
}

// Floats, i32 or i64.
inline void signed_number(const char* function, Argument x) {
  const DType dtype = x.tensor.dtype();
  if (!is_floating(dtype) && dtype != DType::i32 && dtype != DType::i64) {
    refuse_signed_number(function, x);
  }
}

// Floats: of integers either quotient could be meant.
inline void divisible(const char* function, Argument x) {
  if (!is_floating(x.tensor.dtype())) refuse_integer_quotient(function, x);
}

// Both on one device, else DeviceError.
inline void same_device(const char* function, Argument a, Argument b) {
  if (!b.tensor.defined() || a.tensor.device() == b.tensor.device()) return;
  refuse_unlike(function, a, b);
}

// One device and one dtype.
inline void alike(const char* function, Argument a, Argument b) {
  if (!b.tensor.defined() ||
      (a.tensor.dtype() == b.tensor.dtype() && a.tensor.device() == b.tensor.device())) {
    return;
  }
  refuse_unlike(function, a, b);
}

inline void shape(const char* function, Argument x, const Shape& wanted) {
  if (!x.tensor.defined() || x.tensor.shape() == wanted) return;
  refuse_shape(function, x, to_string(wanted));
}

inline void dtype(const char* function, Argument x, DType wanted) {
  if (!x.tensor.defined() || x.tensor.dtype() == wanted) return;
  refuse_dtype(function, x, wanted);
}

// `layout` names the dimensions: rank("conv2d", {"x", x}, 4, "(N, H, W, C)").
inline void rank(const char* function, Argument x, int rank, const char* layout) {
  if (x.tensor.rank() != rank) refuse_shape(function, x, layout);
}

// Indices or labels, i32 or i64.
inline void integer(const char* function, Argument x) {
  const DType dtype = x.tensor.dtype();
  if (dtype != DType::i32 && dtype != DType::i64) refuse_dtype(function, x, DType::i64);
}

// Of normalisations and the like.
inline void epsilon(const char* function, double epsilon) {
  if (!(epsilon >= 0)) refuse_epsilon(function, epsilon);
}

// Note [Indices outside]
// On the CPU the values of indices and labels are read before the kernel runs, and a wrong one is
// an Error that names it. On a GPU that would mean to wait, and a replayed step calls no functions:
// there the kernels leave such an index out and give NaN where a result depends on it.

struct IndexOutside {
  int64_t place, index;  // place in row-major order
};
// The first of the indices, i32 or i64, that is neither in 0..size-1 nor `except`; none on other
// devices than the CPU.
std::optional<IndexOutside> first_outside(const Tensor& indices, int64_t size,
                                          std::optional<int64_t> except = {});
// Throws Error for an index outside 0..size-1, `of` saying whose size that is. See Note [Indices
// outside].
void within(const char* function, Argument indices, int64_t size, const std::string& of);

}  // namespace adret::check

namespace adret {

// Uninitialised, with the dtype and on the device of `like`.
inline Tensor empty_like(const Tensor& like, const Shape& shape) {
  return Tensor::empty(shape, {.dtype = like.dtype(), .device = like.device()});
}
inline Tensor empty_like(const Tensor& like) { return empty_like(like, like.shape()); }

// A scalar with the dtype and on the device of `like`.
inline Tensor scalar_like(const Tensor& like, double value) {
  return Tensor::full({}, value, {.dtype = like.dtype(), .device = like.device()});
}

// In which losses, statistics and optimizer state of x are kept: f32, or f64 for f64.
inline DType wide_dtype(const Tensor& x) {
  return x.dtype() == DType::f64 ? DType::f64 : DType::f32;
}

}  // namespace adret
