// Loops over a dense output whose operands advance by strides of their own: broadcasting and
// transposition. The host merges dimensions; the device finds the operands' places.
#pragma once

#include <adret/core/cuda/fast_divisor.h>
#include <adret/core/loop_dimensions.h>

#include <array>
#include <cstdint>

namespace adret::cuda {

// What a kernel needs of a LoopNest of less than 2^31 elements; passed as __grid_constant__.
template <int N>
struct NestOffsets {
  int rank = 0;
  FastDivisor size[Shape::max_rank];
  int64_t stride[Shape::max_rank][N] = {};

  struct Offsets {
    int64_t at[N];
  };
  // The operands' offsets at an element of the output.
  __host__ __device__ Offsets operator()(uint32_t element) const {
    Offsets offsets{};
    for (int d = rank - 1; d > 0; --d) {
      const uint32_t rest = size[d].quotient(element);
      const uint32_t index = element - rest * size[d].divisor();
#pragma unroll
      for (int i = 0; i < N; ++i) offsets.at[i] += index * stride[d][i];
      element = rest;
    }
#pragma unroll
    for (int i = 0; i < N; ++i) offsets.at[i] += element * stride[0][i];
    return offsets;
  }
};

template <int N>
class LoopNest : public LoopDimensions<N> {
 public:
  using typename LoopDimensions<N>::Strides;

  int64_t stride(int d, int operand) const { return strides_[size_t(d)][size_t(operand)]; }
  int64_t inner_stride(int operand) const { return rank_ ? strides_[last()][size_t(operand)] : 0; }

  // Whether every stride of an operand but the innermost is a multiple of n.
  bool outer_strides_divide_by(int64_t n, int operand) const {
    for (int d = 0; d + 1 < rank_; ++d) {
      if (stride(d, operand) % n != 0) return false;
    }
    return true;
  }

  NestOffsets<N> offsets() const {
    NestOffsets<N> offsets;
    offsets.rank = rank_;
    for (int d = 0; d < rank_; ++d) {
      offsets.size[d] = FastDivisor(uint32_t(sizes_[size_t(d)]));
      for (int i = 0; i < N; ++i) offsets.stride[d][i] = stride(d, i);
    }
    return offsets;
  }

  // f(nest, first, offsets) for parts of less than 2^31 elements each, together all of them:
  // `first` is the part's place in the output, `offsets` those in the operands.
  template <class F>
  void for_parts(F&& f) const {
    if (total_ > 0) for_parts(f, 0, Strides{});
  }

 private:
  using LoopDimensions<N>::last, LoopDimensions<N>::rank_, LoopDimensions<N>::total_,
      LoopDimensions<N>::sizes_, LoopDimensions<N>::strides_;

  template <class F>
  void for_parts(F& f, int64_t first, const Strides& offsets) const {
    if (total_ <= INT32_MAX) return f(*this, first, offsets);
    int64_t half = sizes_[0] / 2;
    if (half > 64) half -= half % 64;  // so that the second part is aligned like the first
    part(half).for_parts(f, first, offsets);
    Strides second = offsets;
    for (size_t i = 0; i < N; ++i) second[i] += half * strides_[0][i];
    part(sizes_[0] - half).for_parts(f, first + half * (total_ / sizes_[0]), second);
  }
  // The same with the outermost dimension cut to `size`.
  LoopNest part(int64_t size) const {
    LoopNest nest;
    nest.add(size, strides_[0]);
    for (size_t d = 1; d < size_t(rank_); ++d) nest.add(sizes_[d], strides_[d]);
    return nest;
  }
};

// The nest of operands that broadcast to `shape`.
template <int N>
LoopNest<N> broadcast_nest(const Shape& shape, const std::array<const Shape*, N>& operands) {
  LoopNest<N> nest;
  nest.add_broadcast(shape, operands);
  return nest;
}

}  // namespace adret::cuda
