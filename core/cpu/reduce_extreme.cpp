// The largest or smallest element of each line, and its place.
#include <adret/core/cpu/dispatch.h>
#include <adret/core/cpu/kernels.h>
#include <adret/core/cpu/lines.h>

namespace adret::cpu {
namespace {

// Whether a later element takes the place of the best one so far: NaN does, but of another NaN.
template <bool largest, class T>
bool beats(T later, T best) {
  return (largest ? later > best : later < best) || (later != later && best == best);
}

template <bool largest, class T>
void run_in(const kernels::Extreme& call) {
  const Lines lines(call.x.shape, call.dim);
  const T* x = call.x.as<T>();
  T* values = call.values.as<T>();
  int64_t* indices = call.indices.as<int64_t>();
  lines.for_blocks([&](int64_t first, int64_t offset, int64_t width) {
    T best[lines_width];
    int64_t at[lines_width] = {};
    std::copy_n(x + offset, width, best);
    for (int64_t i = 1; i < lines.length; ++i) {
      const T* row = x + offset + i * lines.inner;
      for (int64_t c = 0; c < width; ++c) {
        const bool better = beats<largest>(row[c], best[c]);
        best[c] = better ? row[c] : best[c];
        at[c] = better ? i : at[c];
      }
    }
    if (call.values.defined()) std::copy_n(best, width, values + first);
    if (call.indices.defined()) std::copy_n(at, width, indices + first);
  });
}

}  // namespace

void run(const kernels::Extreme& call) {
  const auto with = [&](auto zero) {
    using T = decltype(zero);
    call.largest ? run_in<true, T>(call) : run_in<false, T>(call);
  };
  switch (call.x.dtype) {
    case DType::i32: return with(int32_t());
    case DType::i64: return with(int64_t());
    default: dispatch_float(call.x.dtype, call.name, with);
  }
}

}  // namespace adret::cpu
