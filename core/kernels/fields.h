// The fields of a kernel's struct one by one, so that a new kernel or field needs nothing
// elsewhere.
#pragma once

#include <adret/core/tensor_view.h>

#include <cstddef>
#include <type_traits>
#include <utility>

namespace adret::kernels {
namespace detail {

struct AnyField {
  template <class T>
  operator T() const;  // never defined: it only asks how many fields an aggregate takes
};

template <class K, size_t... I>
constexpr bool takes_fields(std::index_sequence<I...>) {
  return requires { K{(static_cast<void>(I), AnyField{})...}; };
}

constexpr size_t most_fields = 16;

template <class K, size_t N = most_fields>
constexpr size_t field_count() {
  static_assert(N > 0 && !takes_fields<K>(std::make_index_sequence<most_fields + 1>()),
                "a kernel of more fields than for_each_field knows");
  if constexpr (takes_fields<K>(std::make_index_sequence<N>())) {
    return N;
  } else {
    return field_count<K, N - 1>();
  }
}

}  // namespace detail

// f(field) for every field of an aggregate.
template <class K, class F>
void for_each_field(K& k, F f) {
  const auto each = [&](auto&... fields) { (f(fields), ...); };
  constexpr size_t n = detail::field_count<std::remove_const_t<K>>();
#define ADRET_FIELDS(count, ...) \
  if constexpr (n == count) {    \
    auto& [__VA_ARGS__] = k;     \
    each(__VA_ARGS__);           \
  }
  ADRET_FIELDS(1, a)
  ADRET_FIELDS(2, a, b)
  ADRET_FIELDS(3, a, b, c)
  ADRET_FIELDS(4, a, b, c, d)
  ADRET_FIELDS(5, a, b, c, d, e)
  ADRET_FIELDS(6, a, b, c, d, e, g)
  ADRET_FIELDS(7, a, b, c, d, e, g, h)
  ADRET_FIELDS(8, a, b, c, d, e, g, h, i)
  ADRET_FIELDS(9, a, b, c, d, e, g, h, i, j)
  ADRET_FIELDS(10, a, b, c, d, e, g, h, i, j, l)
  ADRET_FIELDS(11, a, b, c, d, e, g, h, i, j, l, m)
  ADRET_FIELDS(12, a, b, c, d, e, g, h, i, j, l, m, o)
  ADRET_FIELDS(13, a, b, c, d, e, g, h, i, j, l, m, o, p)
  ADRET_FIELDS(14, a, b, c, d, e, g, h, i, j, l, m, o, p, q)
  ADRET_FIELDS(15, a, b, c, d, e, g, h, i, j, l, m, o, p, q, r)
  ADRET_FIELDS(16, a, b, c, d, e, g, h, i, j, l, m, o, p, q, r, s)
#undef ADRET_FIELDS
}

// f(operand) for every operand, defined or not, as the struct holds it. A custom kernel's are in
// lists and are not among them.
template <class K, class F>
void for_each_operand(K& k, F f) {
  for_each_field(k, [&]<class Field>(Field& field) {
    if constexpr (std::is_same_v<std::remove_const_t<Field>, TensorView>) f(field);
  });
}

}  // namespace adret::kernels
