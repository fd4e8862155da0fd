// Reductions: rows of neighbouring outputs are reduced together, chunk by chunk.
#include <adret/core/cpu/dispatch.h>
#include <adret/core/cpu/grain.h>
#include <adret/core/cpu/kernels.h>
#include <adret/core/cpu/reduce_plan.h>
#include <adret/core/cpu/reduce_rows.h>
#include <adret/core/cpu/reduce_spread.h>
#include <adret/core/cpu/workspace.h>

#include <algorithm>

namespace adret::cpu {

using kernels::ReduceOp;

namespace {

template <class Op, class T, class Y = T>
class Reduction {
 public:
  using Result = typename Op::Result;

  // y = op over x, divided by `divisor`.
  Reduction(const kernels::Reduce& call, double divisor)
      : plan_(call), divisor_(divisor), x_(call.x.as<T>()), y_(call.y.as<Y>()) {}

  void run() const {
    const int64_t chunks = plan_.chunks();
    const int64_t pitch = plan_.pitch();
    const int64_t outputs = plan_.outputs();
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
        reduce_rows<typename Op::Merge>(first + pitch, chunks - 1, pitch, plan_.columns(output),
                                        first);
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
            y_[first + i] = Y(Op::finish(reduce_output(x_ + offsets[0] + i * stride), divisor_));
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

  void reduce_chunk(int64_t output, int64_t chunk, Result* result) const {
    const int64_t width = plan_.columns(output), stride = plan_.rows.inner_strides()[0];
    std::fill_n(result, width, Op::identity);
    plan_.for_chunk(output, chunk, [&](int64_t at, int64_t rows) {
      reduce_any_rows<Op>(x_ + at, rows, stride, width, result);
    });
  }

  void write(int64_t output, const Result* result) const {
    Y* y = y_ + plan_.place(output);
    for (int64_t i = 0; i < plan_.columns(output); ++i) y[i] = Y(Op::finish(result[i], divisor_));
  }

  ReducePlan plan_;
  double divisor_;
  const T* x_;
  Y* y_;
};

template <class T>
void run_integers(const kernels::Reduce& call) {
  switch (call.op) {
    case ReduceOp::sum: return Reduction<IntegerSum, T, int64_t>(call, 1).run();
    case ReduceOp::prod: return Reduction<IntegerProd, T, int64_t>(call, 1).run();
    case ReduceOp::max: return Reduction<Max<T>, T>(call, 1).run();
    case ReduceOp::min: return Reduction<Min<T>, T>(call, 1).run();
    default: throw_not_floating(call.x.dtype, call.name);
  }
}

}  // namespace

void run(const kernels::Reduce& call) {
  if (call.y.numel() == 0) return;
  switch (call.x.dtype) {
    case DType::i32: return run_integers<int32_t>(call);
    case DType::i64: return run_integers<int64_t>(call);
    case DType::u8:
    case DType::boolean: return run_integers<uint8_t>(call);  // a byte of 0 or 1
    default: break;
  }
  dispatch_float(call.x.dtype, call.name, [&](auto zero) {
    using T = decltype(zero);
    switch (call.op) {
      case ReduceOp::sum: return Reduction<Sum<T>, T>(call, 1).run();
      case ReduceOp::mean:
        return Reduction<Sum<T>, T>(call, double(call.x.numel() / call.y.numel())).run();
      case ReduceOp::max: return Reduction<Max<T>, T>(call, 1).run();
      case ReduceOp::min: return Reduction<Min<T>, T>(call, 1).run();
      case ReduceOp::prod: return Reduction<Prod<T>, T>(call, 1).run();
      case ReduceOp::norm: return Reduction<SquareSum<T>, T>(call, 1).run();
      case ReduceOp::var: return reduce_in_two<Spread<T>, T>(call);
      case ReduceOp::logsumexp: return reduce_in_two<ExpSum<T>, T>(call);
    }
  });
}

}  // namespace adret::cpu
