// Lines put in order.
#include <adret/core/cpu/dispatch.h>
#include <adret/core/cpu/kernels.h>
#include <adret/core/cpu/lines.h>
#include <adret/core/cpu/scratch.h>

#include <algorithm>
#include <bit>

namespace adret::cpu {
namespace {

template <class T>
struct Element {
  T value;
  int64_t place;
};

// Whether a comes before b: NaN is the largest, and of equal ones the first stays first.
template <bool descending, class T>
bool comes_before(const Element<T>& a, const Element<T>& b) {
  const bool a_is_nan = a.value != a.value, b_is_nan = b.value != b.value;
  if (a_is_nan != b_is_nan) return descending ? a_is_nan : b_is_nan;
  if (a.value == b.value || a_is_nan) return a.place < b.place;
  return descending ? a.value > b.value : a.value < b.value;
}

template <class T>
void sort(const kernels::Sort& call) {
  const Lines lines(call.x.shape, call.dim);
  const T* x = call.x.as<T>();
  T* y = call.y.as<T>();
  int64_t* indices = call.indices.as<int64_t>();
  const int64_t comparisons = lines.length * int64_t(std::bit_width(uint64_t(lines.length)));
  parallel_for(lines.outer * lines.inner, items_per_chunk(math_grain, comparisons),
               [&](int64_t begin, int64_t end) {
                 auto* const elements = thread_scratch<Element<T>>(lines.length);
                 for (int64_t line = begin; line < end; ++line) {
                   const int64_t outer = line / lines.inner;
                   const int64_t first = outer * (lines.length - 1) * lines.inner + line;
                   for (int64_t i = 0; i < lines.length; ++i) {
                     elements[i] = {x[first + i * lines.inner], i};
                   }
                   std::sort(elements, elements + lines.length,
                             call.descending ? comes_before<true, T> : comes_before<false, T>);
                   for (int64_t i = 0; i < lines.length; ++i) {
                     y[first + i * lines.inner] = elements[i].value;
                     if (indices) indices[first + i * lines.inner] = elements[i].place;
                   }
                 }
               });
}

}  // namespace

void run(const kernels::Sort& call) {
  if (call.y.numel() == 0) return;
  dispatch_all(call.x.dtype, [&](auto zero) {
    using T = decltype(zero);
    // 16 bits come as f32 (widened.h).
    if constexpr (!std::is_same_v<T, bfloat16> && !std::is_same_v<T, float16>) sort<T>(call);
  });
}

}  // namespace adret::cpu
