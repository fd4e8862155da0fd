// Compares two recordings call by call.
#include <adret/core/decorators/record.h>
#include <adret/core/kernels/fields.h>
#include <fmt/core.h>

#include <algorithm>
#include <type_traits>

namespace adret {
namespace {

// The number of every placeholder of a recording.
class Numbers {
 public:
  explicit Numbers(const Recording& recording) : numbers_(number_placeholders(recording)) {}
  // Whether `view` is the same operand as `other` of another recording.
  bool same(const TensorView& view, const TensorView& other, const Numbers& of_other) const {
    if (!view.defined() || !other.defined()) return view.defined() == other.defined();
    const auto mine = numbers_.find(view.storage), its = of_other.numbers_.find(other.storage);
    const bool placed = mine != numbers_.end(), its_placed = its != of_other.numbers_.end();
    return view.data == other.data && view.shape == other.shape && view.dtype == other.dtype &&
           placed == its_placed &&
           (placed ? mine->second == its->second : view.storage == other.storage);
  }

 private:
  const std::unordered_map<const Storage*, size_t> numbers_;
};

class Comparison {
 public:
  Comparison(const Recording& a, const Recording& b) : a_(a), b_(b) {}

  bool same(const Kernel& a, const Kernel& b) const {
    if (a.index() != b.index()) return false;
    return std::visit(
        [&](const auto& kernel) {
          return same(kernel, std::get<std::decay_t<decltype(kernel)>>(b.any()));
        },
        a.any());
  }
  bool same(const TensorView& a, const TensorView& b) const { return a_.same(a, b, b_); }

 private:
  template <class K>
  bool same(const K& a, const K& b) const {
    bool equal = true;
    kernels::for_each_field(a, [&]<class Field>(const Field& field) {
      const size_t at = size_t(reinterpret_cast<const std::byte*>(&field) -
                               reinterpret_cast<const std::byte*>(&a));
      const auto& other =
          *reinterpret_cast<const Field*>(reinterpret_cast<const std::byte*>(&b) + at);
      if constexpr (std::is_same_v<Field, TensorView>) {
        equal = equal && same(field, other);
      } else {
        equal = equal && field == other;
      }
    });
    return equal;
  }
  bool same(const kernels::Custom& a, const kernels::Custom& b) const {
    const auto same_view = [this](const TensorView& x, const TensorView& y) { return same(x, y); };
    return a.kernel->equals(*b.kernel) && std::ranges::equal(a.in, b.in, same_view) &&
           std::ranges::equal(a.out, b.out, same_view);
  }

  Numbers a_, b_;
};

// Of custom kernels that may print alike.
bool other_constants(const Kernel& before, const Kernel& after) {
  const auto *a = std::get_if<kernels::Custom>(&before.any()),
             *b = std::get_if<kernels::Custom>(&after.any());
  return a && b && !a->kernel->equals(*b->kernel);
}

}  // namespace

std::string first_difference(const Recording& before, const Recording& after) {
  const Comparison comparison(before, after);
  const size_t calls = std::min(before.calls.size(), after.calls.size());
  for (size_t i = 0; i < calls; ++i) {
    if (comparison.same(before.calls[i].call(), after.calls[i].call())) continue;
    const std::string first = to_string(before.calls[i].call()),
                      then = to_string(after.calls[i].call());
    if (first == then && other_constants(before.calls[i].call(), after.calls[i].call())) {
      return fmt::format(
          "call {}, {} in {}, had other constants than before; pass what changes as a tensor", i,
          first, after.places[i]);
    }
    if (first == then) {
      return fmt::format(
          "call {}, {} in {}, worked on other memory than before; pass what changes to the step", i,
          first, after.places[i]);
    }
    return fmt::format("call {} was {} in {}, then {} in {}", i, first, before.places[i], then,
                       after.places[i]);
  }
  if (before.calls.size() != after.calls.size()) {
    const Recording& longer = before.calls.size() > calls ? before : after;
    return fmt::format("it made {} kernel calls, then {}; one has {} in {} beyond",
                       before.calls.size(), after.calls.size(),
                       to_string(longer.calls[calls].call()), longer.places[calls]);
  }
  const auto bytes = [](const auto& one) { return one->bytes(); };
  const auto same_output = [&](const auto& a, const auto& b) { return comparison.same(a, b); };
  if (!std::ranges::equal(before.placeholders, after.placeholders, {}, bytes, bytes) ||
      !std::ranges::equal(before.outputs, after.outputs, same_output)) {
    return "it returned other tensors";
  }
  return {};
}

}  // namespace adret
