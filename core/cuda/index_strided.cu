// Copies into a dense output from an operand read by strides.
#include <adret/core/cuda/elementwise.h>
#include <adret/core/cuda/index_strided.h>

namespace adret::cuda {
namespace {

template <class T>
__global__ void copy_elements(const T* x, T* y, const __grid_constant__ NestOffsets<1> offsets,
                              uint32_t count) {
  begin_kernel();
  move_items<T>(
      count, [=](uint32_t i) { return y + i; }, [&](uint32_t i) { return x + offsets(i).at[0]; });
}

// For an innermost stride of 0 and a multiple of n as size: n equal elements at once.
template <class T, int n>
__global__ void repeat_elements(const T* x, Vector<T, n>* y,
                                const __grid_constant__ NestOffsets<1> offsets, uint32_t vectors) {
  begin_kernel();
  for (uint32_t i = uint32_t(first_item()); i < vectors; i += uint32_t(all_threads())) {
    y[i] = load_run<T, n>(x + offsets(i * n).at[0], true);
  }
}

// The same loops over units of `factor` elements, which are contiguous in the operand.
LoopNest<1> in_units(const LoopNest<1>& nest, int64_t factor) {
  LoopNest<1> units;
  for (int d = 0; d + 1 < nest.rank(); ++d) {
    units.add(nest.size(d), {nest.stride(d, 0) / factor});
  }
  if (nest.rank() > 0) units.add(nest.inner_size() / factor, {1});
  return units;
}

template <class T>
void copy_part(const Context& context, const LoopNest<1>& nest, const T* x, T* y) {
  constexpr int n = vector_size<T, T>;
  const uint32_t count = uint32_t(nest.total());
  if (n > 1 && nest.inner_stride(0) == 0 && nest.inner_size() % n == 0 && is_aligned(y, n)) {
    launch(context, repeat_elements<T, n>, grid_for(context, count / n), x,
           reinterpret_cast<Vector<T, n>*>(y), nest.offsets(), count / n);
  } else {
    launch(context, copy_elements<T>, grid_unrolled(context, count, move_unroll), x, y,
           nest.offsets(), count);
  }
}

}  // namespace

void copy_strided(const Context& context, const LoopNest<1>& nest, const TensorView& x,
                  const TensorView& y) {
  const size_t element = size_of(y.dtype);
  size_t unit = element;
  if (nest.inner_stride(0) == 1) {
    unit = common_unit(uintptr_t(x.data), uintptr_t(y.data), size_t(nest.inner_size()) * element);
    for (int d = 0; d + 1 < nest.rank(); ++d) {
      unit = common_unit(unit, size_t(nest.stride(d, 0)) * element);
    }
  }
  const LoopNest<1> units = unit == element ? nest : in_units(nest, int64_t(unit / element));
  dispatch_unit(unit, [&](auto zero) {
    using T = decltype(zero);
    units.for_parts([&](const LoopNest<1>& part, int64_t first, const auto& place) {
      copy_part(context, part, x.as<T>() + place[0], y.as<T>() + first);
    });
  });
}

}  // namespace adret::cuda
