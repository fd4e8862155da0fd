// Bias and ReLU after a product that could not take them along.
#include <adret/core/cuda/launch.h>
#include <adret/core/cuda/matmul_plan.h>

#include <limits>

namespace adret::cuda {
namespace {

// y holds `count` vectors, `per_row` to a row. Index is as narrow as the count allows.
template <class T, int lanes, class Index>
__global__ void add_bias_to(Vector<T, lanes>* y, const Vector<T, lanes>* bias, Index count,
                            Index per_row, bool relu) {
  begin_kernel();
  for (Index i = Index(first_item()); i < count; i += Index(all_threads())) {
    Vector<T, lanes> values = y[i];
    Vector<T, lanes> shift{};
    if (bias) shift = bias[i % per_row];
#pragma unroll
    for (int lane = 0; lane < lanes; ++lane) {
      Accumulator<T> value = widen(values.at[lane]);
      if (bias) value += widen(shift.at[lane]);
      values.at[lane] = narrow<T>(relu && value < 0 ? 0 : value);  // NaN stays
    }
    y[i] = values;
  }
}

template <class T, int lanes>
void add_bias_by(Context& context, const TensorView& y, const TensorView& bias, bool relu) {
  const int64_t count = y.numel() / lanes, per_row = y.shape[-1] / lanes;
  auto* const to = y.as<Vector<T, lanes>>();
  const auto* const from = bias.as<const Vector<T, lanes>>();
  const Grid grid = grid_for(context, count);
  // The loop's step is added to the index once more after its last round.
  if (count < std::numeric_limits<int32_t>::max()) {
    launch(context, add_bias_to<T, lanes, uint32_t>, grid, to, from, uint32_t(count),
           uint32_t(per_row), relu);
  } else {
    launch(context, add_bias_to<T, lanes, int64_t>, grid, to, from, count, per_row, relu);
  }
}

}  // namespace

void add_bias(Context& context, const TensorView& y, const TensorView& bias, bool relu) {
  if (y.numel() == 0) return;
  dispatch_float(y.dtype, "add_bias", [&](auto zero) {
    using T = decltype(zero);
    constexpr int lanes = 16 / int(sizeof(T));
    if (aligned_16(y.data, bias.data) && y.shape[-1] % lanes == 0) {
      add_bias_by<T, lanes>(context, y, bias, relu);
    } else {
      add_bias_by<T, 1>(context, y, bias, relu);
    }
  });
}

}  // namespace adret::cuda
