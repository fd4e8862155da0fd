// What both directions of recurrent layers share on the CPU: the steps of samples, packed weights
// and products with them, and how the work is split.
#pragma once

#include <adret/core/cpu/grain.h>
#include <adret/core/cpu/register_tile.h>
#include <adret/core/cpu/workspace.h>
#include <adret/core/kernels/recurrent.h>
#include <adret/core/thread_pool.h>

#include <algorithm>

namespace adret::cpu {

// Note [Recurrent layers on the CPU]
// Samples know nothing of each other, so each thread takes some of them through all of their steps
// and nobody waits. Where there are fewer samples than threads, the threads share each step by its
// columns instead. An element of a product is one sum in order of the depth in either way
// (Note [Register tiles]), so the bits are the same for any number of threads, although the split
// depends on it. The weight is packed once for all steps.

// Of a call: step i of a sample, in the order of computing, and its place in time.
class RecurrentSteps {
 public:
  // y is (N, T, H).
  RecurrentSteps(const TensorView& y, const TensorView& lengths,
                 const kernels::RecurrentParams& params)
      : samples(y.shape[0]),
        steps(y.shape[1]),
        hidden(y.shape[2]),
        gates(params.gates()),
        cell(params.cell),
        lengths_(lengths),
        reverse_(params.reverse) {}

  int64_t length(int64_t sample) const {
    if (!lengths_.defined()) return steps;
    const int64_t length = lengths_.dtype == DType::i64 ? lengths_.as<int64_t>()[sample]
                                                        : int64_t(lengths_.as<int32_t>()[sample]);
    return std::clamp<int64_t>(length, 0, steps);
  }
  // A step from `length` on is none, but its place is told, too.
  int64_t place(int64_t sample, int64_t i) const {
    const int64_t length = this->length(sample);
    return sample * steps + (reverse_ && i < length ? length - 1 - i : i);
  }

  const int64_t samples, steps, hidden, gates;
  const kernels::RecurrentCell cell;

 private:
  const TensorView& lengths_;
  const bool reverse_;
};

// A range of samples and one of blocks of columns.
struct RecurrentPart {
  int64_t sample, end_sample, block, end_block;
};

template <class T>
inline constexpr int64_t block_width = 2 * lanes<T>;

// A matrix (depth, columns) as blocks of columns, filled up with zeros: block b holds block_width
// elements of each row.
template <class T>
class PackedColumns {
 public:
  // at(k, column) is the element.
  template <class At>
  PackedColumns(int64_t depth, int64_t columns, At at)
      : depth_(depth),
        blocks_(chunk_count(columns, block_width<T>)),
        memory_(depth * blocks_ * block_width<T>) {
    parallel_for(blocks_, items_per_chunk(memory_grain, depth * block_width<T>),
                 [&](int64_t begin, int64_t end) {
                   for (int64_t b = begin; b < end; ++b) {
                     T* const to = memory_.data() + b * depth_ * block_width<T>;
                     for (int64_t j = 0; j < block_width<T>; ++j) {
                       const int64_t column = b * block_width<T> + j;
                       for (int64_t k = 0; k < depth_; ++k) {
                         to[k * block_width<T> + j] = column < columns ? at(k, column) : T(0);
                       }
                     }
                   }
                 });
  }
  int64_t blocks() const { return blocks_; }

  // y (ROWS, block_width) = rows of a (ROWS, depth) times block b.
  template <int ROWS>
  void multiply(const T* a, int64_t b, T* y) const {
    constexpr int64_t whole[] = {0};
    RegisterTile<T, ROWS, 2> tile{};
    tile.template multiply_add<Adjacent::k>(a, depth_, memory_.data() + b * depth_ * block_width<T>,
                                            block_width<T>, {whole, 1, depth_});
    tile.each([&](const Vector<T>& sum, int row, int column) {
      store(y + row * block_width<T> + column * lanes<T>, sum);
    });
  }

 private:
  int64_t depth_, blocks_;
  Workspace<T> memory_;
};

// use(i, part) for the steps i = 0, 1, ... of each sample, in order, for parts that cover all
// samples and blocks; what a step needs of the one before was done when it begins. `operations` is
// the work of one step and sample.
template <class Use>
void over_recurrent_steps(const RecurrentSteps& of, int64_t blocks, int64_t operations, Use use) {
  constexpr int64_t chunk_operations = 1 << 16;
  const int64_t threads = num_threads();
  if (of.samples >= threads) {
    const int64_t grain = std::max(chunk_count(of.samples, threads),
                                   items_per_chunk(chunk_operations, of.steps * operations));
    parallel_for(of.samples, grain, [&](int64_t begin, int64_t end) {
      for (int64_t i = 0; i < of.steps; ++i) use(i, RecurrentPart{begin, end, 0, blocks});
    });
    return;
  }
  const int64_t of_block = of.samples * operations / std::max<int64_t>(1, blocks);
  const int64_t grain =
      std::max(chunk_count(blocks, threads), items_per_chunk(chunk_operations, of_block));
  for (int64_t i = 0; i < of.steps; ++i) {
    parallel_for(blocks, std::max<int64_t>(1, grain), [&](int64_t begin, int64_t end) {
      use(i, RecurrentPart{0, of.samples, begin, end});
    });
  }
}

// f(sample, rows) for tiles of a part's samples, rows being an integral_constant.
template <class F>
void for_each_row_tile(const RecurrentPart& part, F f) {
  for_each_tile<max_rows<2>>(part.end_sample - part.sample,
                             [&](int64_t first, auto rows) { f(part.sample + first, rows); });
}

// Row `sample` of (N, H), or null.
template <class T>
T* state_row(const TensorView& state, int64_t sample) {
  return state.defined() ? state.as<T>() + sample * state.shape[1] : nullptr;
}
// The row of a place in time.
template <class T>
T* place_row(const TensorView& sequence, int64_t place) {
  return sequence.defined() ? sequence.as<T>() + place * sequence.shape[2] : nullptr;
}

}  // namespace adret::cpu
