// A recorded list of calls while pairs of them are replaced, and what can be asked of it.
#pragma once

#include <adret/core/decorators/record.h>
#include <adret/core/kernels/kernel.h>
#include <adret/core/storage.h>

#include <cstddef>
#include <optional>
#include <string>
#include <unordered_set>
#include <utility>
#include <vector>

namespace adret {

struct ListedCall {
  Kernel call;
  std::string place;
  bool beside = false;  // see Note [Lanes]
};

class CallList {
 public:
  // The recording must outlive it.
  explicit CallList(const Recording& recording);

  size_t size() const { return list_.size(); }
  const Kernel& call(size_t i) const { return list_[i].call; }
  template <class K>
  K* at(size_t i) {
    return std::get_if<K>(&static_cast<kernels::AnyKernel&>(list_[i].call));
  }

  void erase(size_t i) { list_.erase(list_.begin() + std::ptrdiff_t(i)); }
  void insert(size_t i, ListedCall call) {
    list_.insert(list_.begin() + std::ptrdiff_t(i), std::move(call));
  }
  const std::string& place(size_t i) const { return list_[i].place; }
  // Those between move up or down by one.
  void move(size_t from, size_t to);
  // Whether a custom kernel from call `first` on has an operand there: those stay where they are.
  bool is_fixed(size_t first, const TensorView& view) const;
  // New memory for what the calls from `first` on do with that of `view`, which is not fixed; gives
  // the view of it.
  TensorView replace_memory(size_t first, const TensorView& view);
  // Memory of the list's own.
  TensorView make_temporary(const Shape& shape, DType dtype);

  // Whether a view is of memory that the recorded step made and did not return.
  bool is_temporary(const TensorView& view) const { return temporary_.contains(view.storage); }
  bool reads(size_t i, const TensorView& view) const;
  bool writes(size_t i, const TensorView& view) const;
  // The calls behind `i` that touch the view.
  std::vector<size_t> touching_after(size_t i, const TensorView& view) const;
  // The one call that reads what call `i` leaves in `view`, which it may do in place; none if that
  // is read elsewhere.
  std::optional<size_t> only_reader(size_t i, const TensorView& view) const;
  // Whether no call between `i` and `j` writes the view, or touches it at all.
  bool unwritten_between(size_t i, size_t j, const TensorView& view) const;
  bool untouched_between(size_t i, size_t j, const TensorView& view) const;
  // Call `j` of type K, if it alone reads `from`, which call `i` writes, and its result may be
  // there as early as call `i`.
  template <class K>
  std::optional<size_t> follower(size_t i, const TensorView& from, TensorView K::*result) {
    const std::optional<size_t> j = only_reader(i, from);
    if (!j || !at<K>(*j) || !untouched_between(i, *j, at<K>(*j)->*result)) return {};
    return j;
  }
  // The call of type K that wrote `view` as this result; null if none did.
  template <class K>
  K* maker(TensorView K::*result, const TensorView& view) {
    for (size_t i = 0; i < size(); ++i) {
      if (K* const made = at<K>(i); made && same(made->*result, view)) return made;
    }
    return nullptr;
  }

  static bool same(const TensorView& a, const TensorView& b) {
    return a.storage == b.storage && a.data == b.data && a.shape == b.shape && a.dtype == b.dtype;
  }
  static TensorView reshaped(TensorView view, const Shape& shape) {
    view.shape = shape;
    return view;
  }

  // What the list is now, and its placeholders.
  std::vector<ListedCall> take_calls() { return std::move(list_); }
  std::vector<IntrusivePtr<Storage>> take_placeholders() { return std::move(placeholders_); }

 private:
  const Device device_;
  std::vector<ListedCall> list_;
  std::vector<IntrusivePtr<Storage>> placeholders_;
  std::unordered_set<const Storage*> temporary_;
};

}  // namespace adret
