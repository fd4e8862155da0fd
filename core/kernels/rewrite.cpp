// A kernel call on other operands. The kernels' structs are taken apart field by field, so that a
// new kernel or field needs nothing here.
#include <adret/core/kernels/rewrite.h>

#include <type_traits>
#include <utility>

namespace adret {
namespace {

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

// f(field) for every field of an aggregate.
template <class K, class F>
void for_each_field(K& k, F f) {
  const auto each = [&](auto&... fields) { (f(fields), ...); };
  constexpr size_t n = field_count<K>();
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

}  // namespace

RewrittenCall::RewrittenCall(const Kernel& call, const Replace& replace) : call_(call) {
  const auto rewritten = [&](std::span<const TensorView> views) {
    std::vector<TensorView> list(views.begin(), views.end());
    for (TensorView& view : list) {
      if (view.defined()) view = replace(view);
    }
    return list;
  };
  std::visit(
      [&](auto& kernel) {
        if constexpr (std::is_same_v<decltype(kernel), kernels::Custom&>) {
          kernel.in = in_ = rewritten(kernel.in);
          kernel.out = out_ = rewritten(kernel.out);
        } else {
          for_each_field(kernel, [&](auto& field) {
            if constexpr (std::is_same_v<decltype(field), TensorView&>) {
              if (field.defined()) field = replace(field);
            }
          });
        }
      },
      static_cast<kernels::AnyKernel&>(call_));
}

}  // namespace adret
