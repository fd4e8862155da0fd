// Reductions: rows of neighbouring outputs are reduced together, chunk by chunk.
#include <adret/core/cpu/dispatch.h>
#include <adret/core/cpu/grain.h>
#include <adret/core/cpu/kernels.h>
#include <adret/core/cpu/loop_nest.h>
#include <adret/core/cpu/reduce_rows.h>
#include <adret/core/cpu/workspace.h>

#include <algorithm>

namespace adret::cpu {

using kernels::ReduceOp;

namespace {

// Note [Reductions]
// The innermost kept dimensions, if nothing is reduced inside them, are `width` outputs side by
// side; every index of the reduced dimensions is then a row of `width` elements. Rows are cut into
// chunks and columns into blocks by the sizes alone; the chunks' results are combined in order, so
// the result has the same bits for any number of threads. Sums are kept in f64, those of f32 as
// Note [Sums of f32] says.

constexpr int64_t block_width = 256;  // reduced together: their results stay in the L1 cache
constexpr int64_t chunk_elements = 32768;

struct Plan {
  LoopNest<1> outer;  // kept dimensions outside the last reduced one, with their strides in x
  LoopNest<1> rows;   // reduced dimensions
  int64_t width = 1;

  explicit Plan(const kernels::Reduce& call) {
    const Shape& shape = call.x.shape;
    // Sizes of 1 count as kept, so that the innermost reduced dimension has the stride `width`.
    const auto is_reduced = [&](int d) { return (call.dims >> d & 1) != 0 && shape[d] != 1; };
    int inner = shape.rank();  // the first of the innermost kept dimensions
    for (; inner > 0 && !is_reduced(inner - 1); --inner) width *= shape[inner - 1];
    std::array<int64_t, Shape::max_rank> strides{};
    int64_t stride = width;
    for (int d = inner - 1; d >= 0; --d) {
      strides[size_t(d)] = stride;
      stride *= shape[d];
    }
    for (int d = 0; d < inner; ++d)
      (is_reduced(d) ? rows : outer).add(shape[d], {strides[size_t(d)]});
  }

  int64_t blocks() const { return chunk_count(width, block_width); }
  int64_t rows_per_chunk() const {
    return items_per_chunk(chunk_elements, std::min(width, block_width));
  }
  int64_t chunks() const {
    return std::max<int64_t>(1, chunk_count(rows.total(), rows_per_chunk()));
  }
};

template <class Op, class T>
class Reduction {
 public:
  using Result = typename Op::Result;

  // y = op over x, divided by `divisor`.
  Reduction(const kernels::Reduce& call, double divisor)
      : plan_(call), divisor_(divisor), x_(call.x.as<T>()), y_(call.y.as<T>()) {}

  void run() const {
    const int64_t chunks = plan_.chunks(), blocks = plan_.blocks();
    const int64_t pitch = std::min(plan_.width, block_width);
    const int64_t outputs = plan_.outer.total() * blocks;  // each a block of columns
    if (chunks == 1 && plan_.width == 1) return run_rows();
    if (chunks == 1) {
      const int64_t elements = plan_.rows.total() * pitch;
      const int64_t grain = items_per_chunk(memory_grain, elements);
      parallel_for(outputs, grain, [&](int64_t begin, int64_t end) {
        Result result[block_width];
        for (int64_t output = begin; output < end; ++output) {
          reduce_chunk(output, 0, result);
          write(output, result);
        }
      });
      return;
    }
    const Workspace<Result> workspace(outputs * chunks * pitch);
    Result* partials = workspace.data();
    parallel_for(outputs * chunks, 1, [&](int64_t begin, int64_t end) {
      for (int64_t task = begin; task < end; ++task) {
        reduce_chunk(task / chunks, task % chunks, partials + task * pitch);
      }
    });
    const int64_t grain = items_per_chunk(memory_grain, chunks * pitch);
    parallel_for(outputs, grain, [&](int64_t begin, int64_t end) {
      for (int64_t output = begin; output < end; ++output) {
        Result* first = partials + output * chunks * pitch;
        reduce_rows<typename Op::Merge>(first + pitch, chunks - 1, pitch, columns(output), first);
        write(output, first);
      }
    });
  }

 private:
  // Outputs one by one, when there is but a row or so of elements for each.
  void run_rows() const {
    const int64_t stride = plan_.outer.inner_strides()[0], total = plan_.rows.total();
    plan_.outer.parallel_runs(
        items_per_chunk(math_grain, total + 1),
        [&](int64_t first, const auto& offsets, int64_t outputs) {
          for (int64_t i = 0; i < outputs; ++i) {
            y_[first + i] = T(Op::finish(reduce_output(x_ + offsets[0] + i * stride), divisor_));
          }
        });
  }
  Result reduce_output(const T* x) const {
    if (plan_.rows.inner_size() == plan_.rows.total()) return reduce_row<Op>(x, plan_.rows.total());
    Result result = Op::identity;
    plan_.rows.for_runs(0, plan_.rows.total(), [&](int64_t, const auto& offsets, int64_t n) {
      result = Op::combine(result, reduce_row<Op>(x + offsets[0], n));
    });
    return result;
  }

  int64_t column(int64_t output) const { return output % plan_.blocks() * block_width; }
  int64_t columns(int64_t output) const {
    return std::min(block_width, plan_.width - column(output));
  }

  void reduce_chunk(int64_t output, int64_t chunk, Result* result) const {
    const int64_t first = chunk * plan_.rows_per_chunk();
    const int64_t last = std::min(plan_.rows.total(), first + plan_.rows_per_chunk());
    const T* x = x_ + plan_.outer.offsets(output / plan_.blocks())[0] + column(output);
    const int64_t width = columns(output), stride = plan_.rows.inner_strides()[0];
    std::fill_n(result, width, Op::identity);
    plan_.rows.for_runs(first, last, [&](int64_t, const auto& offsets, int64_t rows) {
      reduce_any_rows<Op>(x + offsets[0], rows, stride, width, result);
    });
  }

  void write(int64_t output, const Result* result) const {
    T* y = y_ + output / plan_.blocks() * plan_.width + column(output);
    for (int64_t i = 0; i < columns(output); ++i) y[i] = T(Op::finish(result[i], divisor_));
  }

  Plan plan_;
  double divisor_;
  const T* x_;
  T* y_;
};

}  // namespace

void run(const kernels::Reduce& call) {
  if (call.y.numel() == 0) return;
  dispatch_float(call.x.dtype, call.name, [&](auto zero) {
    using T = decltype(zero);
    switch (call.op) {
      case ReduceOp::sum: return Reduction<Sum<T>, T>(call, 1).run();
      case ReduceOp::mean:
        return Reduction<Sum<T>, T>(call, double(call.x.numel() / call.y.numel())).run();
      case ReduceOp::max: return Reduction<Max<T>, T>(call, 1).run();
      case ReduceOp::min: return Reduction<Min<T>, T>(call, 1).run();
      case ReduceOp::prod: return Reduction<Prod<T>, T>(call, 1).run();
    }
  });
}

}  // namespace adret::cpu
