// Shape arithmetic.
#include <adret/core/error.h>
#include <adret/core/failing_function.h>
#include <adret/core/shape.h>
#include <fmt/core.h>

#include <algorithm>
#include <ostream>

namespace adret {
namespace {

[[noreturn]] void refuse(std::string_view function, const std::string& problem) {
  const std::string own(function);
  throw ShapeError(fmt::format("[{}] {}", failing_function(own.c_str()), problem));
}

}  // namespace

Shape::Shape(std::span<const int64_t> sizes) : rank_(int(sizes.size())) {
  if (sizes.size() > size_t(max_rank)) {
    refuse("shape", fmt::format("{} dimensions; a tensor has at most {}", sizes.size(), max_rank));
  }
  std::copy(sizes.begin(), sizes.end(), sizes_.begin());
  for (int64_t size : sizes) {
    if (size < 0) refuse("shape", fmt::format("negative size in {}", to_string(*this)));
  }
  check_numel();
}

void Shape::check_numel() const {
  int64_t product = 1;
  for (int64_t size : span()) {
    if (!__builtin_mul_overflow(product, std::max<int64_t>(size, 1), &product) &&
        product <= max_numel) {
      continue;
    }
    const bool is_empty = std::ranges::count(span(), 0) > 0;
    refuse(
        "shape",
        fmt::format("{} has {}", to_string(*this),
                    is_empty ? "no elements, but its other sizes multiply to more than 2^60, which "
                               "sizes of no tensor may"
                             : "more elements than memory has addresses for"));
  }
}

int Shape::resolve_dim(std::string_view function, int dim) const {
  if (rank_ == 0) {
    refuse(
        function,
        fmt::format("dimension {} is out of range for a scalar, which has none; reshape it to (1,)",
                    dim));
  }
  if (dim < -rank_ || dim >= rank_) {
    refuse(function, fmt::format("dimension {} is out of range for shape {}; wanted {}..{}", dim,
                                 to_string(*this), -rank_, rank_ - 1));
  }
  return dim < 0 ? dim + rank_ : dim;
}

Shape Shape::with(int dim, int64_t size) const {
  Shape result = *this;
  result.sizes_[size_t(dim)] = size;
  if (size > sizes_[size_t(dim)]) result.check_numel();
  return result;
}

Shape Shape::without(int dim) const {
  Shape result = *this;
  std::copy(sizes_.begin() + dim + 1, sizes_.begin() + rank_, result.sizes_.begin() + dim);
  result.sizes_[size_t(--result.rank_)] = 0;
  return result;
}

Shape Shape::inserted(int dim, int64_t size) const {
  if (rank_ == max_rank) {
    refuse("shape", fmt::format("a dimension more than {} of {}", max_rank, to_string(*this)));
  }
  Shape result = *this;
  std::copy_backward(sizes_.begin() + dim, sizes_.begin() + rank_,
                     result.sizes_.begin() + rank_ + 1);
  result.sizes_[size_t(dim)] = size;
  ++result.rank_;
  if (size > 1) result.check_numel();
  return result;
}

std::string to_string(const Shape& shape) {
  std::string text = "(";
  for (int i = 0; i < shape.rank(); ++i) {
    text += fmt::format("{}{}", i ? ", " : "", shape[i]);
  }
  return text + (shape.rank() == 1 ? ",)" : ")");
}

std::ostream& operator<<(std::ostream& out, const Shape& shape) { return out << to_string(shape); }

Shape broadcast(std::string_view function, const Shape& a, const Shape& b) {
  if (a == b) return a;
  Shape result = a.rank() >= b.rank() ? a : b;
  const int rank = result.rank();
  for (int i = 0; i < rank; ++i) {
    const int ia = i - (rank - a.rank()), ib = i - (rank - b.rank());
    const int64_t sa = ia < 0 ? 1 : a[ia], sb = ib < 0 ? 1 : b[ib];
    if (sa != sb && sa != 1 && sb != 1) {
      refuse(
          function,
          fmt::format("shapes {} and {} do not broadcast: dimension {} from the end is {} and {}",
                      to_string(a), to_string(b), rank - i, sa, sb));
    }
    result = result.with(i, sa == 1 ? sb : sa);
  }
  result.check_numel();
  return result;
}

}  // namespace adret
