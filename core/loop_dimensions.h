// Dimensions of loops over a dense output whose operands advance by strides of their own.
#pragma once

#include <adret/core/shape.h>

#include <array>
#include <cstdint>

namespace adret {

// Strides, in elements, of N operands over the dimensions of an output. Sizes of 1 are left out and
// dimensions that every operand passes as one are merged, so that the innermost loop is long.
template <int N>
class LoopDimensions {
 public:
  using Strides = std::array<int64_t, N>;

  // Adds an inner dimension.
  void add(int64_t size, const Strides& stride) {
    total_ *= size;
    if (size == 1) return;
    if (rank_ > 0) {
      bool merges = true;
      for (size_t i = 0; i < N; ++i) merges &= strides_[last()][i] == stride[i] * size;
      if (merges) {
        sizes_[last()] *= size;
        strides_[last()] = stride;
        return;
      }
    }
    sizes_[size_t(rank_)] = size;
    strides_[size_t(rank_)] = stride;
    ++rank_;
  }

  // Adds those of an output, to which dense operands of these shapes broadcast.
  void add_broadcast(const Shape& output, const std::array<const Shape*, N>& operands) {
    std::array<Strides, Shape::max_rank> strides{};
    Strides step;
    step.fill(1);
    for (int d = output.rank() - 1; d >= 0; --d) {
      for (size_t i = 0; i < N; ++i) {
        const int own = d - (output.rank() - operands[i]->rank());
        const int64_t size = own < 0 ? 1 : (*operands[i])[own];
        strides[size_t(d)][i] = size == 1 ? 0 : step[i];
        step[i] *= size;
      }
    }
    for (int d = 0; d < output.rank(); ++d) add(output[d], strides[size_t(d)]);
  }

  int rank() const { return rank_; }
  int64_t total() const { return total_; }
  int64_t size(int d) const { return sizes_[size_t(d)]; }
  const Strides& strides(int d) const { return strides_[size_t(d)]; }
  int64_t inner_size() const { return rank_ ? sizes_[last()] : 1; }
  Strides inner_strides() const { return rank_ ? strides_[last()] : Strides{}; }

 protected:
  size_t last() const { return size_t(rank_ - 1); }

  int rank_ = 0;
  int64_t total_ = 1;
  std::array<int64_t, Shape::max_rank> sizes_{};
  std::array<Strides, Shape::max_rank> strides_{};
};

}  // namespace adret
