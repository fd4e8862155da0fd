// The choice between two operands, all of which broadcast.
#include <adret/core/cuda/elementwise.h>
#include <adret/core/cuda/kernels.h>

namespace adret::cuda {
namespace {

struct Repeats {
  bool condition, a, b;  // one element along the innermost dimension
};

// The first `vectors` * n elements of y as vectors, each within a run of the innermost dimension,
// then `tail` elements one by one.
template <int n, class T>
__global__ void select_elements(const uint8_t* condition, const T* a, const T* b, T* y,
                                const __grid_constant__ NestOffsets<3> offsets, Repeats repeats,
                                uint32_t vectors, uint32_t tail) {
  begin_kernel();
  const uint32_t first = uint32_t(first_item()), step = uint32_t(all_threads());
  for (uint32_t i = first; i < vectors; i += step) {
    const auto places = offsets(i * n);
    const auto chosen = load_run<uint8_t, n>(condition + places.at[0], repeats.condition);
    const auto from_a = load_run<T, n>(a + places.at[1], repeats.a);
    const auto from_b = load_run<T, n>(b + places.at[2], repeats.b);
    Vector<T, n> result;
#pragma unroll
    for (int k = 0; k < n; ++k) result.at[k] = chosen.at[k] ? from_a.at[k] : from_b.at[k];
    *reinterpret_cast<Vector<T, n>*>(y + size_t(i) * n) = result;
  }
  if (first < tail) {
    const uint32_t place = vectors * n + first;
    const auto places = offsets(place);
    y[place] = condition[places.at[0]] ? a[places.at[1]] : b[places.at[2]];
  }
}

// Whether vectors of n elements of an operand are whole and aligned, or one element repeated.
template <class T>
bool goes_in_vectors(const LoopNest<3>& nest, int operand, const T* from, int n) {
  return nest.inner_stride(operand) == 0 ||
         (is_aligned(from, size_t(n)) && nest.outer_strides_divide_by(n, operand));
}

template <class T>
void run_in(const Context& context, const kernels::Select& call, const LoopNest<3>& nest) {
  nest.for_parts([&](const LoopNest<3>& part, int64_t first, const auto& place) {
    constexpr int n = vector_size<T, T>;
    const uint8_t* const condition = call.condition.as<uint8_t>() + place[0];
    const T *const a = call.a.as<T>() + place[1], *const b = call.b.as<T>() + place[2];
    T* const y = call.y.as<T>() + first;
    const bool in_vectors = is_aligned(y, n) && (part.rank() <= 1 || part.inner_size() % n == 0) &&
                            goes_in_vectors(part, 0, condition, n) &&
                            goes_in_vectors(part, 1, a, n) && goes_in_vectors(part, 2, b, n);
    const Repeats repeats{part.inner_stride(0) == 0, part.inner_stride(1) == 0,
                          part.inner_stride(2) == 0};
    const uint32_t total = uint32_t(part.total());
    const uint32_t vectors = in_vectors ? total / n : total;
    const uint32_t tail = in_vectors ? total % n : 0;
    launch(context, in_vectors ? select_elements<n, T> : select_elements<1, T>,
           grid_for(context, std::max(vectors, tail)), condition, a, b, y, part.offsets(), repeats,
           vectors, tail);
  });
}

}  // namespace

void run(Context& context, const kernels::Select& call) {
  LoopNest<3> nest;
  if (call.condition.shape == call.y.shape && call.a.shape == call.y.shape &&
      call.b.shape == call.y.shape) {
    nest.add(call.y.numel(), {1, 1, 1});
  } else {
    nest = broadcast_nest<3>(call.y.shape, {&call.condition.shape, &call.a.shape, &call.b.shape});
  }
  dispatch_size(call.y.dtype, [&](auto zero) { run_in<decltype(zero)>(context, call, nest); });
}

}  // namespace adret::cuda
