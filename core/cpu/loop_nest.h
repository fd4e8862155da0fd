// Loops over a dense output whose operands advance by strides of their own: broadcasting and
// transposition.
#pragma once

#include <adret/core/shape.h>
#include <adret/core/thread_pool.h>

#include <algorithm>
#include <array>
#include <cstdint>

namespace adret::cpu {

// Strides, in elements, of N operands over the dimensions of an output. Sizes of 1 are left out and
// dimensions that every operand passes as one are merged, so that the innermost loop is long.
template <int N>
class LoopNest {
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

  int rank() const { return rank_; }
  int64_t size(int d) const { return sizes_[size_t(d)]; }
  const Strides& strides(int d) const { return strides_[size_t(d)]; }
  int64_t total() const { return total_; }
  int64_t inner_size() const { return rank_ ? sizes_[last()] : 1; }
  Strides inner_strides() const { return rank_ ? strides_[last()] : Strides{}; }

  // The operands' offsets at an element of the output.
  Strides offsets(int64_t element) const {
    Strides offsets{};
    for (int d = rank_ - 1; d > 0; --d) {
      const int64_t index = element % sizes_[size_t(d)];
      element /= sizes_[size_t(d)];
      for (size_t i = 0; i < N; ++i) offsets[i] += index * strides_[size_t(d)][i];
    }
    for (size_t i = 0; i < N; ++i) offsets[i] += element * strides_[0][i];
    return offsets;
  }

  // f(first, offsets, length) for each run of the innermost dimension among the output's elements
  // begin..end-1: `first` is the run's place in the output, `offsets` those in the operands.
  template <class F>
  void for_runs(int64_t begin, int64_t end, F&& f) const {
    if (begin >= end) return;  // a size may be 0
    if (rank_ == 0) {          // a single element
      f(begin, Strides{}, end - begin);
      return;
    }
    std::array<int64_t, Shape::max_rank> index{};
    Strides offsets{};
    int64_t rest = begin;
    for (int d = rank_ - 1; d >= 0; --d) {
      index[size_t(d)] = rest % sizes_[size_t(d)];
      rest /= sizes_[size_t(d)];
      for (size_t i = 0; i < N; ++i) offsets[i] += index[size_t(d)] * strides_[size_t(d)][i];
    }
    for (int64_t at = begin; at < end;) {
      const int64_t length = std::min(sizes_[last()] - index[last()], end - at);
      f(at, offsets, length);
      at += length;
      advance(index, offsets, length);
    }
  }

  // The same over all elements, on all threads in chunks of `grain`.
  template <class F>
  void parallel_runs(int64_t grain, F&& f) const {
    parallel_for(total_, grain, [&](int64_t begin, int64_t end) { for_runs(begin, end, f); });
  }

 private:
  size_t last() const { return size_t(rank_ - 1); }

  void advance(std::array<int64_t, Shape::max_rank>& index, Strides& offsets,
               int64_t length) const {
    index[last()] += length;
    for (size_t i = 0; i < N; ++i) offsets[i] += length * strides_[last()][i];
    for (size_t d = last(); d > 0 && index[d] == sizes_[d]; --d) {
      index[d] = 0;
      ++index[d - 1];
      for (size_t i = 0; i < N; ++i) {
        offsets[i] += strides_[d - 1][i] - sizes_[d] * strides_[d][i];
      }
    }
  }

  int rank_ = 0;
  int64_t total_ = 1;
  std::array<int64_t, Shape::max_rank> sizes_{};
  std::array<Strides, Shape::max_rank> strides_{};
};

// The nest of operands that broadcast to `shape`.
template <int N>
LoopNest<N> broadcast_nest(const Shape& shape, const std::array<Shape, N>& operands) {
  std::array<std::array<int64_t, N>, Shape::max_rank> strides{};
  std::array<int64_t, N> step;
  step.fill(1);
  for (int d = shape.rank() - 1; d >= 0; --d) {
    for (size_t i = 0; i < N; ++i) {
      const int own = d - (shape.rank() - operands[i].rank());
      const int64_t size = own < 0 ? 1 : operands[i][own];
      strides[size_t(d)][i] = size == 1 ? 0 : step[i];
      step[i] *= size;
    }
  }
  LoopNest<N> nest;
  for (int d = 0; d < shape.rank(); ++d) nest.add(shape[d], strides[size_t(d)]);
  return nest;
}

}  // namespace adret::cpu
