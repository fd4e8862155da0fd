// Sizes of a tensor's dimensions, and the arithmetic on them: broadcasting, negative dimensions.
#pragma once

#include <array>
#include <cstdint>
#include <initializer_list>
#include <iosfwd>
#include <span>
#include <string>
#include <string_view>

namespace adret {

// Up to six sizes, kept inline. Rank 0 is a scalar with one element.
class Shape {
 public:
  static constexpr int max_rank = 6;
  static constexpr int64_t max_numel = INT64_MAX / 8;  // so that bytes of any dtype can be counted

  Shape() = default;
  // Throws ShapeError for more than six dimensions, a negative size, and too many elements.
  Shape(std::initializer_list<int64_t> sizes) : Shape(std::span(sizes.begin(), sizes.size())) {}
  explicit Shape(std::span<const int64_t> sizes);

  int rank() const { return rank_; }
  // Size of a dimension; negative ones count from the end. Throws ShapeError out of range.
  int64_t operator[](int dim) const {
    if (dim >= 0 && dim < rank_) return sizes_[size_t(dim)];
    return sizes_[size_t(resolve_dim("shape", dim))];
  }
  int64_t numel() const {
    int64_t product = 1;
    for (int i = 0; i < rank_; ++i) product *= sizes_[size_t(i)];
    return product;
  }

  const int64_t* begin() const { return sizes_.data(); }
  const int64_t* end() const { return sizes_.data() + rank_; }
  std::span<const int64_t> span() const { return {begin(), end()}; }
  bool operator==(const Shape&) const = default;

  // Maps a dimension in -rank..rank-1 to 0..rank-1, or throws ShapeError naming `function`.
  int resolve_dim(std::string_view function, int dim) const;
  // The shape with dimension `dim` (0..rank-1) set to `size`, removed, or inserted before `dim`.
  Shape with(int dim, int64_t size) const;
  Shape without(int dim) const;
  Shape inserted(int dim, int64_t size) const;

 private:
  friend Shape broadcast(std::string_view, const Shape&, const Shape&);
  void check_numel() const;

  std::array<int64_t, max_rank> sizes_{};  // unused entries stay 0, so that == compares arrays
  int rank_ = 0;
};

std::string to_string(const Shape& shape);  // "(64, 28, 28, 1)"
std::ostream& operator<<(std::ostream& out, const Shape& shape);

// NumPy's rule: aligned at the last dimension, a size of 1 stretches. Throws ShapeError naming
// `function` and both shapes.
Shape broadcast(std::string_view function, const Shape& a, const Shape& b);

}  // namespace adret
