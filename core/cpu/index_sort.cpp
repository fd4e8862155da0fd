// Lines put in order, or the first of them.
#include <adret/core/cpu/dispatch.h>
#include <adret/core/cpu/kernels.h>
#include <adret/core/cpu/lines.h>
#include <adret/core/cpu/scratch.h>

#include <algorithm>
#include <bit>
#include <type_traits>

namespace adret::cpu {
namespace {

// Unsigned integers in the order of the values: NaN is the largest, and 0 equals -0.
template <class T>
auto order_of(T value) {
  using Bits = std::conditional_t<sizeof(T) == 8, uint64_t, uint32_t>;
  constexpr Bits sign = Bits(1) << (8 * sizeof(Bits) - 1);
  if constexpr (std::is_integral_v<T>) {
    return Bits(Bits(value) ^ (std::is_signed_v<T> ? sign : 0));
  } else {
    if (value != value) return Bits(~Bits(0));
    const auto bits = std::bit_cast<Bits>(value == 0 ? T(0) : value);
    return Bits(bits & sign ? ~bits : bits | sign);
  }
}

// What stands for an element, whose place decides among equal ones: a single number where it fits.
class ShortKey {
 public:
  ShortKey(uint64_t order, int64_t place) : bits_(order << 32 | uint64_t(place)) {}
  int64_t place() const { return int64_t(uint32_t(bits_)); }
  bool operator<(const ShortKey& other) const { return bits_ < other.bits_; }

 private:
  uint64_t bits_;
};
class LongKey {
 public:
  LongKey(uint64_t order, int64_t place) : order_(order), place_(place) {}
  int64_t place() const { return place_; }
  bool operator<(const LongKey& other) const {
    return order_ != other.order_ ? order_ < other.order_ : place_ < other.place_;
  }

 private:
  uint64_t order_;
  int64_t place_;
};

template <class Key, class T>
void sort(const kernels::Sort& call) {
  const Lines lines(call.x.shape, call.dim);
  const T* x = call.x.as<T>();
  T* y = call.y.as<T>();
  int64_t* indices = call.indices.as<int64_t>();
  const int64_t wanted = call.y.shape[call.dim];
  const bool few = 8 * wanted < lines.length;
  const int64_t comparisons =
      lines.length * (few ? 1 : int64_t(std::bit_width(uint64_t(lines.length))));
  parallel_for(lines.outer * lines.inner, items_per_chunk(math_grain, comparisons),
               [&](int64_t begin, int64_t end) {
                 auto* const keys = thread_scratch<Key>(lines.length);
                 for (int64_t line = begin; line < end; ++line) {
                   const int64_t outer = line / lines.inner, column = line % lines.inner;
                   const T* const from = x + outer * lines.length * lines.inner + column;
                   for (int64_t i = 0; i < lines.length; ++i) {
                     const auto order = order_of(from[i * lines.inner]);
                     keys[i] = Key(call.descending ? decltype(order)(~order) : order, i);
                   }
                   if (few) {
                     std::partial_sort(keys, keys + wanted, keys + lines.length);
                   } else {
                     std::sort(keys, keys + lines.length);
                   }
                   int64_t to = outer * wanted * lines.inner + column;
                   for (int64_t i = 0; i < wanted; ++i, to += lines.inner) {
                     y[to] = from[keys[i].place() * lines.inner];
                     if (indices) indices[to] = keys[i].place();
                   }
                 }
               });
}

}  // namespace

void run(const kernels::Sort& call) {
  if (call.y.numel() == 0) return;
  dispatch_all(call.x.dtype, [&](auto zero) {
    using T = decltype(zero);
    if constexpr (sizeof(T) != 2) {  // 16 bits come as f32 (widened.h)
      if (sizeof(T) < 8 && call.x.shape[call.dim] <= UINT32_MAX) return sort<ShortKey, T>(call);
      sort<LongKey, T>(call);
    }
  });
}

}  // namespace adret::cpu
