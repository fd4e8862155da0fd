// Loops over a dense output whose operands advance by strides of their own: broadcasting and
// transposition.
#pragma once

#include <adret/core/loop_dimensions.h>
#include <adret/core/thread_pool.h>

#include <algorithm>
#include <array>
#include <cstdint>

namespace adret::cpu {

template <int N>
class LoopNest : public LoopDimensions<N> {
 public:
  using typename LoopDimensions<N>::Strides;

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
  using LoopDimensions<N>::last, LoopDimensions<N>::rank_, LoopDimensions<N>::total_,
      LoopDimensions<N>::sizes_, LoopDimensions<N>::strides_;

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
};

// The nest of operands that broadcast to `shape`.
template <int N>
LoopNest<N> broadcast_nest(const Shape& shape, const std::array<Shape, N>& operands) {
  std::array<const Shape*, N> shapes;
  for (size_t i = 0; i < N; ++i) shapes[i] = &operands[i];
  LoopNest<N> nest;
  nest.add_broadcast(shape, shapes);
  return nest;
}

}  // namespace adret::cpu
